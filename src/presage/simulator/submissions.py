"""Machines that go on by themselves while somebody decides when to submit one more job.

Queues go by rank with EASY backfilling; with ranks in the order of submits that is `fcfs+easy`. The job that is
decided about is the second of a chain of two equal ones. The first comes among the others and starts when it can;
the second stands behind all others in the arrays, and comes when it is submitted, after all that happens at that
instant. Both are ranked behind all that came before them and have no override; the ranks of the others are
multiples of four.

Where processors fail, jobs that are killed wait again at their ranks. If the first of the chain is killed, that is
its end: it does not wait again, since the second goes on from there.

Times are integer milliseconds. Arrays have one row per machine; `presage.simulator._moments` moves them.
"""

from __future__ import annotations

from presage.simulator._compiling import compiled, inner
from presage.simulator._moments import (
    ARRIVED,
    CHANGED,
    CHANGES,
    FREE,
    JOBS,
    NOW,
    RANKED,
    WAITING,
    Machines,
    clear,
    dequeue,
    enqueue,
    next_event,
    next_instant,
    reservation,
    start,
)
from presage.simulator._structures import NEVER
from presage.simulator.choices import backfill


@compiled
def begin_chain(
    m: Machines, at: int, jobs: int, processors: int, changes: int, submit_ms: int, size: int, limit_ms: int
) -> int:
    """Put a chain to the jobs of an empty machine and go on until its first has started; return where that stands.

    There must be room for two more jobs than the `jobs` that are written.
    """
    first = jobs
    while first > 0 and m.submit[at, first - 1] > submit_ms:
        first -= 1
    for values in (m.submit, m.run, m.plan, m.limit, m.size, m.rank, m.override):
        for job in range(jobs, first, -1):
            values[at, job] = values[at, job - 1]
    for job in (first, jobs + 1):
        m.submit[at, job] = submit_ms
        m.run[at, job] = m.plan[at, job] = m.limit[at, job] = limit_ms
        m.size[at, job] = size
        m.override[at, job] = 0
        m.start[at, job] = -1
    clear(m, at, jobs + 1, processors, 0, changes)
    m.rank[at, first] = _rank_behind(m, at, first)
    while _awaits(m, at, first):
        _go_on(m, at, first)
    return first


@inner
def _rank_behind(m: Machines, at: int, jobs: int) -> int:
    """Return a rank behind those of the first jobs, and of all that have an override, whenever they come."""
    last = -1
    for job in range(m.facts[at, JOBS]):
        if job < jobs or m.override[at, job]:
            last = max(last, m.rank[at, job])
    return last + 1


@inner
def _awaits(m: Machines, at: int, job: int) -> bool:
    """Return whether a job has not started, and something happens that may let it."""
    return bool(m.start[at, job] < 0 and next_instant(m, at) < NEVER)


@inner
def _go_on(m: Machines, at: int, first: int) -> bool:
    """Go on to the next event; return whether the first of the chain was killed in it."""
    begun = m.start[at, first]
    next_event(m, at, RANKED)
    killed = begun >= 0 and m.start[at, first] < 0
    if killed:
        slot = 0
        while m.queue[at, slot] != first:
            slot += 1
        dequeue(m, at, slot)
        m.start[at, first] = begun
    _decide(m, at)
    return bool(killed)


@compiled
def run_until(m: Machines, at: int, first: int, instant: int) -> bool:
    """Let all happen that happens up to an instant, or until the first is killed; return whether it was."""
    while next_instant(m, at) <= instant:
        if _go_on(m, at, first):
            return True
    m.facts[at, NOW] = instant
    return False


@compiled
def hand_over(m: Machines, at: int, first: int, second: int, end: int) -> tuple[int, int]:
    """Submit the second job and go on until it runs and the first has ended.

    Return when the first ended, which is at `end` unless it was killed before, and for how long both ran; that
    counts also where the second was killed before it was of use, and had to start once more.
    """
    facts = m.facts[at]
    m.submit[at, second] = facts[NOW]
    m.rank[at, second] = _rank_behind(m, at, facts[ARRIVED])
    enqueue(m, at, second, RANKED)
    _decide(m, at)
    overlap = 0
    while _awaits(m, at, second) or (facts[CHANGED] < facts[CHANGES] and next_instant(m, at) < end):
        begun = m.start[at, second]
        if _go_on(m, at, first):
            end = facts[NOW]
        if begun >= 0 and m.start[at, second] != begun:
            overlap += facts[NOW] - begun
    return end, int(overlap + max(0, end - m.start[at, second]))


@inner
def _decide(m: Machines, at: int) -> None:
    """Start jobs in the order of the queue; behind the first that does not fit, those that do not delay it."""
    facts = m.facts[at]
    while facts[WAITING] > 0 and m.size[at, m.queue[at, 0]] <= facts[FREE]:
        start(m, at, 0)
    if facts[WAITING] > 1 and facts[FREE] > 0:
        first = m.queue[at, 0]
        reserved, left_over = reservation(m, at, first)
        backfill(m, at, first, reserved, left_over)
