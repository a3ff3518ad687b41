"""Conservative backfilling: the profile of free processors, and the event loop for orders that never change.

In a pass every job, in order, takes the earliest place in the profile, the free processors from each of `times`
on. Those whose place is now start. Places are taken anew in every pass, but only as far as somebody behind might
still start now: for the others it does not matter where they stand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from presage.simulator._structures import (
    NEVER,
    begin_running,
    end_first,
    find_leaf,
    find_next,
    renew_plans,
    set_leaf,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

LOOK_EVERY = 16
"""Jobs to place before looking again whether somebody behind them may start."""


@njit(cache=True, nogil=True)
def run_conservative(
    submit: Ints,
    run: Ints,
    plan: Ints,
    limit: Ints,
    size: Ints,
    rank: Ints,
    order: Ints,
    capacity: int,
    start: Ints,
) -> None:
    """Fill `start` for an order that never changes: `order[rank[job]] == job`."""
    count = len(submit)
    leaves = 1
    while leaves < count:
        leaves *= 2
    sizes = np.full(2 * leaves, NEVER, np.int64)
    plans = np.full(2 * leaves, NEVER, np.int64)
    ends = np.empty(count + 1, np.int64)
    ending = np.empty(count + 1, np.int64)
    planned = np.empty(count + 1, np.int64)
    holding = np.empty(count + 1, np.int64)
    planned_end = np.empty(count, np.int64)
    starting = np.empty(count, np.int64)
    running = 0
    waiting = 0
    arrived = 0
    free = capacity
    while arrived < count or running > 0:
        next_is_end = running > 0 and (arrived >= count or ends[0] <= submit[arrived])
        now = ends[0] if next_is_end else submit[arrived]
        while running > 0 and ends[0] <= now:
            running -= 1
            job = end_first(ends, ending, planned, holding, planned_end, running)
            free += size[job]
        renew_plans(planned, holding, planned_end, running, now, start, limit)
        while arrived < count and submit[arrived] <= now:
            set_leaf(sizes, plans, leaves, rank[arrived], size[arrived], plan[arrived])
            waiting += 1
            arrived += 1
        if sizes[1] > free:
            continue
        begun = _choose(sizes, plans, order, now, plan, size, planned, holding, running, free, starting)
        for at in range(begun):
            job = starting[at]
            set_leaf(sizes, plans, leaves, rank[job], NEVER, NEVER)
            start[job] = now
            free -= size[job]
            end, planned_for = now + run[job], now + plan[job]
            begin_running(ends, ending, planned, holding, planned_end, running, job, end, planned_for)
            running += 1
        waiting -= begun


@njit(cache=True, nogil=True)
def _choose(
    sizes: Ints,
    plans: Ints,
    order: Ints,
    now: int,
    plan: Ints,
    size: Ints,
    planned: Ints,
    holding: Ints,
    running: int,
    free: int,
    starting: Ints,
) -> int:
    """Write the jobs that start now to `starting`; return how many."""
    leaves = len(sizes) // 2
    room = 4 * (running + 16)
    times = np.empty(room, np.int64)
    frees = np.empty(room, np.int64)
    steps = profile_of(planned, holding, running, size, now, free, times, frees)
    begun = 0
    rank = 0
    hopeful = -1
    placed = 0
    while rank < leaves:
        if rank > hopeful or placed % LOOK_EVERY == 0:
            hopeful = _find_hopeful(sizes, plans, leaves, rank, times, frees, steps)
            if hopeful < 0:
                break
        rank = find_next(sizes, leaves, rank)
        job = order[rank]
        if steps + 2 > len(times):
            times = np.concatenate((times, np.empty(len(times), np.int64)))
            frees = np.concatenate((frees, np.empty(len(frees), np.int64)))
        begin, steps = take_place(times, frees, steps, size[job], plan[job])
        if begin == 0:
            starting[begun] = job
            begun += 1
        rank += 1
        placed += 1
    return begun


@njit(cache=True, nogil=True)
def _find_hopeful(sizes: Ints, plans: Ints, leaves: int, rank: int, times: Ints, frees: Ints, steps: int) -> int:
    """Return a rank from `rank` on up to which jobs must be placed because one may start now; -1 if none may.

    A job that needs more than half of what is free now must end before no more than that half is free, a smaller
    one before no more than a quarter is, and so on.
    """
    most = frees[0]
    step = 0
    while most > 0:
        half = most // 2
        while step < steps and frees[step] > half:
            step += 1
        window = NEVER - 1 if step == steps else times[step] - times[0]
        found, _ = find_leaf(sizes, plans, leaves, rank, most, window, 0)
        if found >= 0:
            return found
        most = half
    return -1


@njit(cache=True, nogil=True)
def profile_of(
    planned: Ints, holding: Ints, running: int, size: Ints, now: int, free: int, times: Ints, frees: Ints
) -> int:
    """Write the profile of the running jobs to `times` and `frees`; return its steps."""
    times[0] = now
    frees[0] = free
    steps = 1
    for at in range(running):
        level = frees[steps - 1] + size[holding[at]]
        if planned[at] > times[steps - 1]:
            times[steps] = planned[at]
            steps += 1
        frees[steps - 1] = level
    return steps


@njit(inline="always")
def take_place(times: Ints, frees: Ints, steps: int, size: int, plan: int) -> tuple[int, int]:
    """Give a job the earliest place; return the step at which it begins, and the steps of the profile now."""
    begin = 0
    step = 0
    while step < steps and times[step] < times[begin] + plan:
        if frees[step] < size:
            begin = step + 1
        step += 1
    end = times[begin] + plan
    if step == steps or times[step] != end:
        for at in range(steps, step, -1):
            times[at] = times[at - 1]
            frees[at] = frees[at - 1]
        times[step] = end
        frees[step] = frees[step - 1]
        steps += 1
    for at in range(begin, step):
        frees[at] -= size
    return begin, steps
