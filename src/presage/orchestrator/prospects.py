"""When a job would be done, here and elsewhere, and what it would gain by being there.

Expected seconds from now, by measured progress, the expected lengths of the order, and forecasts of waits. Where
one of them is not known nothing is said: nobody moves a job without a reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from presage.orchestrator.jobs import Ending

if TYPE_CHECKING:
    from presage.orchestrator.jobs import ManagedJob, Place, SubJob

Waits = Callable[["Place"], float | None]
"""How long a new job would wait at a place; None: nobody can say."""

RESTART_S = 60.0
"""What it takes to save, to start again and to load; not measured, so that small gains are none."""
_DOUBT = 0.5
"""Of the time that a job has waited, still to come if it has waited longer than was foretold."""


@dataclass(frozen=True)
class Prospect:
    """Another place, and what the job would gain by it."""

    place: Place
    wait_s: float
    gain_s: float
    gain_share: float
    """Of the time until it would be done otherwise."""


@dataclass(frozen=True)
class Prospects:
    """The best that can be done; None: nothing better is known."""

    move: Prospect | None = None
    """To give up what it has here and go there."""
    join: Prospect | None = None
    """To be there as well: a running job waits there for better nodes, a waiting one works there meanwhile."""


def prospects_of(job: ManagedJob, now: datetime, waits: Waits) -> Prospects:
    """Return where a job would be done sooner than where it is, or where its next job would go by itself."""
    others = other_places(job)
    here = current_place(job)
    if not others:
        return Prospects()
    left_s = work_left_s(job, now)
    live = [each for each in job.sub_jobs if each.ending is None and not each.is_cancelled_by_us]
    if left_s is None and not (live and live[0].is_running):
        left_s = here.walltime_s  # at the most: so that waits are compared, and small differences are none
    if left_s is None or len(live) > 1:
        return Prospects()
    options = [(each, wait_s) for each in others if (wait_s := waits(each)) is not None]
    if live and live[0].is_running:
        return _of_running(here, left_s, _limit_left_s(live[0], now), options)
    wait_s = waits(here)
    if wait_s is None:
        return Prospects()
    if live:
        return _of_waiting(here, left_s, still_to_wait_s(live[0], now, wait_s), options)
    stay_s = done_in_s(here, wait_s, left_s)
    return Prospects(move=_best(stay_s, [_moved(here, left_s, *option) for option in options]))


def other_places(job: ManagedJob) -> list[Place]:
    """Return the places of the order that the job is not at, and that have not refused it."""
    here = current_place(job).spot
    return [each for each in open_places(job) if each.spot != here]


def open_places(job: ManagedJob) -> list[Place]:
    """Return the places of the order that have not refused the job."""
    refused = {each.place.spot for each in job.sub_jobs if each.ending is Ending.REFUSED}
    if job.order.elastic is not None:  # where it has run, only more workers than it had were refused
        refused -= {each.place.spot for each in job.sub_jobs if each.status and each.status.start_time}
    return [each for each in job.order.places if each.spot not in refused]


def current_place(job: ManagedJob) -> Place:
    """Return where its last job is or was; before there is one, the first of its places."""
    last = last_sub_job(job)
    return job.order.places[0] if last is None else last.place


def last_sub_job(job: ManagedJob) -> SubJob | None:
    """Return the newest that is there, else the last to end; one that was submitted first may end last."""
    wanted = [each for each in job.sub_jobs if not each.is_cancelled_by_us]
    live = [each for each in wanted if each.ending is None]
    return live[-1] if live else max(wanted, key=ended_at, default=None)


def ended_at(sub_job: SubJob) -> tuple[datetime, int]:
    """Return when a job ended, as far as is known, to put those in order of which two were there at once."""
    status = sub_job.status
    at = (status.end_time if status is not None else None) or sub_job.tried_at
    return at or datetime.min.replace(tzinfo=UTC), sub_job.number


def work_left_s(job: ManagedJob, now: datetime) -> float | None:
    """Return how long the rest takes where it is: by measured progress where there is some, else as expected."""
    progress = job.progress
    live = next((each for each in job.sub_jobs if each.is_running), None)
    if progress is not None and progress.left_s is not None:
        passed_s = (now - progress.at).total_seconds() if live is not None else 0.0
        return max(0.0, progress.left_s - passed_s)
    place = current_place(job)
    whole_s = place.work_s or job.order.work_s
    if whole_s is None:
        return None
    if progress is not None and progress.is_known:
        return max(0.0, whole_s * (1 - progress.done / progress.total))
    # A job that told nothing is taken to have worked all the time that it ran, on nodes like the present ones.
    ran_s = sum(ran_for_s(each, now) for each in job.sub_jobs)
    return max(0.0, whole_s - ran_s)


def ran_for_s(sub_job: SubJob, now: datetime) -> float:
    """Return how long a job of the cluster has run; none if that is not known."""
    status = sub_job.status
    if status is None or status.start_time is None:
        return 0.0
    end = status.end_time if sub_job.ending is not None else now
    return 0.0 if end is None else (end - status.start_time).total_seconds()


def times_longer(here: Place, there: Place) -> float:
    """Return how many times as long the same work takes there; 1 where nothing is known of it."""
    return there.work_s / here.work_s if here.work_s and there.work_s else 1.0


def done_in_s(place: Place, wait_s: float, left_s: float, limit_left_s: float | None = None) -> float:
    """Return when so much work is done at a place: later jobs of a chain wait while the one before them runs."""
    limit_s = place.limit_s or place.walltime_s
    first_s = limit_s if limit_left_s is None else limit_left_s
    if limit_s is None or first_s is None or left_s <= first_s:
        return wait_s + left_s
    breaks = math.ceil((left_s - first_s) / limit_s)
    return wait_s + left_s + breaks * (RESTART_S + max(0.0, wait_s - limit_s))


def still_to_wait_s(sub_job: SubJob, now: datetime, wait_s: float) -> float:
    """Return how much longer a job waits that was in the queue when a new one would have to wait for `wait_s`."""
    waited_s = 0.0 if sub_job.tried_at is None else max(0.0, (now - sub_job.tried_at).total_seconds())
    return max(wait_s - waited_s, _DOUBT * waited_s)


def _moved(here: Place, left_s: float, place: Place, wait_s: float) -> tuple[Place, float, float]:
    return place, wait_s, done_in_s(place, wait_s, left_s * times_longer(here, place))


def _of_running(
    here: Place, left_s: float, limit_left_s: float | None, options: list[tuple[Place, float]]
) -> Prospects:
    stay_s = done_in_s(here, 0.0, left_s, limit_left_s)
    moved, joined = [], []
    for place, wait_s in options:
        longer = times_longer(here, place)
        moved.append((place, wait_s, RESTART_S + done_in_s(place, wait_s, left_s * longer)))
        if wait_s < left_s:
            joined.append((place, wait_s, RESTART_S + done_in_s(place, wait_s, (left_s - wait_s) * longer)))
    return Prospects(_best(stay_s, moved), _best(stay_s, joined))


def _of_waiting(here: Place, left_s: float, wait_s: float, options: list[tuple[Place, float]]) -> Prospects:
    stay_s = done_in_s(here, wait_s, left_s)
    moved = [_moved(here, left_s, *option) for option in options]
    joined = []
    for place, there_s in options:
        longer = times_longer(here, place)
        spared_s = (wait_s - there_s - RESTART_S) / longer
        if spared_s >= left_s:
            joined.append((place, there_s, there_s + left_s * longer))
        elif spared_s > 0:
            joined.append((place, there_s, RESTART_S + done_in_s(here, wait_s, left_s - spared_s)))
    return Prospects(_best(stay_s, moved), _best(stay_s, joined))


def _best(stay_s: float, options: list[tuple[Place, float, float]]) -> Prospect | None:
    """Return the option by which most is gained, None if nothing is by any."""
    if not options or stay_s <= 0:
        return None
    place, wait_s, done_s = min(options, key=lambda option: option[2])
    gain_s = stay_s - done_s
    return Prospect(place, wait_s, gain_s, gain_s / stay_s) if gain_s > 0 else None


def _limit_left_s(sub_job: SubJob, now: datetime) -> float | None:
    limit_s = sub_job.place.walltime_s
    return None if limit_s is None else max(0.0, limit_s - ran_for_s(sub_job, now))
