"""The event engine for backfilling at intervals, as Slurm does it; integer milliseconds.

Two schedulers share the queue. The main one starts jobs from the front while they fit and never passes one that
does not. A submit or an end asks for a pass of it, which comes at the next tick of `poll`, but not before
`main_gap` has gone by since the pass before. A pass looks at `main_depth` jobs; what it leaves is taken up by the
next pass, or by the full pass that comes every `main_interval`.

The other goes through the queue in cycles. One is due at the first tick at which something is new, a submit, a
start or an end, but not before `interval` has gone by since the last. A cycle that leaves jobs in the queue is
followed by others at exact intervals, of which those without news are skipped. A cycle gives each of the first
`depth` jobs, in order, the earliest place. A job whose place is now starts. Any other keeps its place if that is
at most `window` away: from its start to its end, both rounded down to whole `resolution`. A job of which nothing
is kept holds nobody up.

At one instant all ends come first, then arrivals, then the main scheduler, then the other. A processor is free
`release` after the end of its job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from presage.simulator._places import NOBODY, Pace, start_from_the_front, start_in_places
from presage.simulator._pooled import in_order
from presage.simulator._structures import NEVER, begin_running, close_ranks, end_first, renew_plans, smallest_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

MAIN, BACKFILL = 0, 1


@njit(cache=True, nogil=True)
def run_periodic(
    submit: Ints,
    run: Ints,
    plan: Ints,
    limit: Ints,
    estimate_s: Floats,
    processors: Ints,
    size: Ints,
    rank: Ints,
    rule: int,
    capacity: int,
    pace: Pace,
    start: Ints,
) -> None:
    """Fill `start`. `rule`, `rank` and `estimate_s` are as in `run_listed`; inputs are sorted by submit.

    `size` and `capacity` count nodes; orders go by `processors`.
    """
    count = len(submit)
    ends = np.empty(count + 1, np.int64)
    ending = np.empty(count + 1, np.int64)
    planned = np.empty(count + 1, np.int64)
    holding = np.empty(count + 1, np.int64)
    planned_end = np.empty(count, np.int64)
    queue = np.empty(count, np.int64)
    queued = np.ones(count, np.bool_)
    owner = np.full(capacity, NOBODY, np.int64)
    scratch = np.empty((2, count), np.int64)
    running = 0
    waiting = 0
    arrived = 0
    free = capacity
    last_pass = -NEVER
    pass_at = NEVER
    full_at = NEVER
    last_news = -NEVER
    last_cycle = -NEVER
    cycle_at = NEVER
    steady = False
    while arrived < count or waiting > 0:
        now = min(pass_at, full_at, cycle_at)
        if running > 0:
            now = min(now, ends[0])
        if arrived < count:
            now = min(now, submit[arrived])
        asked = False
        while running > 0 and ends[0] <= now:
            running -= 1
            job = end_first(ends, ending, planned, holding, planned_end, running)
            free += size[job]
            for node in range(capacity):
                if owner[node] == job:
                    owner[node] = NOBODY
            asked = True
        while arrived < count and submit[arrived] <= now:
            queue[waiting] = arrived
            waiting += 1
            arrived += 1
            asked = True
        if asked:
            last_news = now
            if pass_at == NEVER:
                pass_at = _tick(max(now, last_pass + pace.main_gap), pace.poll, pace.origin)
            if cycle_at == NEVER:
                cycle_at = _next_cycle(now, last_cycle, steady, pace)
        smallest = smallest_of(queue, waiting, size)
        for scheduler in (MAIN, BACKFILL):
            if scheduler == MAIN:
                if min(pass_at, full_at) > now:
                    continue
                depth = waiting if full_at <= now else min(waiting, pace.main_depth)
                full_at = NEVER
                if pass_at <= now:
                    last_pass = now
                    pass_at = NEVER
            else:
                if cycle_at > now:
                    continue
                depth = min(waiting, pace.depth)
                last_cycle = now
                steady = waiting > 0
                # News is stamped with whole ticks: what is of the cycle's own tick counts as new once more.
                cycle_at = NEVER
                if last_news > now - pace.poll:
                    cycle_at = _next_cycle(now, last_cycle, steady, pace)
                renew_plans(planned, holding, planned_end, running, now, start, limit)
            if smallest > free:
                continue
            line = in_order(queue[:waiting], now, submit, estimate_s, processors, rank, rule)[:depth]
            if scheduler == MAIN:
                starts = start_from_the_front(line, size, owner)
                if starts.all() and depth < waiting:
                    full_at = _tick(now + 1, pace.main_interval, pace.origin)
            else:
                starts = start_in_places(line, now, plan, size, planned, holding, running, owner, scratch, pace)
            gone = 0
            for at in range(depth):
                if starts[at]:
                    job = line[at]
                    start[job] = now
                    free -= size[job]
                    end, planned_for = now + run[job] + pace.release, now + plan[job]
                    begin_running(ends, ending, planned, holding, planned_end, running, job, end, planned_for)
                    running += 1
                    queued[job] = False
                    gone += 1
            if gone > 0:
                waiting = close_ranks(queue, queued, waiting)
                last_news = now
                if scheduler == BACKFILL:
                    steady = waiting > 0
                    cycle_at = NEVER
                if cycle_at == NEVER:
                    cycle_at = _next_cycle(now, last_cycle, steady, pace)


@njit(inline="always")
def _tick(instant: int, period: int, origin: int) -> int:
    """Return the first multiple of `period`, counted from `origin`, at or after `instant`."""
    return origin - (origin - instant) // period * period


@njit(inline="always")
def _next_cycle(news: int, last_cycle: int, steady: bool, pace: Pace) -> int:
    """Return when the cycle comes that something new at `news` makes worth while."""
    if steady:
        return _tick(max(news, last_cycle + 1), pace.interval, last_cycle)
    return _tick(max(news, last_cycle + pace.interval), pace.poll, pace.origin)
