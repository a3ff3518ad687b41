"""The event engine on nodes: jobs in, start times and places out, integer milliseconds.

At one instant all ends come first, then all arrivals, then one pass of decisions, as on pooled processors; running
jobs that outlive their plan are planned anew in the same way. A pass starts jobs in order while all their members
fit. What happens at the first job that does not fit is the backfilling:

* NONE: the pass is over.
* SKIP: it is passed over; every later job that fits starts.
* EASY: it gets a reservation. On a copy of the free state the running jobs are released by planned end, all of one
  millisecond together, until it fits; that is the shadow time, and the placement rule says which places it would
  take then. A later job that fits now starts if it is planned to end by the shadow time. If not, it starts where
  the rule finds room in what is free now and also free at the shadow time beside the reserved places, if it does.

Nothing becomes free between two ends, so jobs of a shape that did not fit are not tried again before the next end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._cluster import (
    CPU,
    MEM,
    WHOLE,
    WIDEST,
    Free,
    Machine,
    Want,
    build_tree,
    change,
    compiled,
    copy_amounts,
    give_back,
    meet,
    room_on,
    take,
    total_room,
    update_tree,
)
from presage.simulator._placements import place
from presage.simulator._pooled import GRACE_MS, STATIC, in_order
from presage.simulator._structures import (
    NEVER,
    insert_running,
    pop_end,
    push_end,
    remove_running,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.simulator._fragmentation import Typical

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

# Codes of presage.policies.
NONE, EASY, SKIP = 0, 1, 2


class Demands(NamedTuple):
    """What every job wants: one entry per job, fields as in Want."""

    tasks: Ints
    cpu: Ints
    mem: Ints
    gpus: Ints
    share: Ints
    types: Ints
    features: Ints
    shape: Ints
    """Jobs that want the same have the same number."""


class Places(NamedTuple):
    """Where members run: those of job j are entries `first[j]` to `first[j + 1]`."""

    first: Ints
    node: Ints
    gpus: Ints


@compiled
def want_of(demands: Demands, job: int) -> Want:
    """Return what one job wants."""
    return Want(
        demands.tasks[job], demands.cpu[job], demands.mem[job], demands.gpus[job], demands.share[job],
        demands.types[job], demands.features[job],
    )  # fmt: skip


@compiled
def fitting(machine: Machine, free: Free, demands: Demands) -> Flags:
    """Return for each job whether all its members fit into what is free."""
    fits = np.empty(len(demands.tasks), np.bool_)
    known = np.full(len(demands.tasks), -1, np.int64)
    for job in range(len(fits)):
        shape = demands.shape[job]
        if known[shape] < 0:
            want = want_of(demands, job)
            known[shape] = 1 if total_room(machine, free, want) >= want.tasks else 0
        fits[job] = known[shape] == 1
    return fits


@compiled
def occupy(machine: Machine, free: Free, demands: Demands, places: Places, jobs: Ints) -> None:
    """Take the places of some jobs out of what is free; the tree is left as it is."""
    for job in jobs:
        want = want_of(demands, job)
        for member in range(places.first[job], places.first[job + 1]):
            change(machine, free, places.node[member], want, places.gpus[member], -1)


@compiled
def run_placed(
    submit: Ints,
    run: Ints,
    plan: Ints,
    limit: Ints,
    estimate_s: Floats,
    size: Ints,
    rank: Ints,
    order: Ints,
    rule: int,
    backfilling: int,
    placement: int,
    demands: Demands,
    machine: Machine,
    free: Free,
    spare: Free,
    both: Free,
    typical: Typical,
    start: Ints,
    places: Places,
) -> None:
    """Fill `start` and `places`. Every job must fit on the empty machine; `free` must be all of it.

    `rule` is the code of a dynamic order, or STATIC to go by `rank` (`order[rank[job]] == job`). `spare` and
    `both` are room for EASY to compute in.
    """
    count = len(submit)
    leaves = 1
    while leaves < count:
        leaves *= 2
    waits = np.full((2 * leaves if rule == STATIC else 2, 4), NEVER, np.int64)
    queue = np.empty(count, np.int64)
    queued = np.zeros(count, np.bool_)
    ends = np.empty(count + 1, np.int64)
    ending = np.empty(count + 1, np.int64)
    planned = np.empty(count + 1, np.int64)
    holding = np.empty(count + 1, np.int64)
    planned_end = np.empty(count, np.int64)
    hopeless_since = np.full(count, -1, np.int64)
    too_long_in = np.full(count, -1, np.int64)
    most_tasks = demands.tasks.max()
    reserved_nodes = np.empty(most_tasks, np.int64)
    reserved_gpus = np.empty(most_tasks, np.int64)
    plans = backfilling == EASY
    running = 0
    waiting = 0
    arrived = 0
    ended = 0
    instant = 0
    while arrived < count or running > 0:
        next_is_end = running > 0 and (arrived >= count or ends[0] <= submit[arrived])
        now = ends[0] if next_is_end else submit[arrived]
        instant += 1
        ends_before = ended
        while running > 0 and ends[0] <= now:
            job = ending[0]
            running -= 1
            ended += 1
            pop_end(ends, ending, running)
            if plans:
                remove_running(planned, holding, running, planned_end[job], job)
            want = want_of(demands, job)
            for member in range(places.first[job], places.first[job + 1]):
                give_back(machine, free, places.node[member], want, places.gpus[member])
        while plans and running > 0 and planned[0] <= now:
            job = holding[0]
            again = min(limit[job], 2 * (now - start[job]) + GRACE_MS)
            end = max(start[job] + again, now + 1)
            remove_running(planned, holding, running - 1, planned_end[job], job)
            insert_running(planned, holding, running - 1, end, job)
            planned_end[job] = end
        first = arrived
        while arrived < count and submit[arrived] <= now:
            queued[arrived] = True
            if rule == STATIC:
                _set_waiting(waits, leaves, rank[arrived], demands, arrived)
            else:
                queue[waiting] = arrived
            waiting += 1
            arrived += 1
        # Without an end, jobs that were passed over still do not fit: only the newcomers are looked at.
        only_new = backfilling == SKIP and ended == ends_before
        listed = only_new or rule != STATIC
        if only_new:
            line = in_order(np.arange(first, arrived), now, submit, estimate_s, size, rank, rule)
        elif listed:
            line = in_order(queue[:waiting], now, submit, estimate_s, size, rank, rule)
        else:
            line = queue[:0]
        blocked = False
        head = first
        reserved = False
        shadow = now
        position = 0
        left = waiting
        while True:
            if listed:
                if position >= len(line):
                    break
                job = line[position]
            else:
                picky = backfilling == SKIP or blocked
                position = _find_waiting(waits, leaves, position, free.tree, picky)
                if position < 0:
                    break
                job = order[position]
            position += 1
            shape = demands.shape[job]
            if blocked and hopeless_since[shape] == ended:
                continue
            want = want_of(demands, job)
            nodes = places.node[places.first[job] : places.first[job + 1]]
            gpus = places.gpus[places.first[job] : places.first[job + 1]]
            if not blocked:
                fits = hopeless_since[shape] != ended and place(
                    placement, machine, free, want, shape, typical, nodes, gpus
                )
                if not fits:
                    hopeless_since[shape] = ended
                    if backfilling == NONE:
                        break
                    if backfilling == EASY:
                        blocked = True
                        head = job
                    continue
            else:
                if total_room(machine, free, want) < want.tasks:
                    hopeless_since[shape] = ended
                    continue
                if not reserved:
                    reserved = True
                    shadow = _reserve(
                        placement, machine, free, spare, both, demands, head, typical, planned, holding, running,
                        places, reserved_nodes, reserved_gpus,
                    )  # fmt: skip
                if now + plan[job] <= shadow:
                    place(placement, machine, free, want, shape, typical, nodes, gpus)
                    for node in nodes:
                        meet(machine, free, spare, both, node, node + 1)
                        update_tree(machine, both, node)
                else:
                    if too_long_in[shape] == instant:
                        continue
                    if not place(placement, machine, both, want, shape, typical, nodes, gpus):
                        too_long_in[shape] = instant
                        continue
                    for member in range(want.tasks):
                        take(machine, free, nodes[member], want, gpus[member])
                        change(machine, spare, nodes[member], want, gpus[member], -1)
            start[job] = now
            push_end(ends, ending, running, now + run[job], job)
            if plans:
                planned_end[job] = now + plan[job]
                insert_running(planned, holding, running, planned_end[job], job)
            running += 1
            waiting -= 1
            queued[job] = False
            if rule == STATIC:
                _unset_waiting(waits, leaves, rank[job])
        if rule != STATIC and waiting < left:
            # The queue stays in submit order, so that a stable sort breaks ties by it.
            kept = 0
            for at in range(left):
                if queued[queue[at]]:
                    queue[kept] = queue[at]
                    kept += 1


@compiled
def _reserve(
    placement: int,
    machine: Machine,
    free: Free,
    spare: Free,
    both: Free,
    demands: Demands,
    head: int,
    typical: Typical,
    planned: Ints,
    holding: Ints,
    running: int,
    places: Places,
    nodes: Ints,
    gpus: Ints,
) -> int:
    """Return the shadow time of `head`; set `spare` to what is free then beside it, `both` to what is now too."""
    want = want_of(demands, head)
    copy_amounts(free, spare)
    fits = total_room(machine, free, want)
    shadow = 0
    at = 0
    while fits < want.tasks:
        shadow = planned[at]
        while at < running and planned[at] == shadow:
            released = want_of(demands, holding[at])
            for member in range(places.first[holding[at]], places.first[holding[at] + 1]):
                node = places.node[member]
                fits -= room_on(machine, spare, node, want)
                change(machine, spare, node, released, places.gpus[member], 1)
                fits += room_on(machine, spare, node, want)
            at += 1
    build_tree(machine, spare)
    place(placement, machine, spare, want, demands.shape[head], typical, nodes, gpus)
    meet(machine, free, spare, both, 0, len(free.cpu))
    build_tree(machine, both)
    return shadow


@compiled
def _set_waiting(waits: Ints, leaves: int, rank: int, demands: Demands, job: int) -> None:
    """Put a job into the tree of waiting jobs by rank, whose inner nodes hold the least that any below wants."""
    at = rank + leaves
    waits[at, CPU] = demands.cpu[job]
    waits[at, MEM] = demands.mem[job]
    waits[at, WHOLE] = demands.gpus[job]
    waits[at, WIDEST] = demands.share[job]
    _climb(waits, at)


@compiled
def _unset_waiting(waits: Ints, leaves: int, rank: int) -> None:
    at = rank + leaves
    waits[at, :] = NEVER
    _climb(waits, at)


@compiled
def _climb(waits: Ints, at: int) -> None:
    at >>= 1
    changed = True
    while at >= 1 and changed:
        changed = False
        for column in range(4):
            least = min(waits[2 * at, column], waits[2 * at + 1, column])
            if least != waits[at, column]:
                waits[at, column] = least
                changed = True
        at >>= 1


@compiled
def _find_waiting(waits: Ints, leaves: int, rank: int, tree: Ints, picky: bool) -> int:
    """Return the first waiting rank at or behind `rank`, or -1; if `picky`, the first that some node may hold."""
    if rank >= leaves:
        return -1
    most_cpu = tree[1, CPU] if picky else NEVER - 1
    most_mem = tree[1, MEM] if picky else NEVER - 1
    most_gpus = tree[1, WHOLE] if picky else NEVER - 1
    most_share = tree[1, WIDEST] if picky else NEVER - 1
    at = rank + leaves
    while True:
        if (
            waits[at, CPU] <= most_cpu
            and waits[at, MEM] <= most_mem
            and waits[at, WHOLE] <= most_gpus
            and waits[at, WIDEST] <= most_share
        ):
            if at >= leaves:
                return at - leaves
            at = 2 * at
            continue
        while at & 1:
            at >>= 1
        if at == 0:
            return -1
        at += 1
