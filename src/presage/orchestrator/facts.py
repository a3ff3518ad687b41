"""What rules can ask about a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from presage.orchestrator.jobs import Ending

if TYPE_CHECKING:
    from datetime import datetime

    from presage.orchestrator.jobs import ManagedJob, Place, SubJob

SUBMIT_MARGIN_S = 60.0
"""How much earlier than its expected wait a successor is submitted."""
MEMORY_STEP = 1.5

FACTS = {
    "sub_jobs": "jobs on the cluster so far",
    "sub_jobs_left": "how many more it may have",
    "resumable": "whether it can go on from a checkpoint",
    "ended": "whether its last job has ended and none runs",
    "ending": "how it ended: one of presage.orchestrator.jobs.Ending",
    "words": "what the cluster said about it",
    "fruitless": "jobs in a row that ended without getting further",
    "failures_left": "how many more of those are borne",
    "on_out_of_memory": "what its owner wants then: more-memory, bigger-node, half-batch, fail",
    "more_memory_possible": "whether it may ask for more where it is",
    "bigger_place": "whether another place has more memory",
    "other_places": "how many other places it may run at",
    "untried_places": "how many of them it was not submitted to yet",
    "longer_possible": "whether it may ask for more time where it is",
    "running": "whether a job of it runs",
    "has_successor": "whether the next one is submitted already",
    "successor_cancelled": "whether somebody else cancelled the next one",
    "outlasts_limit": "whether it will not be done when its time is up",
    "limit_left_s": "seconds until its time is up",
    "work_left_s": "seconds until it is done, as measured or estimated",
    "wait_s": "how long the next job is expected to wait",
    "submit_in_s": "seconds until the next job should be submitted",
    "done": "share of its work that is done",
}


def facts_of(job: ManagedJob, now: datetime, wait_s: float = 0.0) -> dict[str, Any]:
    """Return all that is known now; what is not known is left out. `wait_s`: that a new job of it would have."""
    order = job.order
    facts: dict[str, Any] = {
        "sub_jobs": len(job.sub_jobs),
        "sub_jobs_left": order.most_sub_jobs - len(job.sub_jobs),
        "resumable": order.is_resumable,
        "other_places": len(order.places) - 1,
        "untried_places": len(untried_places(job)),
        "on_out_of_memory": order.on_out_of_memory.value,
        "wait_s": wait_s,
    }
    if job.progress is not None and job.progress.is_known:
        facts["done"] = job.progress.done / job.progress.total
    wanted = [each for each in job.sub_jobs if not each.is_cancelled_by_us]
    live = [each for each in wanted if each.ending is None]
    running = [each for each in live if each.is_running]
    if running:
        facts |= _facts_of_running(job, running[0], now, wait_s)
        facts |= {"has_successor": len(live) > 1, "successor_cancelled": _is_heir_cancelled(wanted, running[0])}
        return facts
    ended = [each for each in wanted if each.ending is not None]
    # A waiting job that was submitted because of how the last one ended leaves nothing to decide.
    if ended and all(each.follows is not None and each.follows == _last(ended).cluster_job_id for each in live):
        facts |= _facts_of_ending(job, ended) | {"has_successor": bool(live)}
    return facts


def untried_places(job: ManagedJob) -> list[Place]:
    """Return the places of the order that no job was submitted to."""
    tried = {(each.place.cluster, each.place.partition) for each in job.sub_jobs}
    return [each for each in job.order.places if (each.cluster, each.partition) not in tried]


def _last(ended: list[SubJob]) -> SubJob:
    """Return the job whose end counts: one that completed, whatever became of those after it, else the last."""
    return next((each for each in ended if each.ending is Ending.COMPLETED), ended[-1])


def _is_heir_cancelled(wanted: list[SubJob], running: SubJob) -> bool:
    return any(each.number > running.number and each.ending is Ending.CANCELLED for each in wanted)


def bigger_place(job: ManagedJob, place: Place) -> Place | None:
    """Return another place of the order whose nodes have more memory, the first of them."""
    has = place.most_memory_bytes or place.memory_bytes or 0
    return next(
        (each for each in job.order.places if (each.most_memory_bytes or each.memory_bytes or 0) > has), None
    )


def memory_ceiling_bytes(job: ManagedJob, place: Place) -> int | None:
    """Return what may be asked for there at the most; None: nobody said."""
    known = [each for each in (job.order.memory_ceiling_bytes, place.most_memory_bytes) if each is not None]
    return min(known) if known else None


def _facts_of_ending(job: ManagedJob, ended: list[SubJob]) -> dict[str, Any]:
    last = _last(ended)
    place, ceiling = last.place, memory_ceiling_bytes(job, last.place)
    fruitless = _fruitless(ended)
    return {
        "ended": True,
        "ending": last.ending.value if last.ending else None,
        "words": last.reason,
        "fruitless": fruitless,
        "failures_left": job.order.most_failures - fruitless,
        "more_memory_possible": place.memory_bytes is not None
        and (ceiling is None or place.memory_bytes < ceiling),
        "bigger_place": bigger_place(job, place) is not None,
        "longer_possible": place.walltime_s is not None
        and (place.limit_s is None or place.walltime_s < place.limit_s),
    }


def _fruitless(sub_jobs: list[SubJob]) -> int:
    """Return how many of the last jobs brought nothing: no progress that is known of, and no plan behind it."""
    count = 0
    for each in reversed(sub_jobs):
        got_further = each.done_after is not None and each.done_after > (each.done_before or 0.0)
        # Without reports of progress, a job that was cut off at its limit is taken to have used its time.
        used_its_time = each.done_after is None and each.ending in (Ending.TIMEOUT, Ending.CONTINUED)
        if got_further or used_its_time or each.ending is Ending.COMPLETED:
            break
        count += 1
    return count


def _facts_of_running(job: ManagedJob, running: SubJob, now: datetime, wait_s: float) -> dict[str, Any]:
    facts: dict[str, Any] = {"running": True}
    status = running.status
    limit_s = running.place.walltime_s or (status.walltime_s if status else None)
    if status is None or status.start_time is None or limit_s is None:
        return facts
    ran_s = (now - status.start_time).total_seconds()
    limit_left_s = limit_s - ran_s
    facts |= {"limit_left_s": limit_left_s, "submit_in_s": limit_left_s - wait_s - SUBMIT_MARGIN_S}
    work_left_s = _work_left_s(job, now, ran_s)
    if work_left_s is not None:
        facts |= {"work_left_s": work_left_s, "outlasts_limit": work_left_s > limit_left_s}
    return facts


def _work_left_s(job: ManagedJob, now: datetime, ran_s: float) -> float | None:
    """Return how long the rest takes: by measured progress where there is some, else by what was expected."""
    progress = job.progress
    if progress is not None and progress.left_s is not None:
        return max(0.0, progress.left_s - (now - progress.at).total_seconds())
    if job.order.work_s is None:
        return None
    earlier_s = sum(_ran_s(each) for each in job.sub_jobs if each.ending is not None)
    return max(0.0, job.order.work_s - earlier_s - ran_s)


def _ran_s(sub_job: SubJob) -> float:
    status = sub_job.status
    if status is None or status.start_time is None or status.end_time is None:
        return 0.0
    return (status.end_time - status.start_time).total_seconds()
