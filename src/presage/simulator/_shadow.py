"""EASY's reservation on nodes, kept from pass to pass.

What is free at the shadow time is what is free when all jobs planned to end by then are gone. The running jobs are
parted at a time, the cursor: those planned to end by it are RELEASED in `spare`, the others are HELD.
A reservation moves the cursor to the first planned end at which its job fits, from wherever it was; most
events move it little.

A job that starts or ends among the released ones changes nothing at the cursor, and cannot make an earlier time
possible. Any other makes the reservation out of date.

`both` is what is free now and at the shadow time beside the reserved places. Whoever runs at the cursor runs now,
so it differs from what is free now on the reserved nodes only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._cluster import (
    Free,
    Machine,
    Want,
    change,
    find_node,
    give_back,
    meet,
    room_on,
    take,
    update_tree,
)
from presage.simulator._compiling import compiled, inner
from presage.simulator._demands import Demands, Places, want_of
from presage.simulator._placements import place
from presage.simulator._structures import GRACE_MS, pop_end, push_end

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.simulator._fragmentation import Typical

    Ints = NDArray[np.int64]

RELEASED, HELD = 1, 2
# Rows of `jobs`: the planned end, RELEASED or HELD or 0, and the spot in the heap of its side.
END, SIDE, SPOT = 0, 1, 2
# Rows of `heaps`, keys and then jobs: the released jobs, the last planned end (negative) first; the held ones, the
# first planned end first; and all planned ends, with those of jobs that have ended or are planned anew among them.
LATEST, EARLIEST, OVERDUE = 0, 2, 4
# Rows of `members`: where each member of the reservation is to run, where it was to run before, and another member
# on the same node or NOBODY.
NODE, GPUS, LAST_NODE, LAST_GPUS, NEXT = 0, 1, 2, 3, 4
# Entries of `facts`: lengths of the three heaps, the cursor, whose reservation it is and how many of its members
# fit at the cursor, whether it is out of date, and how many members are reserved.
RELEASES, HOLDS, OVERDUES, CURSOR, HEAD, FITS, OUTDATED, RESERVED = 0, 1, 2, 3, 4, 5, 6, 7
NOBODY = -1


class Shadow(NamedTuple):
    """The running jobs by planned end, and what is reserved."""

    jobs: Ints
    heaps: Ints
    facts: Ints
    members: Ints
    member_on: Ints
    """For each node one of the members reserved there, or NOBODY."""
    grown: Ints
    """How many nodes of `both` have more room since places were reserved anew, then which, maybe twice."""
    spare: Free
    both: Free


@compiled
def no_shadow(jobs: int, most_tasks: int, spare: Free, both: Free) -> Shadow:
    """Return the state in which nothing runs."""
    facts = np.zeros(RESERVED + 1, np.int64)
    facts[HEAD] = NOBODY
    facts[OUTDATED] = 1
    return Shadow(
        np.zeros((SPOT + 1, jobs), np.int64), np.zeros((OVERDUE + 2, jobs + 1), np.int64), facts,
        np.zeros((NEXT + 1, most_tasks), np.int64), np.full(len(spare.cpu), NOBODY, np.int64),
        np.zeros(2 * most_tasks + 1, np.int64), spare, both,
    )  # fmt: skip


@inner
def begin(
    shadow: Shadow,
    machine: Machine,
    free: Free,
    demands: Demands,
    places: Places,
    job: int,
    end: int,
    beside: bool,
) -> None:
    """Note that a job has started; it has been taken from what is free, or if `beside` from `both` alone."""
    facts = shadow.facts
    want = want_of(demands, job)
    shadow.jobs[END, job] = end
    push_end(shadow.heaps[OVERDUE], shadow.heaps[OVERDUE + 1], facts[OVERDUES], end, job)
    facts[OVERDUES] += 1
    if beside:
        for member in range(places.first[job], places.first[job + 1]):
            take(machine, free, places.node[member], want, places.gpus[member])
    if end > facts[CURSOR]:
        _shift(shadow, machine, demands, places, job, -1)
        _hold(shadow, job)
        facts[OUTDATED] = 1
    else:
        _release(shadow, job)
    if not beside:
        _meet_places(shadow, machine, free, demands, places, job)


@inner
def finish(shadow: Shadow, machine: Machine, free: Free, demands: Demands, places: Places, job: int) -> None:
    """Note that a job has ended and was given back to what is free."""
    facts = shadow.facts
    if shadow.jobs[SIDE, job] == HELD:
        _shift(shadow, machine, demands, places, job, 1)
        facts[OUTDATED] = 1
    elif shadow.jobs[END, job] == facts[CURSOR]:
        facts[OUTDATED] = 1
    _let_go(shadow, job)
    _meet_places(shadow, machine, free, demands, places, job)


@inner
def plan_anew(
    shadow: Shadow,
    machine: Machine,
    free: Free,
    demands: Demands,
    places: Places,
    now: int,
    start: Ints,
    limit: Ints,
) -> None:
    """Give running jobs that have outlived their plans new ones."""
    facts, overdues, overdue = shadow.facts, shadow.heaps[OVERDUE], shadow.heaps[OVERDUE + 1]
    while facts[OVERDUES] > 0 and overdues[0] <= now:
        end, job = overdues[0], overdue[0]
        facts[OVERDUES] -= 1
        pop_end(overdues, overdue, facts[OVERDUES])
        if shadow.jobs[SIDE, job] == 0 or shadow.jobs[END, job] != end:
            continue
        released = shadow.jobs[SIDE, job] == RELEASED
        _let_go(shadow, job)
        again = min(limit[job], 2 * (now - start[job]) + GRACE_MS)
        shadow.jobs[END, job] = max(start[job] + again, now + 1)
        push_end(overdues, overdue, facts[OVERDUES], shadow.jobs[END, job], job)
        facts[OVERDUES] += 1
        if shadow.jobs[END, job] <= facts[CURSOR]:
            _release(shadow, job)
            continue
        _hold(shadow, job)
        if released:
            _shift(shadow, machine, demands, places, job, -1)
            facts[OUTDATED] = 1
            _meet_places(shadow, machine, free, demands, places, job)


@inner
def reserve(
    shadow: Shadow,
    placement: int,
    machine: Machine,
    free: Free,
    demands: Demands,
    places: Places,
    typical: Typical,
    head: int,
) -> int:
    """Return the shadow time of `head`, which does not fit now; bring `both` up to date."""
    facts, spare = shadow.facts, shadow.spare
    if facts[HEAD] == head and not facts[OUTDATED]:
        return int(facts[CURSOR])
    want = want_of(demands, head)
    before = facts[CURSOR]
    another = facts[HEAD] != head
    if another:
        facts[HEAD] = head
        facts[FITS] = _count_room(machine, spare, want)
    _move_cursor(shadow, machine, demands, places, want)
    moved = another or facts[CURSOR] != before
    _reserve_places(shadow, placement, machine, free, demands, typical, head, moved)
    facts[OUTDATED] = 0
    return int(facts[CURSOR])


@inner
def _count_room(machine: Machine, free: Free, want: Want) -> int:
    """Return how many members fit, on no node more than the job has."""
    total = 0
    node = find_node(free.tree, 0, want)
    while node >= 0:
        total += room_on(machine, free, node, want)
        node = find_node(free.tree, node + 1, want)
    return total


@inner
def _move_cursor(shadow: Shadow, machine: Machine, demands: Demands, places: Places, want: Want) -> None:
    """Move the cursor to the first planned end at which the members fit."""
    facts = shadow.facts
    while facts[FITS] >= want.tasks:
        # On a clock of integers this is just before the last planned end that counts.
        _part_at(shadow, machine, demands, places, -shadow.heaps[LATEST, 0] - 1)
    while facts[FITS] < want.tasks:
        _part_at(shadow, machine, demands, places, shadow.heaps[EARLIEST, 0])


@inner
def _part_at(shadow: Shadow, machine: Machine, demands: Demands, places: Places, time: int) -> None:
    """Release all jobs that are planned to end by `time`, and no other."""
    facts = shadow.facts
    while facts[RELEASES] > 0 and -shadow.heaps[LATEST, 0] > time:
        job = shadow.heaps[LATEST + 1, 0]
        _let_go(shadow, job)
        _hold(shadow, job)
        _shift(shadow, machine, demands, places, job, -1)
    while facts[HOLDS] > 0 and shadow.heaps[EARLIEST, 0] <= time:
        job = shadow.heaps[EARLIEST + 1, 0]
        _let_go(shadow, job)
        _release(shadow, job)
        _shift(shadow, machine, demands, places, job, 1)
    facts[CURSOR] = time


@inner
def _shift(shadow: Shadow, machine: Machine, demands: Demands, places: Places, job: int, sign: int) -> None:
    """Add (`sign` 1) a job to what is free at the cursor, or take it out (-1)."""
    facts, spare = shadow.facts, shadow.spare
    held = want_of(demands, job)
    head = facts[HEAD]
    want = want_of(demands, max(head, 0))
    for member in range(places.first[job], places.first[job + 1]):
        node = places.node[member]
        if head != NOBODY:
            facts[FITS] -= room_on(machine, spare, node, want)
        change(machine, spare, node, held, places.gpus[member], sign)
        update_tree(machine, spare, node)
        if head != NOBODY:
            facts[FITS] += room_on(machine, spare, node, want)


@inner
def _reserve_places(
    shadow: Shadow,
    placement: int,
    machine: Machine,
    free: Free,
    demands: Demands,
    typical: Typical,
    head: int,
    moved: bool,
) -> None:
    """Find the places of `head` at the cursor, which may have `moved`, and keep them out of `both`."""
    facts, spare, members = shadow.facts, shadow.spare, shadow.members
    nodes, gpus, last_nodes, last_gpus = members[NODE], members[GPUS], members[LAST_NODE], members[LAST_GPUS]
    count = facts[RESERVED]
    want = want_of(demands, head)
    for member in range(count):
        last_nodes[member], last_gpus[member] = nodes[member], gpus[member]
    place(placement, machine, spare, want, demands.shape[head], typical, nodes, gpus)
    same = count == want.tasks
    for member in range(want.tasks):
        give_back(machine, spare, nodes[member], want, gpus[member])
        same = same and nodes[member] == last_nodes[member] and gpus[member] == last_gpus[member]
    if same and not moved:
        return
    facts[RESERVED] = want.tasks
    for member in range(count):
        shadow.member_on[last_nodes[member]] = NOBODY
    for member in range(want.tasks):
        shadow.members[NEXT, member] = shadow.member_on[nodes[member]]
        shadow.member_on[nodes[member]] = member
    for member in range(count):
        _meet_again(shadow, machine, free, want, last_nodes[member])
    for member in range(want.tasks):
        _meet_again(shadow, machine, free, want, nodes[member])


@inner
def _meet_again(shadow: Shadow, machine: Machine, free: Free, want: Want, node: int) -> None:
    """Bring a node up to date whose reservation has changed, and note if it has more room than before."""
    grown = shadow.grown
    if _meet_node(shadow, machine, free, want, node):
        grown[0] += 1
        grown[grown[0]] = node


@inner
def _meet_places(shadow: Shadow, machine: Machine, free: Free, demands: Demands, places: Places, job: int) -> None:
    """Bring the nodes of a job in `both` up to date."""
    want = want_of(demands, max(shadow.facts[HEAD], 0))
    for member in range(places.first[job], places.first[job + 1]):
        _meet_node(shadow, machine, free, want, places.node[member])


@inner
def _meet_node(shadow: Shadow, machine: Machine, free: Free, want: Want, node: int) -> bool:
    """Bring one node of `both` up to date; return whether it has more of anything. `want` is what is reserved."""
    spare, both = shadow.spare, shadow.both
    member = shadow.member_on[node]
    while member != NOBODY:
        change(machine, spare, node, want, shadow.members[GPUS, member], -1)
        member = shadow.members[NEXT, member]
    grows = min(free.cpu[node], spare.cpu[node]) > both.cpu[node]
    grows |= min(free.mem[node], spare.mem[node]) > both.mem[node]
    for at in range(machine.first_gpu[node], machine.first_gpu[node + 1]):
        grows |= min(free.gpu[at], spare.gpu[at]) > both.gpu[at]
    meet(machine, free, spare, both, node, node + 1)
    update_tree(machine, both, node)
    member = shadow.member_on[node]
    while member != NOBODY:
        change(machine, spare, node, want, shadow.members[GPUS, member], 1)
        member = shadow.members[NEXT, member]
    return bool(grows)


@inner
def _release(shadow: Shadow, job: int) -> None:
    shadow.jobs[SIDE, job] = RELEASED
    _add(
        shadow.heaps[LATEST],
        shadow.heaps[LATEST + 1],
        shadow.jobs[SPOT],
        shadow.facts[RELEASES],
        -shadow.jobs[END, job],
        job,
    )
    shadow.facts[RELEASES] += 1


@inner
def _hold(shadow: Shadow, job: int) -> None:
    shadow.jobs[SIDE, job] = HELD
    _add(
        shadow.heaps[EARLIEST],
        shadow.heaps[EARLIEST + 1],
        shadow.jobs[SPOT],
        shadow.facts[HOLDS],
        shadow.jobs[END, job],
        job,
    )
    shadow.facts[HOLDS] += 1


@inner
def _let_go(shadow: Shadow, job: int) -> None:
    """Take a job from the heap of its side."""
    facts = shadow.facts
    if shadow.jobs[SIDE, job] == RELEASED:
        facts[RELEASES] -= 1
        _drop(shadow.heaps[LATEST], shadow.heaps[LATEST + 1], shadow.jobs[SPOT], facts[RELEASES], job)
    else:
        facts[HOLDS] -= 1
        _drop(shadow.heaps[EARLIEST], shadow.heaps[EARLIEST + 1], shadow.jobs[SPOT], facts[HOLDS], job)
    shadow.jobs[SIDE, job] = 0


@inner
def _add(keys: Ints, jobs: Ints, spot: Ints, count: int, key: int, job: int) -> None:
    """Add a job to a heap of `count` entries."""
    at = count
    while at > 0 and keys[(at - 1) >> 1] > key:
        up = (at - 1) >> 1
        keys[at], jobs[at] = keys[up], jobs[up]
        spot[jobs[at]] = at
        at = up
    keys[at], jobs[at] = key, job
    spot[job] = at


@inner
def _drop(keys: Ints, jobs: Ints, spot: Ints, count: int, job: int) -> None:
    """Remove a job from a heap; `count` is the number of entries that remain."""
    at = spot[job]
    key, last = keys[count], jobs[count]
    if at == count:
        return
    if at > 0 and keys[(at - 1) >> 1] > key:
        _add(keys, jobs, spot, at, key, last)
        return
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[at], jobs[at] = keys[child], jobs[child]
        spot[jobs[at]] = at
        at = child
    keys[at], jobs[at] = key, last
    spot[last] = at
