"""Many machines at once, each stopped where somebody has to say which job goes next.

At one instant all ends come first, then all arrivals, then choices until nothing more can start. Under the
standard semantics the chosen job starts if it fits. If it does not, it gets a reservation (EASY), and the next
choices are among the jobs that do not delay it; then time moves on, and at the next event all is chosen anew.
Whoever always chooses by one order makes the schedule of that order with EASY backfilling. Under the semantics
that commit, the chosen job stays chosen until it starts, and events come one by one, as in `presage.simulator`.

Nobody is asked where there is nothing to choose: one possible job, or none that fits. An episode is over when the
last job has started, since all that follows is known then.

Times are integer milliseconds. Arrays have one row per machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._compiling import compiled as compiled
from presage.simulator._compiling import inner
from presage.simulator._structures import (
    NEVER,
    insert_running,
    pop_end,
    push_end,
    remove_running,
    renewed_end,
    reserve,
)
from presage.simulator.metrics import TAU_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

# Columns of `facts`: the present, processors and those that are free, jobs that run, wait, have arrived and have
# started, how many there are at all; the job that a machine is committed to, the job behind which others are
# backfilled by choice, the time reserved for either and what is left over then; and how many jobs can be seen.
NOW, PROCESSORS, FREE, RUNNING, WAITING, ARRIVED, STARTED, JOBS, CHOSEN, HEAD, RESERVED, EXTRA, SLOTS = range(13)
FACTS = 13
# How jobs are backfilled: not at all, in the order in which they came, by choice.
NONE, BY_ARRIVAL, BY_CHOICE = 0, 1, 2
NOBODY = -1
NO_DEADLINE = NEVER
HOUR_S = 3600.0
STANDARD, COMMIT = 0, 1


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
    cost: NDArray[np.float64]
    """What the jobs that have started since `take_costs` cost."""
    prices: NDArray[np.float64]
    """Of a unit of bounded slowdown, of an hour of waiting, of an hour of response and of a missed deadline."""


def new_machines(machines: int, jobs: int) -> Machines:
    """Return room for so many machines with at most so many jobs each."""

    def of_jobs(more: int = 0) -> Ints:
        return np.zeros((machines, jobs + more), np.int64)

    return Machines(
        submit=of_jobs(), run=of_jobs(), plan=of_jobs(), limit=of_jobs(), size=of_jobs(),
        start=of_jobs(), ends=of_jobs(1), ending=of_jobs(1), planned=of_jobs(1), holding=of_jobs(1),
        planned_end=of_jobs(), queue=of_jobs(), facts=np.zeros((machines, FACTS), np.int64),
        deadline=of_jobs(), cost=np.zeros(machines), prices=np.zeros(4),
    )  # fmt: skip


@compiled
def begin(m: Machines, at: int, jobs: int, processors: int, slots: int, semantics: int, backfilling: int) -> bool:
    """Bring a machine, whose jobs are written already, to its first choice; return whether there is any."""
    m.start[at, :jobs] = -1
    facts = m.facts[at]
    facts[:] = 0
    m.cost[at] = 0
    facts[PROCESSORS] = facts[FREE] = processors
    facts[JOBS] = jobs
    facts[SLOTS] = slots
    facts[CHOSEN] = facts[HEAD] = NOBODY
    return _to_next_choice(m, at, semantics, backfilling)


@compiled
def choose(m: Machines, at: int, slot: int, semantics: int, backfilling: int) -> bool:
    """Follow a choice (a place in the queue) up to the next one; return whether there is one."""
    if m.facts[at, HEAD] != NOBODY:
        _start_behind(m, at, slot)
    elif (
        not _follow(m, at, slot, semantics, backfilling)
        and m.facts[at, HEAD] == NOBODY
        and not _next_event(m, at, semantics)
    ):
        return False
    return _to_next_choice(m, at, semantics, backfilling)


@inner
def _to_next_choice(m: Machines, at: int, semantics: int, backfilling: int) -> bool:
    facts = m.facts[at]
    while facts[STARTED] < facts[JOBS]:
        if facts[CHOSEN] != NOBODY:
            _keep_to_choice(m, at, backfilling)
        if facts[HEAD] != NOBODY:
            first, another = two_possible(m, at)
            if another >= 0:
                return True
            if first >= 0:
                _start_behind(m, at, first)
                continue
            facts[HEAD] = NOBODY
        elif (
            facts[CHOSEN] == NOBODY
            and facts[WAITING] > 0
            and (semantics == COMMIT or _smallest(m, at) <= facts[FREE])
        ):
            if facts[WAITING] > 1:
                return True
            if _follow(m, at, 0, semantics, backfilling) or facts[HEAD] != NOBODY:
                continue
        if not _next_event(m, at, semantics):
            return False
    return False


@inner
def _follow(m: Machines, at: int, slot: int, semantics: int, backfilling: int) -> bool:
    """Start a chosen job, or if it does not fit reserve for it and backfill; return whether it started."""
    facts = m.facts[at]
    job = m.queue[at, slot]
    if m.size[at, job] <= facts[FREE]:
        _start(m, at, slot)
        return True
    shadow, extra = reserve(m.planned[at], m.holding[at], facts[RUNNING], m.size[at], facts[FREE], m.size[at, job])
    if semantics == COMMIT:
        facts[CHOSEN] = job
        facts[RESERVED] = shadow
        if backfilling:
            _backfill_strictly(m, at)
    elif backfilling == BY_ARRIVAL:
        _backfill(m, at, job, shadow, extra)
    elif backfilling == BY_CHOICE:
        facts[HEAD] = job
        facts[RESERVED] = shadow
        facts[EXTRA] = extra
    return False


@inner
def is_possible(m: Machines, at: int, slot: int) -> bool:
    """Return whether the job in a place of the queue may be chosen."""
    facts = m.facts[at]
    if not 0 <= slot < min(facts[WAITING], facts[SLOTS]):
        return False
    if facts[HEAD] == NOBODY:
        return True
    job = m.queue[at, slot]
    if job == facts[HEAD] or m.size[at, job] > facts[FREE]:
        return False
    return bool(facts[NOW] + m.plan[at, job] <= facts[RESERVED] or m.size[at, job] <= facts[EXTRA])


@inner
def two_possible(m: Machines, at: int) -> tuple[int, int]:
    """Return the first two places that may be chosen; -1 where there are fewer."""
    first = -1
    for slot in range(min(m.facts[at, WAITING], m.facts[at, SLOTS])):
        if is_possible(m, at, slot):
            if first >= 0:
                return first, slot
            first = slot
    return first, -1


@inner
def _start_behind(m: Machines, at: int, slot: int) -> None:
    """Start a job that does not delay the reservation."""
    job = m.queue[at, slot]
    if m.facts[at, NOW] + m.plan[at, job] > m.facts[at, RESERVED]:
        m.facts[at, EXTRA] -= m.size[at, job]
    _start(m, at, slot)


@inner
def _keep_to_choice(m: Machines, at: int, backfilling: int) -> None:
    """Start the job that was chosen if it fits by now; else backfill again."""
    facts = m.facts[at]
    job = facts[CHOSEN]
    if m.size[at, job] <= facts[FREE]:
        slot = 0
        while m.queue[at, slot] != job:
            slot += 1
        _start(m, at, slot)
        facts[CHOSEN] = NOBODY
    elif backfilling:
        _backfill_strictly(m, at)


@inner
def _backfill(m: Machines, at: int, head: int, shadow: int, extra: int) -> None:
    """Start waiting jobs that do not delay the reservation, in the order in which they came."""
    facts = m.facts[at]
    slot = 0
    while slot < facts[WAITING]:
        job = m.queue[at, slot]
        fits = job != head and m.size[at, job] <= facts[FREE]
        if fits and facts[NOW] + m.plan[at, job] > shadow:
            fits = m.size[at, job] <= extra
            if fits:
                extra -= m.size[at, job]
        if fits:
            _start(m, at, slot)
        else:
            slot += 1


@inner
def _backfill_strictly(m: Machines, at: int) -> None:
    """Start waiting jobs that are planned to end before the time reserved for the chosen one."""
    facts = m.facts[at]
    slot = 0
    while slot < facts[WAITING]:
        job = m.queue[at, slot]
        if (
            job != facts[CHOSEN]
            and m.size[at, job] <= facts[FREE]
            and facts[NOW] + m.plan[at, job] < facts[RESERVED]
        ):
            _start(m, at, slot)
        else:
            slot += 1


@inner
def _start(m: Machines, at: int, slot: int) -> None:
    facts = m.facts[at]
    job = m.queue[at, slot]
    for k in range(slot, facts[WAITING] - 1):
        m.queue[at, k] = m.queue[at, k + 1]
    facts[WAITING] -= 1
    m.start[at, job] = facts[NOW]
    m.planned_end[at, job] = facts[NOW] + m.plan[at, job]
    push_end(m.ends[at], m.ending[at], facts[RUNNING], facts[NOW] + m.run[at, job], job)
    insert_running(m.planned[at], m.holding[at], facts[RUNNING], m.planned_end[at, job], job)
    facts[RUNNING] += 1
    facts[FREE] -= m.size[at, job]
    facts[STARTED] += 1
    m.cost[at] += _cost(m, at, job)


@inner
def _cost(m: Machines, at: int, job: int) -> float:
    """Return what a job costs that starts now: all about it is settled."""
    wait_s = (m.facts[at, NOW] - m.submit[at, job]) / 1000
    run_s = m.run[at, job] / 1000
    response_s = wait_s + run_s
    is_late = m.facts[at, NOW] + m.run[at, job] > m.deadline[at, job]
    return float(
        m.prices[0] * max(1.0, response_s / max(run_s, TAU_S))
        + m.prices[1] * wait_s / HOUR_S
        + m.prices[2] * response_s / HOUR_S
        + m.prices[3] * is_late
    )


@inner
def _next_event(m: Machines, at: int, semantics: int) -> bool:
    """Move to the next instant at which something ends or arrives; return whether there is one.

    Machines that commit take one event at a time, arrivals before ends, jobs that end together by their number.
    """
    facts = m.facts[at]
    arrives = m.submit[at, facts[ARRIVED]] if facts[ARRIVED] < facts[JOBS] else NEVER
    ends = m.ends[at, 0] if facts[RUNNING] > 0 else NEVER
    now = min(arrives, ends)
    if now == NEVER:
        return False
    facts[NOW] = now
    if semantics == COMMIT:
        if arrives == now:
            _arrive(m, at)
        else:
            _end(m, at, _first_of_ends(m, at))
        _renew_plans(m, at)
        return True
    while facts[RUNNING] > 0 and m.ends[at, 0] <= now:
        _end(m, at, 0)
    _renew_plans(m, at)
    while facts[ARRIVED] < facts[JOBS] and m.submit[at, facts[ARRIVED]] <= now:
        _arrive(m, at)
    return True


@inner
def _arrive(m: Machines, at: int) -> None:
    facts = m.facts[at]
    m.queue[at, facts[WAITING]] = facts[ARRIVED]
    facts[WAITING] += 1
    facts[ARRIVED] += 1


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
    """Take a job off the machine that ends next; `place` in the heap must be of the same instant as the first."""
    facts = m.facts[at]
    job = m.ending[at, place]
    m.ending[at, place] = m.ending[at, 0]
    facts[RUNNING] -= 1
    pop_end(m.ends[at], m.ending[at], facts[RUNNING])
    remove_running(m.planned[at], m.holding[at], facts[RUNNING], m.planned_end[at, job], job)
    facts[FREE] += m.size[at, job]


@inner
def _renew_plans(m: Machines, at: int) -> None:
    """Plan the running jobs anew that have outlived their plans."""
    facts = m.facts[at]
    last = facts[RUNNING] - 1
    while last >= 0 and m.planned[at, 0] <= facts[NOW]:
        job = m.holding[at, 0]
        end = renewed_end(facts[NOW], m.start[at, job], m.limit[at, job])
        remove_running(m.planned[at], m.holding[at], last, m.planned_end[at, job], job)
        insert_running(m.planned[at], m.holding[at], last, end, job)
        m.planned_end[at, job] = end


@inner
def _smallest(m: Machines, at: int) -> int:
    smallest = NEVER
    for k in range(m.facts[at, WAITING]):
        smallest = min(smallest, m.size[at, m.queue[at, k]])
    return smallest
