"""The event loop that makes one pass per event instead of one per instant.

The arrivals of an instant come first, then its ends, both in the order of submission. A job that ends when its
plan says so surprises nobody: its processors are free from the beginning of that instant. Any other holds them
until the turn of its end.

If it commits, the first in line is chosen as soon as there is one and is kept until it starts. What is reserved
for it is computed when it is chosen. Meanwhile, jobs that fit start in order of arrival if they are planned to end
before that time, not at it. All jobs hold their processors until the turn of their end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from presage.simulator._listed import start_conservatively, start_easily
from presage.simulator._pooled import CONSERVATIVE, EASY, in_order
from presage.simulator._structures import (
    close_ranks,
    insert_running,
    pop_end,
    push_end,
    remove_running,
    renew_plans,
    reserve,
    smallest_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

RUNNING, WAITING, FREE, ENDS = 0, 1, 2, 3
NOBODY = -1


class Work(NamedTuple):
    """The jobs, and what orders them: `rule` is the code of a dynamic order, or STATIC to go by `rank`.

    `estimate_s` is the run time that the rule uses, `plan` the one that reservations use.
    """

    submit: Ints
    run: Ints
    plan: Ints
    limit: Ints
    estimate_s: Floats
    size: Ints
    rank: Ints
    rule: int


class State(NamedTuple):
    """Where a loop is."""

    ends: Ints
    ending: Ints
    planned: Ints
    holding: Ints
    planned_end: Ints
    queue: Ints
    """In submit order, so that a stable sort breaks ties by it."""
    queued: Flags
    counts: Ints
    """Of running jobs, waiting jobs, free processors, and ends to come."""
    start: Ints


@njit(cache=True, nogil=True)
def run_events(work: Work, capacity: int, backfilling: int, commits: bool, start: Ints) -> None:
    """Fill `start`, with one pass per event."""
    count = len(start)
    state = _begin(capacity, start)
    counts = state.counts
    ended = np.empty(count, np.int64)
    arrived = 0
    chosen = NOBODY
    reserved = 0
    while arrived < count or counts[ENDS] > 0:
        next_is_end = counts[ENDS] > 0 and (arrived >= count or state.ends[0] < work.submit[arrived])
        now = state.ends[0] if next_is_end else work.submit[arrived]
        endings = 0
        while counts[ENDS] > 0 and state.ends[0] <= now:
            ended[endings] = _pop(state)
            endings += 1
        ended[:endings].sort()
        arrivals = 0
        while arrived + arrivals < count and work.submit[arrived + arrivals] <= now:
            arrivals += 1
        for at in range(0 if commits else endings):
            if state.planned_end[ended[at]] == now:
                _release(work, state, ended[at])
                ended[at] = NOBODY
        for event in range(arrivals + endings):
            if event < arrivals:
                _enqueue(state, arrived)
                arrived += 1
            elif ended[event - arrivals] != NOBODY:
                _release(work, state, ended[event - arrivals])
            _renew_plans(work, state, now)
            if commits:
                chosen, reserved = _keep_to_choice(work, state, now, backfilling, chosen, reserved)
            else:
                _pass(work, state, now, backfilling)


@njit(cache=True, nogil=True)
def _keep_to_choice(
    work: Work, state: State, now: int, backfilling: int, chosen: int, reserved: int
) -> tuple[int, int]:
    """Start the chosen job if it fits, and choose others until one does not; return it and its reservation."""
    counts = state.counts
    while chosen != NOBODY or counts[WAITING] > 0:
        if chosen == NOBODY:
            chosen = _line(work, state, now)[0]
            if work.size[chosen] > counts[FREE]:
                reserved, _ = reserve(
                    state.planned, state.holding, counts[RUNNING], work.size, counts[FREE], work.size[chosen]
                )
        if work.size[chosen] > counts[FREE]:
            break
        _start(work, state, now, chosen)
        _forget_started(state)
        chosen = NOBODY
    if chosen != NOBODY and backfilling == EASY:
        for at in range(counts[WAITING]):
            job = state.queue[at]
            if work.size[job] <= counts[FREE] and now + work.plan[job] < reserved:
                _start(work, state, now, job)
        _forget_started(state)
    return chosen, reserved


@njit(cache=True, nogil=True)
def _pass(work: Work, state: State, now: int, backfilling: int) -> None:
    """Start whoever may start now."""
    counts = state.counts
    if smallest_of(state.queue, counts[WAITING], work.size) > counts[FREE]:
        return
    line = _line(work, state, now)
    if backfilling == CONSERVATIVE:
        starts = start_conservatively(
            line, now, work.plan, work.size, state.planned, state.holding, counts[RUNNING], counts[FREE]
        )
    else:
        starts = start_easily(
            line,
            now,
            work.plan,
            work.size,
            state.planned,
            state.holding,
            counts[RUNNING],
            counts[FREE],
            backfilling,
        )
    for at in range(len(line)):
        if starts[at]:
            _start(work, state, now, line[at])
    _forget_started(state)


@njit(cache=True, nogil=True)
def _begin(capacity: int, start: Ints) -> State:
    """Return the state of an empty machine."""
    count = len(start)
    return State(
        ends=np.empty(count + 1, np.int64),
        ending=np.empty(count + 1, np.int64),
        planned=np.empty(count + 1, np.int64),
        holding=np.empty(count + 1, np.int64),
        planned_end=np.empty(count, np.int64),
        queue=np.empty(count, np.int64),
        queued=np.ones(count, np.bool_),
        counts=np.array([0, 0, capacity, 0]),
        start=start,
    )


@njit(cache=True, nogil=True)
def _pop(state: State) -> int:
    """Return the job that ends next, and take its end from the heap."""
    job = state.ending[0]
    state.counts[ENDS] -= 1
    pop_end(state.ends, state.ending, state.counts[ENDS])
    return int(job)


@njit(cache=True, nogil=True)
def _release(work: Work, state: State, job: int) -> None:
    state.counts[RUNNING] -= 1
    remove_running(state.planned, state.holding, state.counts[RUNNING], state.planned_end[job], job)
    state.counts[FREE] += work.size[job]


@njit(cache=True, nogil=True)
def _enqueue(state: State, job: int) -> None:
    state.queue[state.counts[WAITING]] = job
    state.counts[WAITING] += 1


@njit(cache=True, nogil=True)
def _start(work: Work, state: State, now: int, job: int) -> None:
    counts = state.counts
    state.start[job] = now
    state.queued[job] = False
    state.planned_end[job] = now + work.plan[job]
    push_end(state.ends, state.ending, counts[ENDS], now + work.run[job], job)
    insert_running(state.planned, state.holding, counts[RUNNING], state.planned_end[job], job)
    counts[FREE] -= work.size[job]
    counts[RUNNING] += 1
    counts[ENDS] += 1


@njit(cache=True, nogil=True)
def _forget_started(state: State) -> None:
    """Take the jobs that have started out of the queue."""
    state.counts[WAITING] = close_ranks(state.queue, state.queued, state.counts[WAITING])


@njit(cache=True, nogil=True)
def _renew_plans(work: Work, state: State, now: int) -> None:
    """Plan the running jobs anew that have outlived their plan."""
    running = state.counts[RUNNING]
    renew_plans(state.planned, state.holding, state.planned_end, running, now, state.start, work.limit)


@njit(cache=True, nogil=True)
def _line(work: Work, state: State, now: int) -> Ints:
    """Return the waiting jobs with the first to go in front."""
    queue = state.queue[: state.counts[WAITING]]
    return in_order(queue, now, work.submit, work.estimate_s, work.size, work.rank, work.rule)
