"""What can be done with a job, and the next job on the cluster that comes of it."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from presage.orchestrator.facts import MEMORY_STEP, bigger_place, memory_ceiling_bytes, untried_places
from presage.orchestrator.jobs import ManagedJob, Phase, Place, SubJob

if TYPE_CHECKING:
    from presage.orchestrator.rules import Decision

WALLTIME_MARGIN = 1.2
_LEAST_WALLTIME_S = 60.0


class Action(StrEnum):
    """What a rule may ask for."""

    BEGIN = "begin"
    """Submit the first job."""
    CONTINUE = "continue"
    """Submit the next one, for as long as the rest takes."""
    RETRY = "retry"
    """The same again."""
    LONGER = "longer"
    """Again, with twice the time."""
    MORE_MEMORY = "more-memory"
    BIGGER_PLACE = "bigger-place"
    HALF_BATCH = "half-batch"
    ELSEWHERE = "elsewhere"
    """At the next of its places."""
    SUBMIT_SUCCESSOR = "submit-successor"
    """Submit the next one already; it starts when the present one has ended."""
    CANCEL_SUCCESSOR = "cancel-successor"
    WAIT = "wait"
    FINISH = "finish"
    FAIL = "fail"
    STOP = "stop"


ENDS = {Action.FINISH: Phase.COMPLETED, Action.FAIL: Phase.FAILED, Action.STOP: Phase.CANCELLED}
"""Actions that end a managed job, and what it is then."""


def next_sub_job(job: ManagedJob, decision: Decision) -> SubJob:
    """Return the job to submit by an action that submits one."""
    last = next((each for each in reversed(job.sub_jobs) if not each.is_cancelled_by_us), None)
    place = last.place if last is not None else job.order.places[0]
    divisor = last.batch_divisor if last is not None else 1
    match decision.action:
        case Action.CONTINUE | Action.SUBMIT_SUCCESSOR:
            place = _for_the_rest(job, place, _left_s(job, decision))
        case Action.LONGER:
            place = _longer(place)
        case Action.MORE_MEMORY:
            place = _with_more_memory(job, place)
        case Action.BIGGER_PLACE:
            place = bigger_place(job, place) or place
        case Action.HALF_BATCH:
            divisor *= 2
        case Action.ELSEWHERE:
            place = _elsewhere(job, place)
    number = len(job.sub_jobs) + 1
    follows = last.cluster_job_id if last is not None and last.ending is None else None
    done = job.progress.done if job.progress is not None else None
    return SubJob(number, f"presage-{job.job_id}-{number}", place, divisor, follows=follows, done_before=done)


def why_not(job: ManagedJob, action: Action) -> str:
    """Return why an action cannot be taken now, whichever rule asked for it; empty if it can."""
    # Those that were cancelled count until the cluster says that they have ended: no two may run at once.
    live = [each for each in job.sub_jobs if each.ending is None]
    if action is Action.WAIT or action in ENDS:
        return ""
    if action is Action.CANCEL_SUCCESSOR:
        heirs = [each for each in live if each.follows is not None and not each.is_cancelled_by_us]
        return "" if heirs else "there is no successor"
    if len(job.sub_jobs) >= job.order.most_sub_jobs:
        return f"it has had {len(job.sub_jobs)} jobs on the cluster and may have no more"
    if action is Action.SUBMIT_SUCCESSOR:
        return "" if len(live) == 1 and live[0].is_running else "it needs one job that runs, and no other"
    return "another job of it is there already" if live else ""


def _left_s(job: ManagedJob, decision: Decision) -> float | None:
    """Return how much work there will be for the next job; what is left of a running one's time is not."""
    left_s = decision.facts.get("work_left_s")
    if left_s is None:
        return job.progress.left_s if job.progress is not None else None
    if decision.action is Action.SUBMIT_SUCCESSOR:
        used_s = float(decision.facts.get("limit_left_s") or 0.0) - job.order.signal_before_s
        return float(left_s) - max(0.0, used_s)
    return float(left_s)


def _for_the_rest(job: ManagedJob, place: Place, left_s: float | None) -> Place:
    if left_s is None or place.walltime_s is None:
        return place
    asked_s = max(_LEAST_WALLTIME_S, WALLTIME_MARGIN * left_s + job.order.signal_before_s)
    return replace(place, walltime_s=min(asked_s, place.limit_s) if place.limit_s else asked_s)


def _longer(place: Place) -> Place:
    if place.walltime_s is None:
        return place
    twice_s = 2 * place.walltime_s
    return replace(place, walltime_s=min(twice_s, place.limit_s) if place.limit_s else twice_s)


def _with_more_memory(job: ManagedJob, place: Place) -> Place:
    if place.memory_bytes is None:
        return place
    wanted = round(place.memory_bytes * MEMORY_STEP)
    ceiling = memory_ceiling_bytes(job, place)
    return replace(place, memory_bytes=min(wanted, ceiling) if ceiling else wanted)


def _elsewhere(job: ManagedJob, place: Place) -> Place:
    others = [each for each in job.order.places if each != place]
    return (untried_places(job) or others or [place])[0]
