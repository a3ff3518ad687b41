"""Many machines at once, each stopped where somebody has to say which job goes next.

At one instant all ends come first, then all arrivals, then choices until nothing more can start. Under the
standard semantics the chosen job starts if it fits. If it does not, it gets a reservation (EASY), and the next
choices are among the jobs that do not delay it; then time moves on, and at the next event all is chosen anew.
Whoever always chooses by one order makes the schedule of that order with EASY backfilling. Under the semantics
that commit, the chosen job stays chosen until it starts, and events come one by one, as in `presage.simulator`.
On machines whose queues go by rank the first in the queue goes next, and only who is backfilled is chosen: any job
that does not delay the first, or nobody until the next event.

Jobs with an override go before any choice, in the order of the queue: started if they fit, else reserved for, and
backfilled before others.

Nobody is asked where there is nothing to choose: one possible job, or none that fits. An episode is over when the
last job has started and none can be killed, since all that follows is known then.

Times are integer milliseconds. Arrays have one row per machine; `presage.simulator._moments` moves them.
"""

from __future__ import annotations

from presage.simulator._compiling import compiled as compiled
from presage.simulator._compiling import inner
from presage.simulator._moments import (
    CHOSEN,
    COMMIT,
    EXTRA,
    FREE,
    HEAD,
    NOBODY,
    NOW,
    RANKED,
    RESERVED,
    SLOTS,
    URGENT,
    WAITING,
    Machines,
    clear,
    is_over,
    next_event,
    reservation,
    start,
)
from presage.simulator._structures import NEVER

# How jobs are backfilled: not at all, in the order in which they came, by choice.
NONE, BY_ARRIVAL, BY_CHOICE = 0, 1, 2


@compiled
def begin(
    m: Machines, at: int, jobs: int, processors: int, slots: int, changes: int, semantics: int, backfilling: int
) -> bool:
    """Bring a machine, whose jobs are written already, to its first choice; return whether there is any."""
    clear(m, at, jobs, processors, slots, changes)
    return _to_next_choice(m, at, semantics, backfilling)


@compiled
def choose(m: Machines, at: int, slot: int, semantics: int, backfilling: int) -> bool:
    """Follow a choice (a place in the queue) up to the next one; return whether there is one.

    On machines whose queues go by rank the place behind all that can be seen stands for nobody.
    """
    facts = m.facts[at]
    if facts[HEAD] != NOBODY:
        if slot < facts[SLOTS]:
            _start_behind(m, at, slot)
        else:
            facts[HEAD] = NOBODY
            next_event(m, at, semantics)
    elif (
        not _follow(m, at, slot, semantics, backfilling)
        and facts[HEAD] == NOBODY
        and not next_event(m, at, semantics)
    ):
        return False
    return _to_next_choice(m, at, semantics, backfilling)


@inner
def _to_next_choice(m: Machines, at: int, semantics: int, backfilling: int) -> bool:
    facts = m.facts[at]
    while not is_over(m, at):
        if facts[CHOSEN] != NOBODY:
            _keep_to_choice(m, at, backfilling)
        if facts[HEAD] != NOBODY:
            slot = _urgent_behind(m, at)
            if slot < 0:
                slot, another = two_possible(m, at)
                if another >= 0 or (semantics == RANKED and slot >= 0):
                    return True
            if slot >= 0:
                _start_behind(m, at, slot)
                continue
            facts[HEAD] = NOBODY
        elif (
            facts[CHOSEN] == NOBODY
            and facts[WAITING] > 0
            and (semantics == COMMIT or _smallest(m, at) <= facts[FREE])
        ):
            slot = _without_choice(m, at, semantics)
            if slot < 0:
                return True
            if _follow(m, at, slot, semantics, backfilling) or facts[HEAD] != NOBODY:
                continue
        if not next_event(m, at, semantics):
            return False
    return False


@inner
def _without_choice(m: Machines, at: int, semantics: int) -> int:
    """Return the place of the job that goes next without being chosen, or -1."""
    facts = m.facts[at]
    if semantics == RANKED or facts[WAITING] == 1:
        return 0
    if facts[URGENT] > 0:
        slot = 0
        while not m.override[at, m.queue[at, slot]]:
            slot += 1
        return slot
    return -1


@inner
def _urgent_behind(m: Machines, at: int) -> int:
    """Return the place of the first job with an override that does not delay the reservation, or -1."""
    if m.facts[at, URGENT] > 0:
        for slot in range(m.facts[at, WAITING]):
            if m.override[at, m.queue[at, slot]] and _leaves_reservation(m, at, slot):
                return slot
    return -1


@inner
def _follow(m: Machines, at: int, slot: int, semantics: int, backfilling: int) -> bool:
    """Start a chosen job, or if it does not fit reserve for it and backfill; return whether it started."""
    facts = m.facts[at]
    job = m.queue[at, slot]
    if m.size[at, job] <= facts[FREE]:
        start(m, at, slot)
        return True
    shadow, extra = reservation(m, at, job)
    if semantics == COMMIT:
        facts[CHOSEN] = job
        facts[RESERVED] = shadow
        if backfilling:
            _backfill_strictly(m, at)
    elif backfilling == BY_ARRIVAL:
        backfill(m, at, job, shadow, extra)
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
    return facts[HEAD] == NOBODY or _leaves_reservation(m, at, slot)


@inner
def _leaves_reservation(m: Machines, at: int, slot: int) -> bool:
    """Return whether a job fits and does not delay the one that there is a reservation for."""
    facts = m.facts[at]
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
    start(m, at, slot)


@inner
def _keep_to_choice(m: Machines, at: int, backfilling: int) -> None:
    """Start the job that was chosen if it fits by now; else backfill again."""
    facts = m.facts[at]
    job = facts[CHOSEN]
    if m.size[at, job] <= facts[FREE]:
        slot = 0
        while m.queue[at, slot] != job:
            slot += 1
        start(m, at, slot)
        facts[CHOSEN] = NOBODY
    elif backfilling:
        _backfill_strictly(m, at)


@inner
def backfill(m: Machines, at: int, head: int, shadow: int, extra: int) -> None:
    """Start waiting jobs that do not delay the reservation, in the order of the queue."""
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
            start(m, at, slot)
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
            start(m, at, slot)
        else:
            slot += 1


@inner
def _smallest(m: Machines, at: int) -> int:
    smallest = NEVER
    for k in range(m.facts[at, WAITING]):
        smallest = min(smallest, m.size[at, m.queue[at, k]])
    return smallest
