"""Machines that go on by themselves while somebody decides when to submit one more job.

Queues go by rank with EASY backfilling; with ranks in the order of submits that is `fcfs+easy`. The job that is
decided about is the second of a chain of two equal ones. The first comes among the others and starts when it can;
the second stands behind all others in the arrays, and comes when it is submitted, after all that happens at that
instant. Both are ranked behind all that came before them and have no override; the ranks of the others are
multiples of four.

Times are integer milliseconds. Arrays have one row per machine; `presage.simulator._moments` moves them.
"""

from __future__ import annotations

from presage.simulator._compiling import compiled, inner
from presage.simulator._moments import (
    ARRIVED,
    FREE,
    NOW,
    RANKED,
    WAITING,
    Machines,
    clear,
    enqueue,
    next_event,
    next_instant,
    reservation,
    start,
)
from presage.simulator.choices import backfill


@compiled
def begin_chain(m: Machines, at: int, jobs: int, processors: int, submit_ms: int, size: int, limit_ms: int) -> int:
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
    m.rank[at, first] = _rank_behind(m, at, first)
    clear(m, at, jobs + 1, processors, 0, 0)
    while m.start[at, first] < 0 and next_event(m, at, RANKED):
        _decide(m, at)
    return first


@inner
def _rank_behind(m: Machines, at: int, jobs: int) -> int:
    """Return a rank behind those of the first jobs that have no override."""
    last = -1
    for job in range(jobs):
        if not m.override[at, job]:
            last = max(last, m.rank[at, job])
    return last + 1


@compiled
def run_until(m: Machines, at: int, instant: int) -> None:
    """Let all happen that happens up to an instant."""
    while next_instant(m, at) <= instant:
        next_event(m, at, RANKED)
        _decide(m, at)
    m.facts[at, NOW] = instant


@compiled
def submit(m: Machines, at: int, job: int) -> None:
    """Submit the job that is decided about, and go on until it has started."""
    m.submit[at, job] = m.facts[at, NOW]
    m.rank[at, job] = _rank_behind(m, at, m.facts[at, ARRIVED])
    enqueue(m, at, job, RANKED)
    _decide(m, at)
    while m.start[at, job] < 0 and next_event(m, at, RANKED):
        _decide(m, at)


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
