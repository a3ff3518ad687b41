"""Many clusters at once, each stopped where somebody has to say on which node a member goes, or which gang starts.

Where nodes are chosen, gangs come in the order of the queue. One starts when all its members can: they are placed
one after the other, each on a node that somebody chooses. What happens at the first gang that does not fit is the
backfilling: NONE stops there, SKIP goes on with the next that fits. Whoever chooses by a placement rule makes the
schedule of `presage.simulator.simulate_placed` with that rule.

Where gangs are chosen, any gang that fits may be, or nobody until the next event; its members are placed best-fit.
Whoever always chooses the first makes the schedule of `fcfs+skip@best-fit`.

Gangs with an override stand first in the queue and are not chosen: they start as soon as they fit. While the first
of them does not, others start only if they are planned to end by the time that is reserved for it, which is the
first planned end at which it fits; those with an override before those without.

Nobody is asked where there is nothing to choose. An episode is over when the last gang has started and none can be
killed, since all that follows is known then. Gangs that are killed wait behind all others.

Times are integer milliseconds. Arrays have one row per cluster; `presage.simulator._node_moments` moves them.
"""

from __future__ import annotations

from presage.simulator._cluster import Machine, find_node, has_room, pick_gpus, take
from presage.simulator._compiling import inner, lean
from presage.simulator._fragmentation import Typical, total_fragmentation
from presage.simulator._node_moments import (
    NOBODY,
    PLACED,
    PLACING,
    SLOTS,
    TRIED,
    URGENT,
    WAITING,
    Clusters,
    clear,
    fits,
    free_of,
    is_over,
    leaves_reservation,
    next_event,
    next_instant,
    start,
    want_in,
)
from presage.simulator._placements import BEST_FIT, place
from presage.simulator._structures import NEVER

# How gangs may pass one that does not fit; codes of presage.policies.
NONE, SKIP = 0, 2


@lean
def begin_placing(
    c: Clusters, machine: Machine, typical: Typical, at: int, jobs: int, changes: int, backfilling: int
) -> bool:
    """Bring a cluster, whose gangs are written, to its first choice of a node; return whether there is any."""
    clear(c, at, jobs, changes)
    return _to_next_member(c, machine, typical, at, backfilling)


@lean
def place_member(c: Clusters, machine: Machine, typical: Typical, at: int, node: int, backfilling: int) -> bool:
    """Put the next member on a node that has room, and go on to the next choice; return whether there is one."""
    _put(c, machine, typical, at, node)
    return _to_next_member(c, machine, typical, at, backfilling)


@inner
def _to_next_member(c: Clusters, machine: Machine, typical: Typical, at: int, backfilling: int) -> bool:
    facts = c.facts[at]
    while not is_over(c, at):
        if facts[PLACING] == NOBODY:
            facts[PLACING] = _next_in_line(c, machine, at, backfilling)
            facts[PLACED] = 0
        if facts[PLACING] != NOBODY:
            first, another = two_nodes(c, at)
            if another >= 0:
                return True
            _put(c, machine, typical, at, first)
        elif not next_event(c, machine, at):
            return False
    return False


@inner
def _next_in_line(c: Clusters, machine: Machine, at: int, backfilling: int) -> int:
    """Return the place in the queue of the next gang that fits, or -1."""
    facts = c.facts[at]
    while facts[TRIED] < (facts[WAITING] if backfilling == SKIP else min(facts[WAITING], 1)):
        if _may_start(c, machine, at, facts[TRIED]):
            return int(facts[TRIED])
        facts[TRIED] += 1  # nothing becomes free before the next end
    return NOBODY


@inner
def _may_start(c: Clusters, machine: Machine, at: int, slot: int) -> bool:
    """Return whether a gang fits and does not delay one with an override that does not.

    For places behind the first it must be known that the first does not fit, if it has an override.
    """
    if not fits(c, machine, at, slot):
        return False
    return slot == 0 or c.facts[at, URGENT] == 0 or leaves_reservation(c, machine, at, slot)


@inner
def has_room_on(c: Clusters, at: int, node: int) -> bool:
    """Return whether the next member fits on a node."""
    if not 0 <= node < c.cpu.shape[1]:
        return False
    want = want_in(c, at, c.queue[at, c.facts[at, PLACING]])
    return has_room(c.tree[at], c.tree.shape[1] // 2 + node, want)


@inner
def two_nodes(c: Clusters, at: int) -> tuple[int, int]:
    """Return the first two nodes that have room for the next member; -1 where there are fewer."""
    want = want_in(c, at, c.queue[at, c.facts[at, PLACING]])
    first = find_node(c.tree[at], 0, want)
    return first, find_node(c.tree[at], first + 1, want)


@inner
def _put(c: Clusters, machine: Machine, typical: Typical, at: int, node: int) -> None:
    """Put the next member on a node; its gang starts with the last one."""
    facts = c.facts[at]
    job = c.queue[at, facts[PLACING]]
    free, want = free_of(c, at), want_in(c, at, job)
    member = c.first[at, job] + facts[PLACED]
    c.node[at, member] = node
    c.held[at, member] = pick_gpus(machine, free, node, want)
    take(machine, free, node, want, c.held[at, member])
    facts[PLACED] += 1
    if facts[PLACED] == want.tasks:
        start(c, at, facts[PLACING])
        facts[PLACING] = NOBODY
        if c.prices[4] != 0:
            c.cost[at] += c.prices[4] * useless_share(c, machine, typical, at)


@inner
def useless_share(c: Clusters, machine: Machine, typical: Typical, at: int) -> float:
    """Return the share of the free GPUs that a typical task cannot use, 0 if none are free."""
    free = free_of(c, at)
    available = 0
    for node in range(len(free.gpu_sum)):
        available += free.gpu_sum[node]
    if available == 0 or typical.total == 0:
        return 0.0
    return float(total_fragmentation(machine, free, typical) / (available * typical.total))


@lean
def begin_admitting(c: Clusters, machine: Machine, typical: Typical, at: int, jobs: int, changes: int) -> bool:
    """Bring a cluster, whose gangs are written, to its first choice of a gang; return whether there is any."""
    clear(c, at, jobs, changes)
    return _to_next_gang(c, machine, typical, at)


@lean
def admit(c: Clusters, machine: Machine, typical: Typical, at: int, slot: int) -> bool:
    """Start a gang that fits, or nobody (the place behind all slots); return whether there is a next choice."""
    if slot < c.facts[at, SLOTS]:
        _start_best_fit(c, machine, typical, at, slot)
    else:
        next_event(c, machine, at)
    return _to_next_gang(c, machine, typical, at)


@inner
def _start_best_fit(c: Clusters, machine: Machine, typical: Typical, at: int, slot: int) -> None:
    job = c.queue[at, slot]
    want = want_in(c, at, job)
    begin, end = c.first[at, job], c.first[at, job + 1]
    place(BEST_FIT, machine, free_of(c, at), want, 0, typical, c.node[at, begin:end], c.held[at, begin:end])
    start(c, at, slot)


@inner
def _start_urgent(c: Clusters, machine: Machine, typical: Typical, at: int) -> None:
    """Start the gangs with an override that may start, in the order of the queue."""
    slot = 0
    while slot < c.facts[at, URGENT]:
        if _may_start(c, machine, at, slot):
            _start_best_fit(c, machine, typical, at, slot)
        else:
            slot += 1


@inner
def _to_next_gang(c: Clusters, machine: Machine, typical: Typical, at: int) -> bool:
    while not is_over(c, at):
        _start_urgent(c, machine, typical, at)
        if _mark_fitting(c, machine, at) > 0:
            return True
        if not next_event(c, machine, at):
            return False
    return False


@inner
def _mark_fitting(c: Clusters, machine: Machine, at: int) -> int:
    """Note which of the gangs that can be seen may be admitted; return how many."""
    facts = c.facts[at]
    count = 0
    for slot in range(min(facts[WAITING], facts[SLOTS])):
        c.fits[at, slot] = 1 if _may_start(c, machine, at, slot) else 0
        count += c.fits[at, slot]
    c.fits[at, min(facts[WAITING], facts[SLOTS]) :] = 0
    return count


@inner
def may_wait(c: Clusters, at: int) -> bool:
    """Return whether nobody may be chosen: something else will happen."""
    return next_instant(c, at) < NEVER
