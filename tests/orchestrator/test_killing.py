"""Planes that are killed at any moment, on a cluster not to be trusted: nothing is lost, nothing runs twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Self

import pytest

from presage.connectors.simulated import MEMORY, WORK, SimulatedConnector
from presage.database import Database
from presage.orchestrator.jobs import FINAL, Order, Phase, Place
from presage.orchestrator.store import Store
from presage.testing.postgres import PostgresServer
from tests.orchestrator import unreliable

GIB = 1 << 30
ROOT = Path(__file__).parents[2]


def orders(folder: Path, count: int, seed: int) -> list[Order]:
    """Return short jobs, jobs longer than their limit, and jobs that need more memory than they ask for."""
    made = random.Random(seed)
    orders = []
    for number in range(count):
        work_s = made.choice([60, 300, 900, 2000])
        memory = made.choice([0, 0, 6 * GIB])
        place = Place("sim", walltime_s=600, limit_s=600, memory_bytes=4 * GIB, most_memory_bytes=16 * GIB)
        environment = {WORK: str(work_s), MEMORY: str(memory)}
        run_folder = str(folder / f"run-{number}")
        orders.append(
            Order(f"job-{number}", "#!/bin/sh\n", (place,), environment=environment, run_folder=run_folder)
        )
    return orders


def kill_and_finish(
    store: Store,
    folder: Path,
    url: str,
    *,
    jobs: int,
    kills: int,
    seed: int,
    most_s: float,
    restarts: Sequence[Callable[[], object]] = (),
) -> int:
    """Hand jobs over, kill planes at random moments, let the last ones finish; returns how many were killed.

    There are always two planes, and the older one is killed, at work and while there are jobs. Between kills,
    spread over them, `restarts` are done in their order while both planes work. After `most_s` nothing more is
    waited for.
    """
    for order in orders(folder, jobs, seed):
        store.add("ann", order)
    moments = random.Random(seed)
    deadline = time.monotonic() + most_s
    due = {2 + (2 * number + 1) * kills // (2 * len(restarts)): each for number, each in enumerate(restarts)}
    killed = 0
    with Births(folder, url) as births:
        planes = deque([births.bear(seed * 1000), births.bear(seed * 1000 + 1)])
        for life in range(2, kills + 2):
            time.sleep(moments.uniform(0.05, 0.45))
            if life in due:
                due.pop(life)()
            is_over = not store.jobs(active_only=True, most=1)
            if is_over or time.monotonic() > deadline - most_s / 3:
                break
            births.end(planes.popleft())
            killed += 1
            planes.append(births.bear(seed * 1000 + life))
        while store.jobs(active_only=True, most=1) and time.monotonic() < deadline:
            time.sleep(0.5)
    return killed


class Births:
    """A process that gives birth to planes; a context manager, which ends them all."""

    def __init__(self, folder: Path, url: str) -> None:
        command = [sys.executable, "-m", unreliable.__name__, str(folder), url]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def bear(self, seed: int) -> int:
        """Return the process id of a plane that has begun to work: who is killed before that proves nothing."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(seed, file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def end(self, plane: int) -> None:
        """Kill a process as nothing can prepare for."""
        os.kill(plane, signal.SIGKILL)
        while True:
            try:
                os.kill(plane, 0)
            except ProcessLookupError:
                return
            time.sleep(0.005)


def assert_nothing_lost_or_doubled(store: Store, folder: Path, jobs: int) -> None:
    cluster = SimulatedConnector(folder / "cluster.sqlite")
    found = store.jobs(most=jobs + 1)
    assert len(found) == jobs
    assert {job.phase for job in found} <= FINAL
    for job in found:
        assert job.phase is Phase.COMPLETED, (job.order.name, job.reason)
        for sub_job in job.sub_jobs:
            assert len(cluster.jobs_of_key(sub_job.key)) <= 1, (job.order.name, sub_job.key)


@pytest.mark.slow
def test_twenty_kills_lose_nothing_and_run_nothing_twice(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'plane.sqlite'}"
    store = Store(Database(url))
    assert kill_and_finish(store, tmp_path, url, jobs=60, kills=20, seed=3, most_s=180) == 20
    assert_nothing_lost_or_doubled(store, tmp_path, 60)


@pytest.mark.slow
def test_a_database_that_is_restarted_in_the_middle_loses_nothing(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.empty_database()
    database = Database(url)
    store = Store(database)
    restarts = [partial(postgres.restart, crash=crash, away_s=0.3) for crash in (False, True)]
    assert kill_and_finish(store, tmp_path, url, jobs=20, kills=4, seed=7, most_s=90, restarts=restarts) == 4
    assert_nothing_lost_or_doubled(store, tmp_path, 20)
    database.close()
