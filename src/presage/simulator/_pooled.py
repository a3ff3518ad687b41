"""The event engine on pooled processors: jobs in, start times out, integer milliseconds.

At one instant all ends come first, then all arrivals, then one pass of decisions. A pass starts jobs in order
while they fit. For the first that does not fit, the shadow time is the earliest planned end at which it would,
and the extra processors are those left over then, all ends at that same millisecond counted. A later job that fits
now starts if it is planned to end by the shadow time, or else if it fits into the extra processors, which then
shrink.

Planned ends are start + plan. A running job that outlives its plan gets a new one: twice the time it has run, and
a minute, at most its limit.

Here are the fast loops: `run_fcfs` for the strict order of arrival, `run_static` for orders that never change.
`_conservative`, `_listed` and `_events` have those for everything else. Inputs are sorted by submit; every size
must be at most `capacity`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from presage.simulator._large import Large, Progress, Work, run_large
from presage.simulator._structures import GRACE_MS as GRACE_MS
from presage.simulator._structures import (
    NEVER,
    find_leaf,
    find_next,
    find_shortest,
    insert_running,
    pop_end,
    push_end,
    remove_running,
    renew_plans,
    reserve,
    set_leaf,
    set_size,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

# Codes of presage.policies: backfillings, and dynamic orders.
NONE, EASY, EASY_SJBF, CONSERVATIVE = 0, 1, 2, 3
WFP3, UNICEP, LXF = 0, 1, 2
STATIC = -1
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
    large: Large,
    start: Ints,
) -> None:
    """Fill `start` for an order that never changes: `order[rank[job]] == job`.

    `short_rank` and `short_order` are the order in which EASY_SJBF tries candidates, else that of the queue. The
    queue is a tree of which hopeless parts are skipped, not a list. While very many jobs wait or run, as `large`
    says, `run_large` takes over.
    """
    count = len(submit)
    leaves = 1
    while leaves < count:
        leaves *= 2
    sizes = np.full(2 * leaves, NEVER, np.int64)
    plans = np.full(2 * leaves, NEVER, np.int64)
    # Where candidates are tried in the order of their plans, the first that is small enough is the shortest.
    ascending = is_ascending(plan, short_order)
    by_length = backfilling == EASY_SJBF
    short_sizes = np.full(2 * leaves if by_length else 2, NEVER, np.int64)
    ends = np.empty(count + 1, np.int64)
    ending = np.empty(count + 1, np.int64)
    planned = np.empty(count + 1, np.int64)
    holding = np.empty(count + 1, np.int64)
    planned_end = np.empty(count, np.int64)
    work = Work(submit, run, plan, limit, size, rank, order, short_rank, short_order)
    progress = Progress(sizes, plans, short_sizes, ends, ending, planned, holding, planned_end, start)
    running = 0
    waiting = 0
    arrived = 0
    free = capacity
    head = -1
    shadow = 0
    extra = 0
    effort = 0
    while arrived < count or running > 0:
        next_is_end = running > 0 and (arrived >= count or ends[0] <= submit[arrived])
        now = ends[0] if next_is_end else submit[arrived]
        must_pass = False
        while running > 0 and ends[0] <= now:
            job = ending[0]
            running -= 1
            pop_end(ends, ending, running)
            if backfilling != NONE:
                remove_running(planned, holding, running, planned_end[job], job)
            free += size[job]
            must_pass = True
        if backfilling != NONE and renew_plans(planned, holding, planned_end, running, now, start, limit):
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
                    set_size(short_sizes, leaves, short_rank[job], size[job])
                waiting += 1
            continue
        for job in range(first, arrived):
            set_leaf(sizes, plans, leaves, rank[job], size[job], plan[job])
            if by_length:
                set_size(short_sizes, leaves, short_rank[job], size[job])
            waiting += 1
        many = running + min(waiting, free) >= large.running
        if backfilling != NONE and (many or (waiting >= large.queue and effort >= 64 * large.effort)):
            effort = 0
            running, waiting, arrived, free, head, shadow, extra = run_large(
                work, progress, now, running, waiting, arrived, free, capacity, by_length, ascending, large
            )
            continue
        blocked = False
        position = 0
        while waiting > 0:
            if not blocked:
                position = find_next(sizes, leaves, position)
                job = order[position]
                if size[job] > free:
                    blocked = True
                    head = position
                    if backfilling == NONE or free == 0:
                        break
                    shadow, extra = reserve(planned, holding, running, size, free, size[job])
                    continue
            else:
                if by_length:
                    found = find_shortest(short_sizes, leaves, short_order, plan, free, shadow - now, extra)
                elif ascending:
                    found = find_shortest(sizes, leaves, order, plan, free, shadow - now, extra)
                else:
                    # The head itself is too large, and who was passed over in this pass stays so.
                    found, visited = find_leaf(sizes, plans, leaves, position, free, shadow - now, extra)
                    effort += visited - effort // 64
                if found < 0:
                    break
                position = found
                job = short_order[position]
                if now + plan[job] > shadow:
                    extra -= size[job]
            set_leaf(sizes, plans, leaves, rank[job], NEVER, NEVER)
            if by_length:
                set_size(short_sizes, leaves, short_rank[job], NEVER)
            waiting -= 1
            start[job] = now
            free -= size[job]
            push_end(ends, ending, running, now + run[job], job)
            if backfilling != NONE:
                planned_end[job] = now + plan[job]
                insert_running(planned, holding, running, planned_end[job], job)
            running += 1


@njit(cache=True, nogil=True)
def is_ascending(plan: Ints, order: Ints) -> bool:
    """Return whether no job of `order` is planned to be shorter than one before it."""
    at = 1
    while at < len(order) and plan[order[at - 1]] <= plan[order[at]]:
        at += 1
    return at >= len(order)


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
