"""What happens to machines that wait for choices: jobs arrive, start and end, processors fail and come back.

At one instant all ends come first, then failures and repairs, then arrivals. Processors that fail are taken from
those that are free; where these are too few, the jobs that started last are killed, the last first, and wait again
behind all others. What the start of a killed job cost is given back; its next start costs anew.

Times are integer milliseconds. Arrays have one row per machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._compiling import inner
from presage.simulator._structures import (
    NEVER,
    insert_running,
    pop_end,
    push_end,
    remove_running,
    renew_plans,
    reserve,
)
from presage.simulator.metrics import TAU_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

# Columns of `facts`: the present, processors and those that are free, jobs that run, wait, have arrived and have
# started, how many there are at all; the job that a machine is committed to, the job behind which others are
# backfilled by choice, the time reserved for either and what is left over then; how many jobs can be seen;
# processors that have failed, failures and repairs so far and at all, waiting jobs that go before any choice, and
# how often a job was killed.
NOW, PROCESSORS, FREE, RUNNING, WAITING, ARRIVED, STARTED, JOBS, CHOSEN, HEAD, RESERVED, EXTRA, SLOTS = range(13)
DOWN, CHANGED, CHANGES, URGENT, KILLS = range(13, 18)
FACTS = 18
NOBODY = -1
NO_DEADLINE = NEVER
HOUR_S = 3600.0
STANDARD, COMMIT, RANKED = 0, 1, 2


class Machines(NamedTuple):
    """The jobs of each machine's episode, by submit, and how far it is."""

    submit: Ints
    run: Ints
    plan: Ints
    limit: Ints
    size: Ints
    start: Ints
    """-1: not yet."""
    ends: Ints
    ending: Ints
    planned: Ints
    holding: Ints
    planned_end: Ints
    queue: Ints
    facts: Ints
    deadline: Ints
    """Per job, or NO_DEADLINE."""
    rank: Ints
    """Where each job belongs in the queue, for machines whose queues go by rank."""
    override: Ints
    """1 for jobs that go before any choice, in the order of the queue."""
    change_at: Ints
    """When processors fail or come back."""
    change_by: Ints
    """How many, negative where they fail; after the last change all are there."""
    cost: NDArray[np.float64]
    """What the jobs that have started since it was last set to 0 cost."""
    prices: NDArray[np.float64]
    """Of a unit of bounded slowdown, of an hour of waiting, of an hour of response and of a missed deadline."""


def new_machines(machines: int, jobs: int, changes: int = 0) -> Machines:
    """Return room for so many machines with at most so many jobs, failures and repairs each."""

    def of_jobs(more: int = 0) -> Ints:
        return np.zeros((machines, jobs + more), np.int64)

    return Machines(
        submit=of_jobs(), run=of_jobs(), plan=of_jobs(), limit=of_jobs(), size=of_jobs(),
        start=of_jobs(), ends=of_jobs(1), ending=of_jobs(1), planned=of_jobs(1), holding=of_jobs(1),
        planned_end=of_jobs(), queue=of_jobs(), facts=np.zeros((machines, FACTS), np.int64),
        deadline=of_jobs(), rank=of_jobs(), override=of_jobs(), change_at=np.zeros((machines, changes), np.int64),
        change_by=np.zeros((machines, changes), np.int64), cost=np.zeros(machines), prices=np.zeros(4),
    )  # fmt: skip


@inner
def clear(m: Machines, at: int, jobs: int, processors: int, slots: int, changes: int) -> None:
    """Empty a machine; the jobs of its episode, and what fails in it, are written already."""
    m.start[at, :jobs] = -1
    facts = m.facts[at]
    facts[:] = 0
    m.cost[at] = 0
    facts[PROCESSORS] = facts[FREE] = processors
    facts[JOBS] = jobs
    facts[SLOTS] = slots
    facts[CHANGES] = changes
    facts[CHOSEN] = facts[HEAD] = NOBODY


@inner
def is_over(m: Machines, at: int) -> bool:
    """Return whether all jobs have started and none of them can be killed any more."""
    facts = m.facts[at]
    return bool(facts[STARTED] == facts[JOBS] and (facts[CHANGED] == facts[CHANGES] or facts[RUNNING] == 0))


@inner
def reservation(m: Machines, at: int, job: int) -> tuple[int, int]:
    """Return when a job that does not fit will, by the plans, and how many processors are left over then.

    NEVER where processors that have failed are needed: as far as is known, nobody delays it.
    """
    facts = m.facts[at]
    if m.size[at, job] > facts[PROCESSORS] - facts[DOWN]:
        return NEVER, 0
    return reserve(m.planned[at], m.holding[at], facts[RUNNING], m.size[at], facts[FREE], m.size[at, job])


@inner
def start(m: Machines, at: int, slot: int) -> None:
    """Start the job in a place of the queue."""
    facts = m.facts[at]
    job = m.queue[at, slot]
    dequeue(m, at, slot)
    m.start[at, job] = facts[NOW]
    m.planned_end[at, job] = facts[NOW] + m.plan[at, job]
    push_end(m.ends[at], m.ending[at], facts[RUNNING], facts[NOW] + m.run[at, job], job)
    insert_running(m.planned[at], m.holding[at], facts[RUNNING], m.planned_end[at, job], job)
    facts[RUNNING] += 1
    facts[FREE] -= m.size[at, job]
    facts[STARTED] += 1
    m.cost[at] += _cost(m, at, job)


@inner
def dequeue(m: Machines, at: int, slot: int) -> None:
    """Take the job in a place of the queue out of it."""
    facts = m.facts[at]
    facts[URGENT] -= m.override[at, m.queue[at, slot]]
    facts[WAITING] -= 1
    for k in range(slot, facts[WAITING]):
        m.queue[at, k] = m.queue[at, k + 1]


@inner
def _cost(m: Machines, at: int, job: int) -> float:
    """Return what a job costs that has started: all about it is settled."""
    return settled_cost(
        m.prices, m.start[at, job] - m.submit[at, job], m.run[at, job], m.deadline[at, job] - m.start[at, job]
    )


@inner
def settled_cost(prices: NDArray[np.float64], wait_ms: int, run_ms: int, left_ms: int) -> float:
    """Return what a job costs that waited and runs so long; `left_ms` is how long until its deadline."""
    wait_s = wait_ms / 1000
    run_s = run_ms / 1000
    response_s = wait_s + run_s
    return float(
        prices[0] * max(1.0, response_s / max(run_s, TAU_S))
        + prices[1] * wait_s / HOUR_S
        + prices[2] * response_s / HOUR_S
        + prices[3] * (run_ms > left_ms)
    )


@inner
def next_event(m: Machines, at: int, semantics: int) -> bool:
    """Move to the next instant at which something happens; return whether there is one.

    Machines that commit take one event at a time, arrivals before ends, jobs that end together by their number,
    and failures and repairs last.
    """
    facts = m.facts[at]
    now = next_instant(m, at)
    if now == NEVER:
        return False
    facts[NOW] = now
    if semantics == COMMIT:
        if facts[ARRIVED] < facts[JOBS] and m.submit[at, facts[ARRIVED]] == now:
            _arrive(m, at, semantics)
        elif facts[RUNNING] > 0 and m.ends[at, 0] == now:
            _end(m, at, _first_of_ends(m, at))
        else:
            _change(m, at, semantics)
        _renew_plans(m, at)
        return True
    while facts[RUNNING] > 0 and m.ends[at, 0] <= now:
        _end(m, at, 0)
    while facts[CHANGED] < facts[CHANGES] and m.change_at[at, facts[CHANGED]] <= now:
        _change(m, at, semantics)
    _renew_plans(m, at)
    while facts[ARRIVED] < facts[JOBS] and m.submit[at, facts[ARRIVED]] <= now:
        _arrive(m, at, semantics)
    return True


@inner
def next_instant(m: Machines, at: int) -> int:
    """Return when something happens next, or NEVER."""
    facts = m.facts[at]
    instant = NEVER
    if facts[ARRIVED] < facts[JOBS]:
        instant = min(instant, m.submit[at, facts[ARRIVED]])
    if facts[RUNNING] > 0:
        instant = min(instant, m.ends[at, 0])
    if facts[CHANGED] < facts[CHANGES]:
        instant = min(instant, m.change_at[at, facts[CHANGED]])
    return instant


@inner
def _arrive(m: Machines, at: int, semantics: int) -> None:
    facts = m.facts[at]
    enqueue(m, at, facts[ARRIVED], semantics)
    facts[ARRIVED] += 1


@inner
def enqueue(m: Machines, at: int, job: int, semantics: int) -> None:
    """Let a job wait behind all others, or at its rank."""
    facts = m.facts[at]
    place = facts[WAITING]
    if semantics == RANKED:
        while place > 0 and m.rank[at, m.queue[at, place - 1]] > m.rank[at, job]:
            m.queue[at, place] = m.queue[at, place - 1]
            place -= 1
    m.queue[at, place] = job
    facts[WAITING] += 1
    facts[URGENT] += m.override[at, job]


@inner
def _first_of_ends(m: Machines, at: int) -> int:
    """Return the place in the heap of the job with the lowest number among those that end next."""
    first = 0
    for k in range(1, m.facts[at, RUNNING]):
        if m.ends[at, k] == m.ends[at, 0] and m.ending[at, k] < m.ending[at, first]:
            first = k
    return first


@inner
def _end(m: Machines, at: int, place: int) -> None:
    """Take the job in a place of the heap of ends off the machine."""
    facts = m.facts[at]
    job = m.ending[at, place]
    facts[RUNNING] -= 1
    remove_end(m.ends[at], m.ending[at], place, facts[RUNNING])
    remove_running(m.planned[at], m.holding[at], facts[RUNNING], m.planned_end[at, job], job)
    facts[FREE] += m.size[at, job]


@inner
def remove_end(ends: Ints, ending: Ints, place: int, count: int) -> None:
    """Remove any place of a heap of ends; `count` is the number that remain."""
    while place > 0:
        parent = (place - 1) >> 1
        ends[place] = ends[parent]
        ending[place] = ending[parent]
        place = parent
    pop_end(ends, ending, count)


@inner
def _change(m: Machines, at: int, semantics: int) -> None:
    """Let the next processors fail or come back."""
    facts = m.facts[at]
    by = m.change_by[at, facts[CHANGED]]
    while facts[FREE] + by < 0:
        place = _youngest(m, at)
        job = m.ending[at, place]
        _end(m, at, place)
        m.cost[at] -= _cost(m, at, job)
        m.start[at, job] = -1
        facts[STARTED] -= 1
        facts[KILLS] += 1
        enqueue(m, at, job, semantics)
    facts[FREE] += by
    facts[DOWN] -= by
    facts[CHANGED] += 1


@inner
def _youngest(m: Machines, at: int) -> int:
    """Return the place in the heap of the running job that started last, of equals the one that came last."""
    youngest = 0
    for k in range(1, m.facts[at, RUNNING]):
        job, other = m.ending[at, k], m.ending[at, youngest]
        if (m.start[at, job], job) > (m.start[at, other], other):
            youngest = k
    return youngest


@inner
def _renew_plans(m: Machines, at: int) -> None:
    """Plan the running jobs anew that have outlived their plans."""
    now, running = m.facts[at, NOW], m.facts[at, RUNNING]
    renew_plans(m.planned[at], m.holding[at], m.planned_end[at], running, now, m.start[at], m.limit[at])
