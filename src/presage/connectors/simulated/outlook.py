"""When waiting jobs of a simulated cluster start if every job takes as long as it may."""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from presage.connectors.simulated.partitions import partitions_of
from presage.connectors.simulated.queue import is_id

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator

NEWCOMER = 2**62
"""The number of a job that is not submitted yet: larger than all others."""
_NOBODY = -1


@dataclass(frozen=True)
class Waiting:
    """A job in the queue."""

    job_id: int
    partition: str
    nodes: int
    walltime_s: float
    depends_on: frozenset[int]
    only_after_success: bool


class Outlook:
    """The queue as it is now, to be played forward once, by the rule of the cluster itself.

    Jobs that run or wait are taken to end well, and when their time is up.
    """

    def __init__(self, state: sqlite3.Connection, now_s: float, newcomer: Waiting | None = None) -> None:
        self._now_s = now_s
        self._free = {name: partition.nodes for name, partition in partitions_of(state).items()}
        self._ends: list[tuple[float, int, int, str]] = []
        for end_s, job_id, nodes, partition in state.execute(
            "SELECT start_s + walltime_s, id, nodes, partition FROM jobs WHERE state = 'running'"
        ):
            self._occupy(max(now_s, end_s), job_id, nodes, partition)
        waiting = [*_waiting(state), *([newcomer] if newcomer else [])]
        self._jobs = {job.job_id: job for job in waiting}
        self._missing: dict[int, set[int]] = {}
        self._dependents: dict[int, list[int]] = {}
        # By partition and number of nodes: whom to start is then one of few, however many wait.
        self._ready: dict[str, dict[int, list[int]]] = {name: {} for name in self._free}
        self._line_up(state, waiting)

    def starts(self, wanted: Collection[int]) -> dict[int, float]:
        """Return when these jobs start; those that never do, or do not wait, are left out."""
        starts: dict[int, float] = {}
        left, now_s = self._jobs.keys() & set(wanted), self._now_s
        while left:
            for job_id in self._start_what_fits(now_s):
                starts[job_id] = now_s
                left.discard(job_id)
            if not self._ends:
                break
            now_s, ended, nodes, partition = heapq.heappop(self._ends)
            self._free[partition] += nodes
            for job_id in self._dependents.pop(ended, ()):
                self._missing[job_id].discard(ended)
                if not self._missing[job_id]:
                    self._make_ready(self._jobs[job_id])
        return {job_id: starts[job_id] for job_id in wanted if job_id in starts}

    def _line_up(self, state: sqlite3.Connection, waiting: list[Waiting]) -> None:
        active = {job_id for _, job_id, _, _ in self._ends} | self._jobs.keys()
        completed = _completed(state, {each for job in waiting for each in job.depends_on})
        for job in waiting:  # in their order, so that what never starts is known before those that wait for it
            missing = job.depends_on & active
            if job.only_after_success and job.depends_on - missing - completed:
                active.discard(job.job_id)
                continue
            self._missing[job.job_id] = set(missing)
            for each in missing:
                self._dependents.setdefault(each, []).append(job.job_id)
            if not missing:
                self._make_ready(job)

    def _make_ready(self, job: Waiting) -> None:
        heapq.heappush(self._ready[job.partition].setdefault(job.nodes, []), job.job_id)

    def _start_what_fits(self, now_s: float) -> Iterator[int]:
        for partition, by_nodes in self._ready.items():
            while fitting := [ids for nodes, ids in by_nodes.items() if ids and nodes <= self._free[partition]]:
                job_id = heapq.heappop(min(fitting, key=lambda ids: ids[0]))
                job = self._jobs[job_id]
                self._occupy(now_s + job.walltime_s, job_id, job.nodes, partition)
                yield job_id

    def _occupy(self, end_s: float, job_id: int, nodes: int, partition: str) -> None:
        self._free[partition] -= nodes
        heapq.heappush(self._ends, (end_s, job_id, nodes, partition))


def ids_of(depends_on: Iterable[str]) -> frozenset[int]:
    """Return the numbers of jobs to wait for; what is no number stands for a job that is not there."""
    return frozenset(int(each) if is_id(each) else _NOBODY for each in depends_on)


def _waiting(state: sqlite3.Connection) -> Iterator[Waiting]:
    rows = state.execute(
        "SELECT id, partition, nodes, walltime_s, json_extract(submission, '$.depends_on') AS depends_on,"
        " json_extract(submission, '$.only_after_success') AS only_after_success"
        " FROM jobs WHERE state = 'pending' ORDER BY id"
    )
    for row in rows:
        job_id, partition, nodes, walltime_s, depends_on, only_after_success = row
        yield Waiting(
            job_id, partition, nodes, walltime_s, ids_of(json.loads(depends_on)), bool(only_after_success)
        )


def _completed(state: sqlite3.Connection, job_ids: set[int]) -> set[int]:
    rows = state.execute(
        "SELECT id FROM jobs WHERE state = 'completed' AND id IN (SELECT value FROM json_each(?))",
        (json.dumps(sorted(job_ids)),),
    )
    return {row[0] for row in rows}
