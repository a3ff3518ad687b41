"""The folder that a local queue lives in; its parts are told in the package's own words."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import TYPE_CHECKING, Any

from presage.errors import ClusterTimeoutError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK_TIMEOUT_S = 60.0
_LOCK_POLL_S = 0.01
PENDING = "pending"
RUNNING = "running"
COMPLETED = "completed"
CANCELLED = "cancelled"
NODE_FAILURE = "node_failure"
SIGNAL_PREFIX = "signal-"
"""Of files in the folder of a running job, each of which asks for a signal."""


class State:
    """The files of one queue. What changes the queue is done with `locked`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self) -> None:
        """Make the folders that are not there yet, for the owner's eyes only."""
        for name in ("jobs", PENDING, RUNNING, "keys"):
            (self.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the queue. Raises ClusterTimeoutError if another process does not let go of it."""
        with (self.folder / "lock").open("w") as lock:
            deadline = time.monotonic() + LOCK_TIMEOUT_S
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if time.monotonic() > deadline:
                    raise ClusterTimeoutError(
                        f"The local queue in {self.folder} has been held for more than {LOCK_TIMEOUT_S:g} s",
                        remedy="See which process hangs, and end it",
                    )
                time.sleep(_LOCK_POLL_S)
            yield

    def job(self, job_id: str) -> Path:
        """Return the folder of a job."""
        return self.folder / "jobs" / job_id

    def has(self, job_id: str) -> bool:
        """Return whether there is such a job; safe for any text."""
        return job_id.isascii() and job_id.isdecimal() and len(job_id) < 16 and self.job(job_id).is_dir()

    def listed(self, where: str) -> list[str]:
        """Return the jobs in `pending` or `running`, the oldest first."""
        return sorted(os.listdir(self.folder / where), key=int)  # noqa: PTH208  (names alone)

    def asked(self, job_id: str) -> dict[str, Any]:
        """Return what was asked for a job."""
        return read_json(self.job(job_id) / "job.json")

    def status(self, job_id: str) -> dict[str, Any]:
        """Return how a job stands."""
        return read_json(self.job(job_id) / "status.json")

    def update(self, job_id: str, **changes: object) -> None:
        """Change how a job stands."""
        write_json(self.job(job_id) / "status.json", {**self.status(job_id), **changes})

    def is_final(self, job_id: str) -> bool:
        """Return whether a job has ended."""
        return self.status(job_id).get("state") not in (PENDING, RUNNING)

    def move(self, job_id: str, where: str | None) -> None:
        """Note a job as `pending` or `running`, or as neither."""
        if where:
            (self.folder / where / job_id).touch()
        for other in (PENDING, RUNNING):
            if other != where:
                (self.folder / other / job_id).unlink(missing_ok=True)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file, an empty one if there is no file."""
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    return found


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write an object so that no reader ever sees half of it."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with part.open("w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
