"""The event loop for any order and backfilling: the queue is scored and sorted anew for every pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from presage.simulator._conservative import profile_of, take_place
from presage.simulator._pooled import CONSERVATIVE, EASY_SJBF, NONE, in_order
from presage.simulator._structures import (
    begin_running,
    close_ranks,
    end_first,
    insert_running,
    renew_plans,
    reserve,
    smallest_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]


@njit(cache=True, nogil=True)
def run_listed(
    submit: Ints,
    run: Ints,
    plan: Ints,
    limit: Ints,
    estimate_s: Floats,
    size: Ints,
    rank: Ints,
    rule: int,
    capacity: int,
    backfilling: int,
    start: Ints,
) -> None:
    """Fill `start` for any order and backfilling; the queue is scored and sorted anew for every pass.

    `rule` is the code of a dynamic order, or STATIC to go by `rank`. `estimate_s` is the run time that the rule
    uses, `plan` the one that reservations use.
    """
    count = len(submit)
    ends = np.empty(count + 1, np.int64)
    ending = np.empty(count + 1, np.int64)
    planned = np.empty(count + 1, np.int64)
    holding = np.empty(count + 1, np.int64)
    planned_end = np.empty(count, np.int64)
    queue = np.empty(count, np.int64)
    queued = np.ones(count, np.bool_)
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
            queue[waiting] = arrived
            waiting += 1
            arrived += 1
        if smallest_of(queue, waiting, size) > free:
            continue
        line = in_order(queue[:waiting], now, submit, estimate_s, size, rank, rule)
        if backfilling == CONSERVATIVE:
            starts = start_conservatively(line, now, plan, size, planned, holding, running, free)
        else:
            starts = start_easily(line, now, plan, size, planned, holding, running, free, backfilling)
        for at in range(waiting):
            if starts[at]:
                job = line[at]
                start[job] = now
                free -= size[job]
                end, planned_for = now + run[job], now + plan[job]
                begin_running(ends, ending, planned, holding, planned_end, running, job, end, planned_for)
                running += 1
                queued[job] = False
        # The queue stays in submit order, so that a stable sort breaks ties by it.
        waiting = close_ranks(queue, queued, waiting)


@njit(cache=True, nogil=True)
def start_easily(
    line: Ints,
    now: int,
    plan: Ints,
    size: Ints,
    planned: Ints,
    holding: Ints,
    running: int,
    free: int,
    backfilling: int,
) -> Flags:
    """Return which jobs of `line` start now in strict order, with EASY or with EASY_SJBF."""
    starts = np.zeros(len(line), np.bool_)
    head = 0
    while head < len(line) and size[line[head]] <= free:
        starts[head] = True
        free -= size[line[head]]
        head += 1
    if head == len(line) or backfilling == NONE or free == 0:
        return starts
    shadow, extra = reserve_behind(line[:head], now, plan, size, planned, holding, running, free, size[line[head]])
    tries = np.arange(head + 1, len(line))
    if backfilling == EASY_SJBF:
        tries = tries[np.argsort(plan[line[head + 1 :]], kind="mergesort")]
    for at in tries:
        job = line[at]
        if size[job] > free:
            continue
        if now + plan[job] > shadow:
            if size[job] > extra:
                continue
            extra -= size[job]
        starts[at] = True
        free -= size[job]
    return starts


@njit(cache=True, nogil=True)
def reserve_behind(
    started: Ints,
    now: int,
    plan: Ints,
    size: Ints,
    planned: Ints,
    holding: Ints,
    running: int,
    free: int,
    wanted: int,
) -> tuple[int, int]:
    """Return shadow time and extra processors of a job of size `wanted`, counting the jobs that start just now."""
    count = running + len(started)
    all_planned = np.empty(count + 1, np.int64)
    all_holding = np.empty(count + 1, np.int64)
    all_planned[:running] = planned[:running]
    all_holding[:running] = holding[:running]
    for at in range(len(started)):
        insert_running(all_planned, all_holding, running + at, now + plan[started[at]], started[at])
    return reserve(all_planned, all_holding, count, size, free, wanted)


@njit(cache=True, nogil=True)
def start_conservatively(
    line: Ints, now: int, plan: Ints, size: Ints, planned: Ints, holding: Ints, running: int, free: int
) -> Flags:
    """Return which jobs of `line` start now when every job before them keeps its reservation."""
    starts = np.zeros(len(line), np.bool_)
    times = np.empty(running + 2 * len(line) + 2, np.int64)
    frees = np.empty(len(times), np.int64)
    steps = profile_of(planned, holding, running, size, now, free, times, frees)
    for at in range(len(line)):
        if frees[0] == 0:
            break
        begin, steps = take_place(times, frees, steps, size[line[at]], plan[line[at]])
        starts[at] = begin == 0
    return starts
