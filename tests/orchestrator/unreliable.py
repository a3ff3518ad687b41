"""Planes as processes, on a simulated cluster that times out, lies, and answers twice or out of order.

python -m tests.orchestrator.unreliable FOLDER DATABASE_URL

gives birth to a plane for every seed that it reads, and writes its process id when it begins to work. Everything
is imported by then, so that a plane does not spend its life on that.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import signal
import sys
import threading
from collections.abc import Collection
from pathlib import Path

from presage.connectors import JobStatus, Submission
from presage.connectors.simulated import SimulatedConnector
from presage.database import Database
from presage.errors import ClusterTimeoutError, ClusterUnreachableError
from presage.orchestrator.plane import Pace, Plane
from presage.orchestrator.store import Store

NEEDED = (
    "presage.database.migrations",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.dialects.postgresql.psycopg",
    "psycopg",
)
RATE = 300.0
NODES = 400
FAULTS = 0.08
PACE = Pace(lease_s=20, least_pause_s=0.05, most_pause_s=0.5, visit_s=0.5, retry_s=0.1, settle_s=0.0, misses=4)


class Unreliable(SimulatedConnector):
    """Fails before or after it did what it was asked; forgets jobs for a moment; remembers old states."""

    def __init__(self, file: Path, seed: int) -> None:
        super().__init__(file, nodes=NODES, rate=RATE)
        self._random = random.Random(seed)
        self._old: dict[str, JobStatus] = {}

    def submit(self, submission: Submission) -> str:
        self._maybe_fail()
        job_id = super().submit(submission)
        self._maybe_fail()
        return job_id

    def statuses(self, job_ids: Collection[str]) -> dict[str, JobStatus]:
        self._maybe_fail()
        found = super().statuses(job_ids)
        fresh = dict(found)
        for job_id in list(found):
            if self._random.random() < FAULTS / 4:
                del found[job_id]
            elif job_id in self._old and self._random.random() < FAULTS:
                found[job_id] = self._old[job_id]
        self._old |= fresh
        return found

    def cancel(self, job_ids: Collection[str]) -> None:
        self._maybe_fail()
        super().cancel(job_ids)
        self._maybe_fail()

    def find(self, key: str) -> str | None:
        self._maybe_fail()
        return super().find(key)

    def _maybe_fail(self) -> None:
        chance = self._random.random()
        if chance < FAULTS / 2:
            raise ClusterTimeoutError("no answer in time")
        if chance < FAULTS:
            raise ClusterUnreachableError("nobody answers")


def main(folder: Path, url: str) -> None:
    """Give birth to planes until nobody asks for one any more."""
    for module in NEEDED:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead go at once
    for line in sys.stdin:
        if os.fork() == 0:
            work(folder, url, int(line))


def work(folder: Path, url: str, seed: int) -> None:
    """Be a plane until killed."""
    cluster = Unreliable(folder / "cluster.sqlite", seed)
    plane = Plane(Store(Database(url)), {"sim": cluster}, name=f"plane-{seed % 2}", pace=PACE)
    sys.stdout.write(f"{os.getpid()}\n")
    sys.stdout.flush()
    plane.run(threading.Event(), pause_s=0.02)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
