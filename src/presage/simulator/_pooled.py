"""The event engine on pooled processors: jobs in, start times out, integer milliseconds.

At one instant all ends come first, then all arrivals, then one pass of decisions. A pass starts jobs in order
while they fit. For the first that does not fit, the shadow time is the earliest planned end at which it would,
and the extra processors are those left over then, all ends at that same millisecond counted. A later job that fits
now starts if it is planned to end by the shadow time, or else if it fits into the extra processors, which then
shrink.

Planned ends are start + plan. A running job that outlives its plan gets a new one: twice the time it has run, and
a minute, at most its limit.

Three loops, the same decisions: `run_fcfs` for the strict order of arrival, `run_static` for orders that never
change, `run_listed` for everything else. Inputs are sorted by submit; every size must be at most `capacity`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from presage.simulator._structures import (
    NEVER,
    find_leaf,
    insert_running,
    pop_end,
    push_end,
    remove_running,
    reserve,
    set_leaf,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

# Codes of presage.policies: backfillings, and dynamic orders.
NONE, EASY, EASY_SJBF, CONSERVATIVE = 0, 1, 2, 3
WFP3, UNICEP, LXF = 0, 1, 2
STATIC = -1
GRACE_MS = 60_000
_TINY = 1e-15


@njit(cache=True, nogil=True)
def run_fcfs(submit: Ints, run: Ints, size: Ints, capacity: int, start: Ints) -> None:
    """Fill `start` for strict first come, first served."""
    count = len(submit)
    ends = np.empty(count + 1, np.int64)
    ending = np.empty(count + 1, np.int64)
    running = 0
    free = capacity
    now = -NEVER
    for job in range(count):
        now = max(now, submit[job])
        while running > 0 and (ends[0] <= now or size[job] > free):
            now = max(now, ends[0])
            free += size[ending[0]]
            running -= 1
            pop_end(ends, ending, running)
        # Ends at this very instant are free for the next job; they are popped when it is looked at.
        start[job] = now
        free -= size[job]
        push_end(ends, ending, running, now + run[job], job)
        running += 1


@njit(cache=True, nogil=True)
def run_static(
    submit: Ints,
    run: Ints,
    plan: Ints,
    limit: Ints,
    size: Ints,
    rank: Ints,
    order: Ints,
    short_rank: Ints,
    short_order: Ints,
    capacity: int,
    backfilling: int,
    start: Ints,
) -> None:
    """Fill `start` for an order that never changes: `order[rank[job]] == job`.

    `short_rank` and `short_order` are the order in which EASY_SJBF tries candidates. The queue is a tree of which
    hopeless parts are skipped, not a list: the work per job still grows with a saturated queue, but slower than
    the queue (docs/results/simulation.md has the measurement).
    """
    count = len(submit)
    leaves = 1
    while leaves < count:
        leaves *= 2
    sizes = np.full(2 * leaves, NEVER, np.int64)
    plans = np.full(2 * leaves, NEVER, np.int64)
    by_length = backfilling == EASY_SJBF
    short_leaves = leaves if by_length else 1
    short_sizes = np.full(2 * short_leaves, NEVER, np.int64)
    short_plans = np.full(2 * short_leaves, NEVER, np.int64)
    ends = np.empty(count + 1, np.int64)
    ending = np.empty(count + 1, np.int64)
    planned = np.empty(count + 1, np.int64)
    holding = np.empty(count + 1, np.int64)
    planned_end = np.empty(count, np.int64)
    running = 0
    waiting = 0
    arrived = 0
    free = capacity
    head = -1
    shadow = 0
    extra = 0
    while arrived < count or running > 0:
        next_is_end = running > 0 and (arrived >= count or ends[0] <= submit[arrived])
        now = ends[0] if next_is_end else submit[arrived]
        must_pass = False
        while running > 0 and ends[0] <= now:
            job = ending[0]
            running -= 1
            pop_end(ends, ending, running)
            remove_running(planned, holding, running, planned_end[job], job)
            free += size[job]
            must_pass = True
        while running > 0 and planned[0] <= now:
            job = holding[0]
            again = min(limit[job], 2 * (now - start[job]) + GRACE_MS)
            end = max(start[job] + again, now + 1)
            remove_running(planned, holding, running - 1, planned_end[job], job)
            insert_running(planned, holding, running - 1, end, job)
            planned_end[job] = end
            must_pass = True
        first = arrived
        while arrived < count and submit[arrived] <= now:
            arrived += 1
        # Jobs that could not start before cannot start now unless something ended, was planned anew, or the
        # first in line is another: then only a lone newcomer behind it has to be looked at.
        if waiting == 0 or arrived - first > 1 or (arrived > first and rank[first] < head):
            must_pass = True
        if not must_pass:
            job = first
            if job == arrived:
                continue
            fits = backfilling != NONE and size[job] <= free
            if fits and now + plan[job] > shadow:
                fits = size[job] <= extra
                if fits:
                    extra -= size[job]
            if fits:
                start[job] = now
                free -= size[job]
                planned_end[job] = now + plan[job]
                push_end(ends, ending, running, now + run[job], job)
                insert_running(planned, holding, running, planned_end[job], job)
                running += 1
            else:
                set_leaf(sizes, plans, leaves, rank[job], size[job], plan[job])
                if by_length:
                    set_leaf(short_sizes, short_plans, leaves, short_rank[job], size[job], plan[job])
                waiting += 1
            continue
        for job in range(first, arrived):
            set_leaf(sizes, plans, leaves, rank[job], size[job], plan[job])
            if by_length:
                set_leaf(short_sizes, short_plans, leaves, short_rank[job], size[job], plan[job])
            waiting += 1
        blocked = False
        position = 0
        while waiting > 0 and position < leaves:
            if not blocked:
                position = find_leaf(sizes, plans, leaves, position, NEVER - 1, NEVER - 1, NEVER - 1)
                job = order[position]
                if size[job] > free:
                    blocked = True
                    head = position
                    if backfilling == NONE or free == 0:
                        break
                    shadow, extra = reserve(planned, holding, running, size, free, size[job])
                    position = 0 if by_length else position + 1
                    continue
            else:
                if by_length:
                    found = find_leaf(short_sizes, short_plans, leaves, position, free, shadow - now, extra)
                else:
                    found = find_leaf(sizes, plans, leaves, position, free, shadow - now, extra)
                if found < 0:
                    break
                position = found
                job = short_order[position] if by_length else order[position]
                if now + plan[job] > shadow:
                    extra -= size[job]
            set_leaf(sizes, plans, leaves, rank[job], NEVER, NEVER)
            if by_length:
                set_leaf(short_sizes, short_plans, leaves, short_rank[job], NEVER, NEVER)
            waiting -= 1
            start[job] = now
            free -= size[job]
            planned_end[job] = now + plan[job]
            push_end(ends, ending, running, now + run[job], job)
            insert_running(planned, holding, running, planned_end[job], job)
            running += 1
            position += 1


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
            job = ending[0]
            running -= 1
            pop_end(ends, ending, running)
            remove_running(planned, holding, running, planned_end[job], job)
            free += size[job]
        while running > 0 and planned[0] <= now:
            job = holding[0]
            again = min(limit[job], 2 * (now - start[job]) + GRACE_MS)
            end = max(start[job] + again, now + 1)
            remove_running(planned, holding, running - 1, planned_end[job], job)
            insert_running(planned, holding, running - 1, end, job)
            planned_end[job] = end
        while arrived < count and submit[arrived] <= now:
            queue[waiting] = arrived
            waiting += 1
            arrived += 1
        smallest = NEVER
        for at in range(waiting):
            smallest = min(smallest, size[queue[at]])
        if smallest > free:
            continue
        line = in_order(queue[:waiting], now, submit, estimate_s, size, rank, rule)
        if backfilling == CONSERVATIVE:
            starts = _start_conservatively(line, now, plan, size, planned, holding, running, free)
        else:
            starts = _start_easily(line, now, plan, size, planned, holding, running, free, backfilling)
        for at in range(waiting):
            if starts[at]:
                job = line[at]
                start[job] = now
                free -= size[job]
                planned_end[job] = now + plan[job]
                push_end(ends, ending, running, now + run[job], job)
                insert_running(planned, holding, running, planned_end[job], job)
                running += 1
                queued[job] = False
        # The queue stays in submit order, so that a stable sort breaks ties by it.
        gone = 0
        for at in range(waiting):
            if queued[queue[at]]:
                queue[at - gone] = queue[at]
            else:
                gone += 1
        waiting -= gone


@njit(inline="always")
def in_order(queue: Ints, now: int, submit: Ints, estimate_s: Floats, size: Ints, rank: Ints, rule: int) -> Ints:
    """Return the queued jobs with the first to go in front."""
    scores = np.empty(len(queue), np.float64)
    for at in range(len(queue)):
        job = queue[at]
        if rule == STATIC:
            scores[at] = rank[job]
            continue
        waited_s = (now - submit[job]) / 1000.0
        run_s = max(estimate_s[job], 1.0)
        if rule == WFP3:
            ratio = waited_s / run_s
            scores[at] = -(ratio * ratio * ratio) * size[job]
        elif rule == UNICEP:
            scores[at] = -(waited_s + _TINY) / (np.log2(size[job] + _TINY) * run_s)
        else:
            scores[at] = -(waited_s + run_s) / run_s
    return queue[np.argsort(scores, kind="mergesort")]


@njit(cache=True, nogil=True)
def _start_easily(
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
    shadow, extra = _reserve_behind(
        line[:head], now, plan, size, planned, holding, running, free, size[line[head]]
    )
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
def _reserve_behind(
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
def _start_conservatively(
    line: Ints, now: int, plan: Ints, size: Ints, planned: Ints, holding: Ints, running: int, free: int
) -> Flags:
    """Return which jobs of `line` start now when every job before them keeps its reservation.

    The profile is the free processors from each of `times` on. Every job takes the earliest place in it.
    """
    starts = np.zeros(len(line), np.bool_)
    times = np.empty(running + 2 * len(line) + 2, np.int64)
    frees = np.empty(len(times), np.int64)
    times[0] = now
    frees[0] = free
    steps = 1
    for at in range(running):
        level = frees[steps - 1] + size[holding[at]]
        if planned[at] > times[steps - 1]:
            times[steps] = planned[at]
            steps += 1
        frees[steps - 1] = level
    for at in range(len(line)):
        if frees[0] == 0:
            break
        job = line[at]
        begin = _earliest(times, frees, steps, size[job], plan[job])
        steps = _split(times, frees, steps, times[begin] + plan[job])
        end = times[begin] + plan[job]
        step = begin
        while step < steps and times[step] < end:
            frees[step] -= size[job]
            step += 1
        starts[at] = begin == 0
    return starts


@njit(inline="always")
def _earliest(times: Ints, frees: Ints, steps: int, size: int, plan: int) -> int:
    """Return the first step from which `size` processors stay free for `plan`."""
    begin = 0
    step = 0
    while step < steps and times[step] < times[begin] + plan:
        if frees[step] < size:
            begin = step + 1
        step += 1
    return begin


@njit(inline="always")
def _split(times: Ints, frees: Ints, steps: int, instant: int) -> int:
    """Make `instant` a step of the profile; return the number of steps."""
    at = steps
    while at > 0 and times[at - 1] > instant:
        at -= 1
    if at > 0 and times[at - 1] == instant:
        return steps
    for step in range(steps, at, -1):
        times[step] = times[step - 1]
        frees[step] = frees[step - 1]
    times[at] = instant
    frees[at] = frees[at - 1]
    return steps + 1
