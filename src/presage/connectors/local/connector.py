"""This machine as a connector."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage.clusters.systems import Limits, NodeType, Partition, Scheduler, System
from presage.connectors._base import (
    Connector,
    Discovers,
    HoldsJobs,
    JobStatus,
    SharesFiles,
    SignalsJobs,
    Submission,
    check_signal,
)
from presage.connectors.local.state import CANCELLED, PENDING, RUNNING, SIGNAL_PREFIX, State, read_json, write_json
from presage.connectors.local.waiting import advance, end
from presage.database.places import state_home
from presage.errors import ClusterRefusedError, ClusterUnreachableError, UsageError
from presage.fanout import memory_of_machine_bytes
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection

PARTITION = "local"
GRACE_S = 5.0


class LocalConnector(Connector, Discovers, SignalsJobs, HoldsJobs, SharesFiles):
    """A queue on this machine whose state is in `folder`, which is made if it is not there.

    Without a folder it is one in the folder of Presage's own state. Jobs may have `cores` and `gpus` together: all
    cores and no GPU, unless said otherwise now or before; a job that says nothing gets one core. One that passes
    its walltime or is cancelled gets SIGTERM, and SIGKILL if it is still there `grace_s` later. One that holds
    more memory than it asked for, all its processes together, is killed. Raises ClusterUnreachableError if the
    folder cannot be used.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        cores: int | None = None,
        gpus: int | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        if (cores is not None and cores < 1) or (gpus is not None and gpus < 0):
            raise UsageError("A queue needs at least one core, and not less than no GPU")
        self.grace_s = grace_s
        place = state_home() / "local" if folder is None else Path(folder)
        self._state = State(place.absolute())
        try:
            self._state.make()
            self._note_capacity(cores, gpus)
        except OSError as error:
            raise ClusterUnreachableError(
                f"The local queue cannot live in {str(place)!r}: {error.strerror or error}",
                remedy="Name a folder that can be written to",
            ) from None

    @property
    def capacity(self) -> dict[str, int]:
        """How many `cores` and `gpus` jobs may have together."""
        return {what: int(count) for what, count in read_json(self._state.folder / "queue.json").items()}

    def submit(self, submission: Submission) -> str:
        """Hand a job over and return its id; a key that is known already gives the job it has."""
        asked = self._asked(submission)
        try:
            with self._state.locked():
                return self.find(submission.key) or self._admit(submission, asked)
        except OSError as error:
            raise ClusterUnreachableError(
                f"The local queue in {self._state.folder} cannot take the job: {error.strerror or error}",
                remedy="Check the space and the rights on the disk",
            ) from None

    def statuses(self, job_ids: Collection[str]) -> dict[str, JobStatus]:
        known = [job_id for job_id in job_ids if self._state.has(job_id)]
        with self._state.locked():
            advance(self._state)
        return {job_id: self._status(job_id) for job_id in known}

    def cancel(self, job_ids: Collection[str]) -> None:
        state = self._state
        with state.locked():
            for job_id in filter(state.has, job_ids):
                if state.status(job_id)["state"] == PENDING:
                    end(state, job_id, CANCELLED, "cancelled by its owner")
                elif not state.is_final(job_id):
                    (state.job(job_id) / "cancel").touch()
            advance(state)

    def find(self, key: str) -> str | None:
        if not key or "/" in key or key.startswith("."):
            return None
        with contextlib.suppress(OSError, ValueError):
            job_id = (self._state.folder / "keys" / key).read_text().strip()
            # A crash may have left the key of a job that was never made, and its number to another.
            if self._state.has(job_id) and self._state.asked(job_id)["key"] == key:
                return job_id
        return None

    def signal(self, job_ids: Collection[str], name: str) -> None:
        check_signal(name)
        for job_id in filter(self._state.has, job_ids):
            if self._state.status(job_id)["state"] == RUNNING:
                (self._state.job(job_id) / f"{SIGNAL_PREFIX}{name}").touch()

    def hold(self, job_ids: Collection[str]) -> None:
        with self._state.locked():
            for job_id in filter(self._state.has, job_ids):
                (self._state.job(job_id) / "held").touch()
            advance(self._state)

    def release(self, job_ids: Collection[str]) -> None:
        with self._state.locked():
            for job_id in filter(self._state.has, job_ids):
                (self._state.job(job_id) / "held").unlink(missing_ok=True)
            advance(self._state)

    def discover(self, name: str | None = None) -> System:
        """Return this machine with what the queue may have of it."""
        capacity, memory_bytes = self.capacity, memory_of_machine_bytes()
        node_type = NodeType("this-machine", capacity["cores"], memory_bytes, count=1, gpus=capacity["gpus"])
        partition = Partition(PARTITION, (node_type.name,), Limits(max_nodes=1, max_memory_bytes=memory_bytes))
        return System(name or platform.node() or PARTITION, Scheduler.LOCAL, (node_type,), (partition,))

    def _note_capacity(self, cores: int | None, gpus: int | None) -> None:
        with self._state.locked():
            known = self.capacity
            wanted = {
                "cores": cores or known.get("cores") or os.cpu_count() or 1,
                "gpus": known.get("gpus", 0) if gpus is None else gpus,
            }
            if wanted != known:
                write_json(self._state.folder / "queue.json", wanted)

    def _asked(self, submission: Submission) -> dict[str, Any]:
        """Return what the runner must know. Raises ClusterRefusedError for what this machine cannot give."""
        cores = max(submission.cores_per_node or 1, submission.tasks_per_node or 1)
        gpus = submission.gpus_per_node or 0
        folder = Path(submission.working_directory or Path.cwd()).absolute()
        self._check_sizes(submission, cores, gpus)
        if not folder.is_dir():
            raise ClusterRefusedError(f"There is no folder {str(folder)!r} to work in")
        ambient = {name: value for name, value in os.environ.items() if not name.startswith("PRESAGE_")}
        return {
            "key": submission.key,
            "name": submission.name,
            "arguments": list(submission.arguments),
            "working_directory": str(folder),
            "environment": {**ambient, **submission.environment},
            "cores": cores,
            "gpus": gpus,
            "memory_bytes": submission.memory_bytes,
            "walltime_s": submission.walltime_s,
            "signal": submission.signal,
            "signal_before_s": submission.signal_before_s,
            "grace_s": self.grace_s,
            "depends_on": list(submission.depends_on),
            "only_after_success": submission.only_after_success,
            "comment": submission.comment,
        }

    def _check_sizes(self, submission: Submission, cores: int, gpus: int) -> None:
        capacity = self.capacity
        needs = {"nodes": submission.nodes or 1, "cores": cores, "gpus": gpus}
        for what, most in {"nodes": 1, **capacity}.items():
            if needs[what] > most:
                raise ClusterRefusedError(
                    f"The job asks for {needs[what]} {what}, and jobs on this machine may have {most}",
                    remedy="Ask for less, or submit to a cluster",
                )
        if submission.partition not in (None, PARTITION):
            raise ClusterRefusedError(
                f"There is no partition {submission.partition!r} here", expected=f"none, or {PARTITION!r}"
            )

    def _admit(self, submission: Submission, asked: dict[str, Any]) -> str:
        state = self._state
        self._check_dependencies(submission)
        job_id = str(max(map(int, os.listdir(state.folder / "jobs")), default=0) + 1)  # noqa: PTH208  (names alone)
        self._store(job_id, submission, asked)
        state.move(job_id, PENDING)
        advance(state)
        return job_id

    def _check_dependencies(self, submission: Submission) -> None:
        for job_id in submission.depends_on:
            if not self._state.has(job_id):
                raise ClusterRefusedError(f"There is no job {job_id[:40]!r} to wait for")

    def _store(self, job_id: str, submission: Submission, asked: dict[str, Any]) -> None:
        """Write a job's folder, all at once; the key first, so that no job is ever without one."""
        folder = self._state.job(job_id)
        output = _output(submission.output, job_id, folder, Path(asked["working_directory"]))
        part = self._state.folder / f"new.{os.getpid()}"
        part.mkdir(mode=0o700, exist_ok=True)
        (part / "script").write_bytes(os.fsencode(submission.script))
        write_json(part / "job.json", {**asked, "output": str(output)})
        write_json(part / "status.json", {"state": PENDING, "submit_s": time.time(), "reason": ""})
        (self._state.folder / "keys" / submission.key).write_text(job_id)
        part.rename(folder)

    def _status(self, job_id: str) -> JobStatus:
        asked, status = self._state.asked(job_id), self._state.status(job_id)
        return JobStatus(
            job_id=job_id,
            state=Outcome(status["state"]),
            key=asked["key"],
            reason=status.get("reason", ""),
            submit_time=_time(status.get("submit_s")),
            start_time=_time(status.get("start_s")),
            end_time=_time(status.get("end_s")),
            exit_code=status.get("exit_code"),
            signal=status.get("signal"),
            nodes=1,
            partition=PARTITION,
            walltime_s=asked["walltime_s"],
            max_rss_bytes=status.get("max_rss_bytes"),
            memory_bytes=asked["memory_bytes"],
        )


def _output(output: str | None, job_id: str, folder: Path, working_directory: Path) -> Path:
    if output is None:
        return folder / "output.txt"
    parts = [part.replace("%j", job_id) for part in output.split("%%")]
    return working_directory / "%".join(parts)


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
