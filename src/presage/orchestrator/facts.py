"""What rules can ask about a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from presage.orchestrator.holding import can_hold
from presage.orchestrator.jobs import Ending
from presage.orchestrator.prospects import (
    RESTART_S,
    current_place,
    ended_at,
    open_places,
    other_places,
    prospects_of,
    ran_for_s,
    times_longer,
    work_left_s,
)
from presage.orchestrator.submissions import warning_s

if TYPE_CHECKING:
    from datetime import datetime

    from presage.orchestrator.jobs import ManagedJob, Place, SubJob
    from presage.orchestrator.prospects import Prospect, Waits

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
    "open_places": "how many of all its places have not refused it",
    "longer_possible": "whether it may ask for more time where it is",
    "running": "whether a job of it runs",
    "waiting": "whether its only job is in a queue",
    "here_s": "seconds since its only job was submitted",
    "moves": "how often it was moved",
    "can_hold": "whether a job of it can be kept from working while another does",
    "move_to": "where it would be done sooner if it gave up what it has here",
    "move_wait_s": "how long it would wait there",
    "move_gain_s": "how much sooner it would be done, in seconds",
    "move_gain_share": "the same, as a share of the time until it is done otherwise",
    "join_at": "where it would gain by being as well: in the queue while it runs, or at work while it waits",
    "join_wait_s": "how long it would wait there",
    "join_gain_s": "how much sooner it would be done, in seconds",
    "join_gain_share": "the same, as a share",
    "relief_runs": "whether the job that takes over from another has started",
    "relief_gain_s": "how much sooner it is done if the other ends now",
    "has_successor": "whether the next one is submitted already",
    "successor_cancelled": "whether somebody else cancelled the next one, or one that should take over",
    "outlasts_limit": "whether it will not be done when its time is up, or when it is told to save before that",
    "limit_left_s": "seconds until its time is up",
    "work_left_s": "seconds until it is done, as measured or estimated",
    "wait_s": "how long the next job is expected to wait",
    "submit_in_s": "seconds until the next job should be submitted",
    "done": "share of its work that is done",
}


def _nobody_knows(_: Place) -> float | None:
    return None


def facts_of(job: ManagedJob, now: datetime, waits: Waits = _nobody_knows) -> dict[str, Any]:
    """Return all that is known now; what is not known is left out."""
    order = job.order
    facts: dict[str, Any] = {
        "sub_jobs": len(job.sub_jobs),
        "sub_jobs_left": order.most_sub_jobs - len(job.sub_jobs),
        "resumable": order.is_resumable,
        "other_places": len(order.places) - 1,
        "untried_places": len(untried_places(job)),
        "open_places": len(open_places(job)),
        "on_out_of_memory": order.on_out_of_memory.value,
        "moves": sum(each.ending is Ending.MOVED for each in job.sub_jobs),
        "can_hold": can_hold(job),
    }
    if job.progress is not None and job.progress.is_known:
        facts["done"] = job.progress.done / job.progress.total
    wanted = [each for each in job.sub_jobs if not each.is_cancelled_by_us]
    live = [each for each in wanted if each.ending is None]
    relief = next((each for each in live if each.takes_over is not None), None)
    if relief is not None:
        facts |= _facts_of_relief(job, relief, now)
    elif other_places(job):
        facts |= _facts_of_prospects(job, now, waits)
    if len(live) == 1 and live[0].tried_at is not None:
        facts["here_s"] = (now - live[0].tried_at).total_seconds()
    running = [each for each in live if each.is_running and each is not relief]
    ended = [each for each in wanted if each.ending is not None]
    fruitless = _fruitless(ended)
    facts |= {"fruitless": fruitless, "failures_left": order.most_failures - fruitless}
    is_left = relief is not None and job.sub_job(relief.takes_over).ending is not None
    if is_left or _has(ended, Ending.COMPLETED):  # whatever else is there
        return facts | _facts_of_ending(job, ended) | {"has_successor": bool(live)}
    if running:
        # Asked for only where a successor may come of it: not by every job at every look.
        wait_s = (waits(current_place(job)) or 0.0) if order.is_resumable else 0.0
        facts |= {"wait_s": wait_s} | _facts_of_running(job, running[0], now, wait_s)
        facts |= {"has_successor": len(live) > 1, "successor_cancelled": _has(ended, Ending.CANCELLED)}
        return facts
    if len(live) == 1 and live[0].follows is None and live[0] is not relief:
        cancelled = _has(ended, Ending.CANCELLED)
        waiting = not live[0].is_submitting
        return facts | {"waiting": waiting, "has_successor": False, "successor_cancelled": cancelled}
    # A waiting job that was submitted because of how the last one ended leaves nothing to decide.
    if ended and all(each.follows is not None and each.follows == _last(ended).cluster_job_id for each in live):
        facts |= _facts_of_ending(job, ended) | {"has_successor": bool(live)}
    return facts


def untried_places(job: ManagedJob) -> list[Place]:
    """Return the places of the order that no job was submitted to."""
    tried = {each.place.spot for each in job.sub_jobs}
    return [each for each in job.order.places if each.spot not in tried]


def _last(ended: list[SubJob]) -> SubJob:
    """Return the job whose end counts: one that completed, one that somebody cancelled, else the last to end."""
    for ending in (Ending.COMPLETED, Ending.CANCELLED):
        for each in ended:
            if each.ending is ending:
                return each
    return max(ended, key=ended_at)


def _has(ended: list[SubJob], ending: Ending) -> bool:
    return any(each.ending is ending for each in ended)


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
    return {
        "ended": True,
        "ending": last.ending.value if last.ending else None,
        "words": last.reason,
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
        if each.ending is Ending.MOVED:
            continue
        count += 1
    return count


def _facts_of_running(job: ManagedJob, running: SubJob, now: datetime, wait_s: float) -> dict[str, Any]:
    facts: dict[str, Any] = {"running": True}
    status = running.status
    limit_s = running.place.walltime_s or (status.walltime_s if status else None)
    if status is None or status.start_time is None or limit_s is None:
        return facts
    limit_left_s = limit_s - ran_for_s(running, now)
    facts |= {"limit_left_s": limit_left_s, "submit_in_s": limit_left_s - wait_s - SUBMIT_MARGIN_S}
    left_s = work_left_s(job, now)
    if left_s is not None:
        warned_s = warning_s(job.order, limit_s) if job.order.is_resumable else 0.0
        facts |= {"work_left_s": left_s, "outlasts_limit": left_s > limit_left_s - warned_s}
    return facts


def _facts_of_prospects(job: ManagedJob, now: datetime, waits: Waits) -> dict[str, Any]:
    prospects = prospects_of(job, now, waits)
    return _named("move", "move_to", prospects.move) | _named("join", "join_at", prospects.join)


def _named(prefix: str, where: str, prospect: Prospect | None) -> dict[str, Any]:
    if prospect is None:
        return {}
    return {
        where: prospect.place.title,
        f"{prefix}_wait_s": prospect.wait_s,
        f"{prefix}_gain_s": prospect.gain_s,
        f"{prefix}_gain_share": prospect.gain_share,
    }


def _facts_of_relief(job: ManagedJob, relief: SubJob, now: datetime) -> dict[str, Any]:
    if not relief.is_running:
        return {"relief_runs": False}
    other = job.sub_job(relief.takes_over)
    left_s = work_left_s(job, now)
    if left_s is None or not other.is_running:
        return {"relief_runs": True}
    return {
        "relief_runs": True,
        "relief_gain_s": left_s * (1 - times_longer(other.place, relief.place)) - RESTART_S,
    }
