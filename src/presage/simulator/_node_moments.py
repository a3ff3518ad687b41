"""What happens to clusters of nodes that wait for choices: gangs arrive, start and end, nodes fail and come back.

At one instant all ends come first, then failures and repairs, then arrivals. When a node fails, the gangs with a
member on it are killed whole and wait again behind all others; what their starts cost is given back.

Gangs with an override stand first in the queue, in the order in which they came. While the first of them does not
fit there is a reservation for it: the first planned end at which it would fit if nobody else came.

Times are integer milliseconds. Arrays have one row per cluster; all clusters have the same nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._cluster import Free, Machine, Want, all_free, change, total_room, update_tree
from presage.simulator._compiling import inner
from presage.simulator._moments import remove_end, settled_cost
from presage.simulator._structures import NEVER, push_end, renewed_end

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

# Columns of `facts`: the present; gangs that run, wait, have arrived and have started, and how many there are; how
# many can be seen; how many of the queue are known not to fit; the place of the one whose members are placed just
# now, and how many of them are; failures and repairs so far and at all, and nodes that have failed; gangs with an
# override that wait, the one that there is a reservation for, and when; and how often a gang was killed.
NOW, RUNNING, WAITING, ARRIVED, STARTED, JOBS, SLOTS, TRIED, PLACING, PLACED, CHANGED, CHANGES, DOWN = range(13)
URGENT, HEAD, RESERVED, KILLS = range(13, 17)
FACTS = 17
NOBODY = -1
# Taken off the processors of a node that has failed, so that nothing fits; its millionths still have 63 bits.
_FAILED = 1 << 40


class Clusters(NamedTuple):
    """What is free on each cluster, the gangs of its episode by submit, and how far it is."""

    cpu: Ints
    mem: Ints
    gpu: Ints
    whole: Ints
    widest: Ints
    gpu_sum: Ints
    asked_cpu: Ints
    asked_mem: Ints
    version: Ints
    tree: Ints
    states: Ints
    stale: Ints
    racks: Ints
    scratch: Ints
    """So far the fields of Free."""
    submit: Ints
    run: Ints
    plan: Ints
    limit: Ints
    deadline: Ints
    override: Ints
    """1 for gangs that go before any choice."""
    tasks: Ints
    want_cpu: Ints
    want_mem: Ints
    want_gpus: Ints
    want_share: Ints
    want_types: Ints
    want_features: Ints
    start: Ints
    """-1: not yet."""
    first: Ints
    """Members of gang j are entries `first[j]` to `first[j + 1]` of `node` and `held`."""
    node: Ints
    held: Ints
    """GPUs of the node, as a bit mask."""
    ends: Ints
    ending: Ints
    queue: Ints
    fits: Ints
    """1 for the places of the queue that can be seen and whose gangs fit, where gangs are chosen."""
    facts: Ints
    change_at: Ints
    change_node: Ints
    change_by: Ints
    """-1 where a node fails, 1 where it comes back; after the last change all are there."""
    cost: NDArray[np.float64]
    prices: NDArray[np.float64]
    """As in `presage.simulator._moments`, and last that of the share of free GPUs that typical tasks cannot
    use."""


def new_clusters(clusters: int, machine: Machine, jobs: int, slots: int) -> Clusters:
    """Return room for so many clusters with at most so many gangs each."""
    free = all_free(machine, False)
    amounts = {
        name: np.repeat(getattr(free, name)[np.newaxis], clusters, axis=0)
        for name in Free._fields
        if name != "real"
    }

    def of_jobs(more: int = 0) -> Ints:
        return np.zeros((clusters, jobs + more), np.int64)

    def empty() -> Ints:
        return np.zeros((clusters, 0), np.int64)

    return Clusters(
        **amounts,
        submit=of_jobs(), run=of_jobs(), plan=of_jobs(), limit=of_jobs(), deadline=of_jobs(), override=of_jobs(),
        tasks=of_jobs(), want_cpu=of_jobs(), want_mem=of_jobs(), want_gpus=of_jobs(), want_share=of_jobs(),
        want_types=of_jobs(), want_features=of_jobs(), start=of_jobs(), first=of_jobs(1), node=of_jobs(),
        held=of_jobs(), ends=of_jobs(1), ending=of_jobs(1), queue=of_jobs(),
        fits=np.zeros((clusters, slots), np.int64),
        facts=np.zeros((clusters, FACTS), np.int64), change_at=empty(), change_node=empty(), change_by=empty(),
        cost=np.zeros(clusters), prices=np.zeros(5),
    )  # fmt: skip


@inner
def free_of(c: Clusters, at: int) -> Free:
    """Return what is free on one cluster."""
    return Free(
        c.cpu[at], c.mem[at], c.gpu[at], c.whole[at], c.widest[at], c.gpu_sum[at], c.asked_cpu[at],
        c.asked_mem[at], c.version[at], c.tree[at], False, c.states[at], c.stale[at], c.racks[at], c.scratch[at],
    )  # fmt: skip


@inner
def want_in(c: Clusters, at: int, job: int) -> Want:
    """Return what a gang wants."""
    return Want(
        c.tasks[at, job], c.want_cpu[at, job], c.want_mem[at, job], c.want_gpus[at, job], c.want_share[at, job],
        c.want_types[at, job], c.want_features[at, job],
    )  # fmt: skip


@inner
def clear(c: Clusters, at: int, jobs: int, changes: int) -> None:
    """Begin at the beginning; what is free is all of the cluster, and its gangs are written already."""
    c.start[at, :jobs] = -1
    facts = c.facts[at]
    facts[:] = 0
    c.cost[at] = 0
    facts[JOBS] = jobs
    facts[SLOTS] = c.fits.shape[1]
    facts[CHANGES] = changes
    facts[PLACING] = facts[HEAD] = NOBODY


@inner
def is_over(c: Clusters, at: int) -> bool:
    """Return whether all gangs have started and none of them can be killed any more."""
    facts = c.facts[at]
    return bool(facts[STARTED] == facts[JOBS] and (facts[CHANGED] == facts[CHANGES] or facts[RUNNING] == 0))


@inner
def start(c: Clusters, at: int, slot: int) -> None:
    """Start a gang of the queue whose members have their places."""
    facts = c.facts[at]
    job = c.queue[at, slot]
    for k in range(slot, facts[WAITING] - 1):
        c.queue[at, k] = c.queue[at, k + 1]
    facts[WAITING] -= 1
    facts[URGENT] -= c.override[at, job]
    c.start[at, job] = facts[NOW]
    push_end(c.ends[at], c.ending[at], facts[RUNNING], facts[NOW] + c.run[at, job], job)
    facts[RUNNING] += 1
    facts[STARTED] += 1
    c.cost[at] += _cost(c, at, job)


@inner
def _cost(c: Clusters, at: int, job: int) -> float:
    return settled_cost(
        c.prices, c.start[at, job] - c.submit[at, job], c.run[at, job], c.deadline[at, job] - c.start[at, job]
    )


@inner
def next_instant(c: Clusters, at: int) -> int:
    """Return when something happens next, or NEVER."""
    facts = c.facts[at]
    instant = NEVER
    if facts[ARRIVED] < facts[JOBS]:
        instant = min(instant, c.submit[at, facts[ARRIVED]])
    if facts[RUNNING] > 0:
        instant = min(instant, c.ends[at, 0])
    if facts[CHANGED] < facts[CHANGES]:
        instant = min(instant, c.change_at[at, facts[CHANGED]])
    return instant


@inner
def next_event(c: Clusters, machine: Machine, at: int) -> bool:
    """Move to the next instant at which something happens; return whether there is one."""
    facts = c.facts[at]
    now = next_instant(c, at)
    if now == NEVER:
        return False
    facts[NOW] = now
    facts[HEAD] = NOBODY
    while facts[RUNNING] > 0 and c.ends[at, 0] <= now:
        _end(c, machine, at, 0)
    while facts[CHANGED] < facts[CHANGES] and c.change_at[at, facts[CHANGED]] <= now:
        _change(c, machine, at)
    while facts[ARRIVED] < facts[JOBS] and c.submit[at, facts[ARRIVED]] <= now:
        _enqueue(c, at, facts[ARRIVED])
        facts[ARRIVED] += 1
    return True


@inner
def _enqueue(c: Clusters, at: int, job: int) -> None:
    """Let a gang wait behind all others; one with an override, behind the others that have one."""
    facts = c.facts[at]
    place = facts[WAITING]
    if c.override[at, job]:
        while place > facts[URGENT]:
            c.queue[at, place] = c.queue[at, place - 1]
            place -= 1
        facts[URGENT] += 1
        facts[TRIED] = 0  # others stand where they stood no more
    c.queue[at, place] = job
    facts[WAITING] += 1


@inner
def _end(c: Clusters, machine: Machine, at: int, place: int) -> None:
    """Take the gang in a place of the heap of ends off its nodes."""
    facts = c.facts[at]
    job = c.ending[at, place]
    facts[RUNNING] -= 1
    facts[TRIED] = 0
    remove_end(c.ends[at], c.ending[at], place, facts[RUNNING])
    _shift(c, machine, at, job, 1)


@inner
def _change(c: Clusters, machine: Machine, at: int) -> None:
    """Let the next node fail or come back."""
    facts = c.facts[at]
    node, by = c.change_node[at, facts[CHANGED]], c.change_by[at, facts[CHANGED]]
    facts[CHANGED] += 1
    facts[DOWN] -= by
    facts[TRIED] = 0
    place = 0
    while by < 0 and place < facts[RUNNING]:
        if not _runs_on(c, at, c.ending[at, place], node):
            place += 1
            continue
        job = c.ending[at, place]
        _end(c, machine, at, place)
        c.cost[at] -= _cost(c, at, job)
        c.start[at, job] = -1
        facts[STARTED] -= 1
        facts[KILLS] += 1
        _enqueue(c, at, job)
        place = 0  # the heap has moved
    c.cpu[at, node] += by * _FAILED
    update_tree(machine, free_of(c, at), node)


@inner
def _runs_on(c: Clusters, at: int, job: int, node: int) -> bool:
    member, end = c.first[at, job], c.first[at, job + 1]
    while member < end and c.node[at, member] != node:
        member += 1
    return bool(member < end)


@inner
def fits(c: Clusters, machine: Machine, at: int, slot: int) -> bool:
    """Return whether all members of a gang of the queue fit now."""
    want = want_in(c, at, c.queue[at, slot])
    return bool(total_room(machine, free_of(c, at), want) >= want.tasks)


@inner
def leaves_reservation(c: Clusters, machine: Machine, at: int, slot: int) -> bool:
    """Return whether a gang ends, by its plan, before the first with an override is to start.

    The first with an override is the first in the queue, and does not fit.
    """
    facts = c.facts[at]
    if facts[HEAD] != c.queue[at, 0]:
        facts[HEAD] = c.queue[at, 0]
        facts[RESERVED] = _reservation(c, machine, at, facts[HEAD])
    return bool(facts[NOW] + c.plan[at, c.queue[at, slot]] <= facts[RESERVED])


@inner
def _reservation(c: Clusters, machine: Machine, at: int, head: int) -> int:
    """Return the first planned end at which a gang fits.

    NEVER where nodes that have failed are needed: as far as is known, nobody delays it. The running gangs are
    taken off their nodes one after the other, and put back.
    """
    want = want_in(c, at, head)
    free = free_of(c, at)
    instant, place = _next_planned(c, at, -1, -1)
    while place >= 0:
        _shift(c, machine, at, c.ending[at, place], 1)
        if total_room(machine, free, want) >= want.tasks:
            break
        instant, place = _next_planned(c, at, instant, place)
    for k in range(c.facts[at, RUNNING]):
        end = _planned_end(c, at, k)
        if place < 0 or end < instant or (end == instant and k <= place):
            _shift(c, machine, at, c.ending[at, k], -1)
    return NEVER if place < 0 else instant


@inner
def _next_planned(c: Clusters, at: int, instant: int, place: int) -> tuple[int, int]:
    """Return the planned end, and the place in the heap, of the running gang behind another; -1 if there is none.

    They go by planned ends, and equals by places.
    """
    earliest, found = NEVER, -1
    for k in range(c.facts[at, RUNNING]):
        end = _planned_end(c, at, k)
        if end < earliest and (end > instant or (end == instant and k > place)):
            earliest, found = end, k
    return earliest, found


@inner
def _planned_end(c: Clusters, at: int, place: int) -> int:
    """Return when the running gang in a place of the heap of ends is planned to end."""
    job, now = c.ending[at, place], c.facts[at, NOW]
    end = c.start[at, job] + c.plan[at, job]
    return int(end if end > now else renewed_end(now, c.start[at, job], c.limit[at, job]))


@inner
def _shift(c: Clusters, machine: Machine, at: int, job: int, sign: int) -> None:
    """Take a gang off its nodes (`sign` 1), or put it back (-1)."""
    free, want = free_of(c, at), want_in(c, at, job)
    for member in range(c.first[at, job], c.first[at, job + 1]):
        change(machine, free, c.node[at, member], want, c.held[at, member], sign)
        update_tree(machine, free, c.node[at, member])
