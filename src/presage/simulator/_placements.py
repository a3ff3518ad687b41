"""The placement rules of presage.policies.placements, compiled.

`place` puts all members of a job on nodes, or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.simulator._cluster import (
    CPU,
    MEM,
    MOST,
    OUTDATED,
    WHOLE,
    WIDEST,
    Free,
    Machine,
    Want,
    find_node,
    has_room,
    pick_gpus,
    room,
    take,
    total_room,
)
from presage.simulator._compiling import inner, lean
from presage.simulator._fragmentation import Typical, least_growth
from presage.simulator._search import find_best
from presage.simulator._structures import NEVER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

# Codes of presage.policies.
FIRST_FIT, BEST_FIT, WORST_FIT, DOT_PRODUCT, RACK_PACKING, KUBE_DEFAULT, FGD = 0, 1, 2, 3, 4, 5, 6
_PLENTY = 1 << 20


@lean
def place(
    rule: int,
    machine: Machine,
    free: Free,
    want: Want,
    shape: int,
    typical: Typical,
    nodes: Ints,
    gpus: Ints,
) -> bool:
    """Put all members on nodes and fill in where they went, or return False and leave all as it was."""
    if rule == RACK_PACKING:
        return _place_by_rack(machine, free, want, nodes, gpus)
    if want.tasks > 1 and total_room(machine, free, want) < want.tasks:
        return False
    node = 0
    for member in range(want.tasks):
        if rule == FIRST_FIT:
            node = find_node(free.tree, node, want)  # nodes before the last one taken are full
        elif rule == WORST_FIT:
            node = _find_emptiest(free.tree, want, free.scratch)
        else:
            node = find_best(rule, machine, free, want, typical)
        if node < 0:
            return False
        if rule == FGD:
            mask = least_growth(machine, free, node, want, typical)[1]
        else:
            mask = pick_gpus(machine, free, node, want)
        take(machine, free, node, want, mask)
        nodes[member] = node
        gpus[member] = mask
    return True


@inner
def _find_emptiest(tree: Ints, want: Want, scratch: Ints) -> int:
    """Return the node with the largest free share that has room, or -1.

    Subtrees without room, or whose largest share is no larger than the largest so far, are left out.
    """
    leaves = len(tree) // 2
    stack, begin, width = scratch[0], scratch[1], scratch[2]
    stack[0], begin[0], width[0] = 1, 0, leaves
    top = 1
    best = -1
    most = -1
    while top > 0:
        top -= 1
        at, first, span = stack[top], begin[top], width[top]
        share = tree[at, MOST]
        if share < most or (share == most and first > best) or not has_room(tree, at, want):
            continue
        if at >= leaves:
            best = first
            most = share
            continue
        half = span // 2
        left = 2 * at
        near = 1 if tree[left + 1, MOST] > tree[left, MOST] else 0
        for side in (1 - near, near):  # the last pushed is looked at first
            stack[top], begin[top], width[top] = left + side, first + side * half, half
            top += 1
    return best


@inner
def _place_by_rack(machine: Machine, free: Free, want: Want, nodes: Ints, gpus: Ints) -> bool:
    """Place members into as few racks, and in each as few nodes, as can be; see RACK_PACKING."""
    totals = free.scratch[0, : len(free.racks)]
    _fill_totals(machine, free, want, totals)
    rack = _narrowest(totals, want.tasks)
    if totals[rack] < want.tasks and totals.sum() < want.tasks:
        return False
    placed = 0
    while placed < want.tasks:
        rack = _narrowest(totals, want.tasks - placed)
        inside = machine.by_rack[machine.first_of_rack[rack] : machine.first_of_rack[rack + 1]]
        rooms = free.scratch[1, : len(inside)]
        for at in range(len(inside)):
            rooms[at] = _room_on(machine, free, inside[at], want)
        until = min(want.tasks, placed + totals[rack])
        totals[rack] = 0
        while placed < until:
            at = _narrowest(rooms, until - placed)
            node = inside[at]
            for _ in range(min(rooms[at], until - placed)):
                mask = pick_gpus(machine, free, node, want)
                take(machine, free, node, want, mask)
                nodes[placed] = node
                gpus[placed] = mask
                placed += 1
            rooms[at] = 0
    return True


@inner
def _fill_totals(machine: Machine, free: Free, want: Want, totals: Ints) -> None:
    """Fill in how many members each rack has room for, or 0 where a narrower one is known to have room for all."""
    racks, tree, by_rack, first_of_rack, first_gpu = (
        free.racks, free.tree, machine.by_rack, machine.first_of_rack, machine.first_gpu,
    )  # fmt: skip
    cpu, mem, whole, gpu = free.cpu, free.mem, free.whole, free.gpu
    leaves = len(tree) // 2
    totals[:] = 0
    narrowest = NEVER
    for rack in range(len(racks)):
        begin, end = first_of_rack[rack], first_of_rack[rack + 1]
        if racks[rack, OUTDATED]:
            _bring_up_to_date(racks, rack, tree, by_rack, begin, end)
        if (
            racks[rack, CPU] < want.cpu
            or racks[rack, MEM] < want.mem
            or racks[rack, WHOLE] < want.gpus
            or racks[rack, WIDEST] < want.share
        ):
            continue
        total = 0
        for at in range(begin, end):
            node = by_rack[at]
            if has_room(tree, leaves + node, want):
                first, last = first_gpu[node], first_gpu[node + 1]
                total += room(cpu[node], mem[node], whole[node], gpu, first, last, want, _PLENTY)
                if total >= narrowest:
                    break
        if total >= narrowest:
            continue
        totals[rack] = total
        if total >= want.tasks:
            narrowest = total
            if total == want.tasks:
                break


@inner
def _bring_up_to_date(racks: Ints, rack: int, tree: Ints, by_rack: Ints, begin: int, end: int) -> None:
    leaves = len(tree) // 2
    racks[rack, :] = 0
    for at in range(begin, end):
        for column in range(OUTDATED):
            racks[rack, column] = max(racks[rack, column], tree[leaves + by_rack[at], column])


@inner
def _room_on(machine: Machine, free: Free, node: int, want: Want) -> int:
    if not has_room(free.tree, len(free.tree) // 2 + node, want):
        return 0
    first, last = machine.first_gpu[node], machine.first_gpu[node + 1]
    return room(free.cpu[node], free.mem[node], free.whole[node], free.gpu, first, last, want, _PLENTY)


@inner
def _narrowest(rooms: Ints, wanted: int) -> int:
    """Return where the least room is that holds `wanted`, or else where the most room is; the first of equals."""
    best = 0
    for at in range(1, len(rooms)):
        if rooms[best] < wanted:
            if rooms[at] > rooms[best]:
                best = at
        elif wanted <= rooms[at] < rooms[best]:
            best = at
    return best
