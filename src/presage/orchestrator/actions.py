"""What can be done with a job, and the next job on the cluster that comes of it."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from presage.orchestrator.elastic import resized
from presage.orchestrator.facts import MEMORY_STEP, bigger_place, memory_ceiling_bytes, untried_places
from presage.orchestrator.holding import is_holdable
from presage.orchestrator.jobs import ManagedJob, Phase, Place, SubJob
from presage.orchestrator.prospects import last_sub_job, open_places, times_longer

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    GO_THERE = "go-there"
    """Submit the next one where it will be done sooner (`move_to`)."""
    MOVE = "move"
    """End the present one, after it has saved if it runs, and go on there (`move_to`)."""
    JOIN = "join"
    """Submit another one (`join_at`) beside the present one; of the two, the better takes over when it starts."""
    HAND_OVER = "hand-over"
    """Tell the lesser of the two to save and end, and let the better one work."""
    CANCEL_RELIEF = "cancel-relief"
    """Take back the one that should take over."""
    WAIT = "wait"
    FINISH = "finish"
    FAIL = "fail"
    STOP = "stop"


ENDS = {Action.FINISH: Phase.COMPLETED, Action.FAIL: Phase.FAILED, Action.STOP: Phase.CANCELLED}
"""Actions that end a managed job, and what it is then."""
_WHERE = {Action.MOVE: "move_to", Action.JOIN: "join_at"}
"""The facts that say where a job goes that is not at its end."""


def next_sub_job(job: ManagedJob, decision: Decision) -> SubJob:
    """Return the job to submit by an action that submits one."""
    last = last_sub_job(job)
    place = job.order.places[0] if last is None else last.moves_to or last.place
    divisor = last.batch_divisor if last is not None else 1
    match decision.action:
        case Action.CONTINUE | Action.SUBMIT_SUCCESSOR:
            left_s = _left_s(job, decision)
            if left_s is not None and last is not None:
                left_s *= times_longer(last.place, place)
            place = _for_the_rest(job, resized(job, place), left_s)
        case Action.GO_THERE | Action.JOIN:
            place = place_there(job, place, decision)
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
    is_live = last is not None and last.ending is None
    follows = last.cluster_job_id if last is not None and is_live and decision.action is not Action.JOIN else None
    takes_over = last.number if last is not None and decision.action is Action.JOIN and last.is_running else None
    done = job.progress.done if job.progress is not None else None
    return SubJob(
        number,
        f"presage-{job.job_id}-{number}",
        place,
        divisor,
        follows=follows,
        done_before=done,
        takes_over=takes_over,
    )


def place_there(job: ManagedJob, here: Place, decision: Decision) -> Place:
    """Return the place that a decision names, with what was learned here about memory and the rest of the work."""
    title = decision.facts.get("join_at" if decision.action is Action.JOIN else "move_to")
    there = next((each for each in job.order.places if each.title == title), here)
    if there.memory_bytes is not None and here.memory_bytes is not None:
        wanted, ceiling = max(there.memory_bytes, here.memory_bytes), memory_ceiling_bytes(job, there)
        there = replace(there, memory_bytes=min(wanted, ceiling) if ceiling else wanted)
    progress = job.progress
    if progress is None or progress.left_s is None:
        return there
    return _for_the_rest(job, there, progress.left_s * times_longer(here, there))


def successors(job: ManagedJob) -> list[SubJob]:
    """Return the jobs that were submitted to go on after the present one, which may once have been one itself."""
    live = [each for each in job.sub_jobs if each.ending is None and not each.is_cancelled_by_us]
    left = [each for each in live if each.takes_over and job.sub_job(each.takes_over).ending is not None]
    present = next((each for each in live if each.is_running and each not in left), None)
    return [each for each in live if each in left or (each.follows is not None and each is not present)]


def why_not(job: ManagedJob, action: Action, facts: Mapping[str, Any]) -> str:
    """Return why an action cannot be taken now, whichever rule asked for it; empty if it can."""
    # Those that were cancelled count until the cluster says that they have ended: no two may run at once.
    live = [each for each in job.sub_jobs if each.ending is None]
    if action is Action.WAIT or action in ENDS:
        return ""
    if action in (Action.HAND_OVER, Action.CANCEL_RELIEF):
        reliefs = [each for each in live if each.takes_over is not None]
        if not reliefs:
            return "no job takes over from another"
        return "" if action is Action.CANCEL_RELIEF or reliefs[0].is_running else "its better nodes are not there"
    if action is Action.CANCEL_SUCCESSOR:
        return "" if successors(job) else "there is no successor"
    if len(job.sub_jobs) >= job.order.most_sub_jobs:
        return f"it has had {len(job.sub_jobs)} jobs on the cluster and may have no more"
    if action in _WHERE and _WHERE[action] not in facts:
        return "no better place is known"
    if action is Action.MOVE:
        return "" if len(live) == 1 and live[0].moves_to is None else "it needs one job, which is not moved yet"
    if action is Action.JOIN:
        is_one = len(live) == 1 and not live[0].is_submitting and live[0].moves_to is None
        is_one = is_one and not live[0].is_cancelled_by_us
        return "" if is_one and is_holdable(job.order) else "it needs one job, which can be told to hold"
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
    return (untried_places(job) or open_places(job) or others or [place])[0]
