"""How many workers the next job of an elastic run gets, by how fast it went with those it had."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from presage.orchestrator.jobs import Ending, Unit
from presage.orchestrator.prospects import ran_for_s

if TYPE_CHECKING:
    from presage.orchestrator.jobs import Elastic, ManagedJob, Place, Progress, SubJob
    from presage.orchestrator.rules import Decision

_LEAST_RUN_S = 30.0
"""Shorter runs say more of starting than of working."""


@dataclass(frozen=True)
class Size:
    """So many workers, and why."""

    workers: int
    reason: str


def resized(job: ManagedJob, place: Place) -> Place:
    """Return a place with as many workers as the run should have next; as it is if the job is not elastic."""
    size = next_size(job, place)
    return place if size is None else _with_workers(place, job.order.elastic, size.workers)


def next_size(job: ManagedJob, place: Place) -> Size | None:
    """Return how many workers to have next at a place; None if the job is not elastic or nothing was measured.

    As long as twice as many pay, they are tried; a number that did not pay is not tried again there.
    """
    elastic = job.order.elastic
    if elastic is None:
        return None
    speeds = measured_speeds(job, place)
    if not speeds:
        return None
    best = min(speeds)
    for workers in sorted(speeds)[1:]:
        if speeds[workers] / speeds[best] < elastic.efficiency * workers / best:
            return _bounded(elastic, best, f"{workers} did {_times(speeds, best, workers)} what {best} did")
        best = workers
    more = min(2 * best, elastic.most)
    if more > best:
        return _bounded(elastic, more, f"{best} did {speeds[best]:.3g} of its units a second; more may pay")
    return _bounded(elastic, best, "it has as many as it may have, and they pay")


def with_size(decision: Decision, job: ManagedJob, sub_job: SubJob) -> Decision:
    """Return a decision that also says why the next job has another number of workers."""
    before = next((each.place for each in reversed(job.sub_jobs) if each.place.spot == sub_job.place.spot), None)
    size = next_size(job, sub_job.place)
    elastic = job.order.elastic
    if before is None or size is None or elastic is None:
        return decision
    had, gets = workers_of(before, elastic), workers_of(sub_job.place, elastic)
    if had == gets:
        return decision
    words = f"{decision.reason}; with {gets} {elastic.unit.value} instead of {had}: {size.reason}"
    return replace(decision, reason=words)


def measured_speeds(job: ManagedJob, place: Place) -> dict[int, float]:
    """Return units of progress per second by number of workers, for the jobs that ran at this place.

    More workers than some that it ran with, which the cluster refused, do none.
    """
    found: dict[int, list[float]] = {}
    for each in job.sub_jobs:
        speed = _speed(each, job.progress)
        if speed is not None and each.place.spot == place.spot:
            found.setdefault(workers_of(each.place, job.order.elastic), []).append(speed)
    for each in job.sub_jobs:
        workers = workers_of(each.place, job.order.elastic)
        if each.ending is Ending.REFUSED and each.place.spot == place.spot and found and workers > min(found):
            found.setdefault(workers, [0.0])
    return {workers: median(speeds) for workers, speeds in found.items()}


def workers_of(place: Place, elastic: Elastic | None) -> int:
    """Return how many workers a job has at a place."""
    match elastic.unit if elastic is not None else Unit.NODES:
        case Unit.CORES:
            return place.cores or 1
        case Unit.GPUS:
            return place.gpus or 1
        case _:
            return place.nodes


def _speed(sub_job: SubJob, progress: Progress | None) -> float | None:
    """Return how fast a job was, or is; None if it told of no progress or hardly ran."""
    status = sub_job.status
    if status is None or progress is None or not progress.is_known:
        return None
    is_over = sub_job.ending is not None
    end, done = (status.end_time, sub_job.done_after) if is_over else (progress.at, progress.done)
    if end is None or done is None:
        return None
    ran_s, gained = ran_for_s(sub_job, end), done - (sub_job.done_before or 0.0)
    return gained / ran_s if ran_s >= _LEAST_RUN_S and gained > 0 else None


def _bounded(elastic: Elastic, workers: int, reason: str) -> Size:
    return Size(min(max(workers, elastic.least), elastic.most), reason)


def _times(speeds: dict[int, float], before: int, after: int) -> str:
    return f"{speeds[after] / speeds[before]:.2f} times"


def _with_workers(place: Place, elastic: Elastic | None, workers: int) -> Place:
    match elastic.unit if elastic is not None else Unit.NODES:
        case Unit.CORES:
            return replace(place, cores=workers)
        case Unit.GPUS:
            return replace(place, gpus=workers)
        case _:
            return replace(place, nodes=workers)
