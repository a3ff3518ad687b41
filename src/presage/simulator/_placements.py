"""The placement rules of presage.policies.placements, compiled.

`place` puts all members of a job on nodes, or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.simulator._cluster import (
    LEAST,
    MOST,
    NO_CPU,
    NO_MEM,
    SCALE,
    Free,
    Machine,
    Want,
    compiled,
    find_node,
    has_room,
    pick_gpus,
    room,
    take,
    total_room,
)
from presage.simulator._fragmentation import Typical, descend
from presage.simulator._structures import NEVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

# Codes of presage.policies.
FIRST_FIT, BEST_FIT, WORST_FIT, DOT_PRODUCT, RACK_PACKING, KUBE_DEFAULT, FGD = 0, 1, 2, 3, 4, 5, 6
_DEPTH = 64
_PLENTY = 1 << 20


@compiled
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
    mask = 0
    for member in range(want.tasks):
        if rule == FGD:
            node, mask = descend(machine, free, want, shape, typical)
        elif rule in (BEST_FIT, WORST_FIT):
            node = _find_by_share(free, want, rule == WORST_FIT)
        elif rule == DOT_PRODUCT:
            node = _find_by_product(machine, free, want)
        elif rule == KUBE_DEFAULT:
            node = _find_by_kube_score(machine, free, want)
        else:
            node = find_node(free.tree, node, want)  # nodes before the last one taken are full
        if node < 0:
            return False
        if rule != FGD:
            mask = pick_gpus(machine, free, node, want)
        take(machine, free, node, want, mask)
        nodes[member] = node
        gpus[member] = mask
    return True


@compiled
def _find_by_share(free: Free, want: Want, largest: bool) -> int:
    """Return the node with the least (or `largest`) free share that has room, or -1.

    Subtrees without room, or whose best share is no better than the best so far, are left out.
    """
    tree = free.tree
    leaves = len(tree) // 2
    stack = np.empty(_DEPTH, np.int64)
    begin = np.empty(_DEPTH, np.int64)
    width = np.empty(_DEPTH, np.int64)
    stack[0], begin[0], width[0] = 1, 0, leaves
    top = 1
    best = -1
    least = NEVER
    while top > 0:
        top -= 1
        at, first, span = stack[top], begin[top], width[top]
        share = -tree[at, MOST] if largest else tree[at, LEAST]
        if share > least or (share == least and first > best) or not has_room(tree, at, want):
            continue
        if at >= leaves:
            best = first
            least = share
            continue
        half = span // 2
        left = 2 * at
        if largest:
            right_first = tree[left + 1, MOST] > tree[left, MOST]
        else:
            right_first = tree[left + 1, LEAST] < tree[left, LEAST]
        near = 1 if right_first else 0
        for side in (1 - near, near):  # the last pushed is looked at first
            stack[top], begin[top], width[top] = left + side, first + side * half, half
            top += 1
    return best


@compiled
def _find_by_product(machine: Machine, free: Free, want: Want) -> int:
    """Return the node with room whose free shares have the smallest product with the wanted shares, or -1."""
    cpu = want.cpu * SCALE // machine.top[0]
    mem = want.mem * SCALE // machine.top[1]
    gpu = (want.gpus * 1000 + want.share) * SCALE // machine.top[2]
    best = -1
    least = NEVER
    node = find_node(free.tree, 0, want)
    while node >= 0:
        product = (
            cpu * (free.cpu[node] * SCALE // machine.top[0])
            + mem * (free.mem[node] * SCALE // machine.top[1])
            + gpu * (free.gpu_sum[node] * SCALE // machine.top[2])
        )
        if product < least:
            best, least = node, product
        node = find_node(free.tree, node + 1, want)
    return best


@compiled
def _find_by_kube_score(machine: Machine, free: Free, want: Want) -> int:
    """Return the node with room and the highest LeastAllocated + BalancedAllocation, or -1."""
    cpus, mems, asked_cpus, asked_mems, tree = machine.cpu, machine.mem, free.asked_cpu, free.asked_mem, free.tree
    counted_cpu = want.cpu if want.cpu > 0 else NO_CPU
    counted_mem = want.mem if want.mem > 0 else NO_MEM
    asks = want.cpu > 0 or want.mem > 0
    best = -1
    highest = -1
    node = find_node(tree, 0, want)
    while node >= 0:
        cpu = cpus[node]
        mem = mems[node]
        score = least_allocated(cpu, mem, asked_cpus[node] + counted_cpu, asked_mems[node] + counted_mem)
        if asks:  # pods that ask for nothing are not balanced
            score += balanced(cpu, mem, cpu - free.cpu[node] + want.cpu, mem - free.mem[node] + want.mem)
        if score > highest:
            best, highest = node, score
        node = find_node(tree, node + 1, want)
    return best


@compiled
def least_allocated(cpu: int, mem: int, asked_cpu: int, asked_mem: int) -> int:
    """Return the mean free percentage of the resources that a node has at all."""
    kinds = 0
    summed = 0
    if cpu > 0:
        kinds += 1
        if asked_cpu <= cpu:
            summed += (cpu - asked_cpu) * 100 // cpu
    if mem > 0:
        kinds += 1
        if asked_mem <= mem:
            summed += (mem - asked_mem) * 100 // mem
    return summed // max(kinds, 1)


@compiled
def balanced(cpu: int, mem: int, used_cpu: int, used_mem: int) -> int:
    """Return 100 where processors and memory are used to the same share, less the further they are apart."""
    if cpu == 0 or mem == 0:
        return 100
    spread = abs((min(used_cpu / cpu, 1.0) - min(used_mem / mem, 1.0)) / 2)
    return int((1 - spread) * 100)


@compiled
def _place_by_rack(machine: Machine, free: Free, want: Want, nodes: Ints, gpus: Ints) -> bool:
    """Place members into as few racks, and in each as few nodes, as can be; see RACK_PACKING."""
    tree, racks, first_gpu, gpu = free.tree, machine.rack, machine.first_gpu, free.gpu
    held = np.empty(len(racks), np.int64)
    candidates = np.empty(len(racks), np.int64)
    totals = np.zeros(racks.max() + 1, np.int64)
    count = 0
    total = 0
    node = find_node(tree, 0, want)
    while node >= 0:
        first, last = first_gpu[node], first_gpu[node + 1]
        fits = room(free.cpu[node], free.mem[node], free.whole[node], gpu, first, last, want, _PLENTY)
        candidates[count] = node
        held[count] = fits
        totals[racks[node]] += fits
        total += fits
        count += 1
        node = find_node(tree, node + 1, want)
    if total < want.tasks:
        return False
    placed = 0
    while placed < want.tasks:
        rack = _narrowest(totals, want.tasks - placed)
        inside = np.empty(count, np.int64)
        rooms = np.empty(count, np.int64)
        members = 0
        for at in range(count):
            if racks[candidates[at]] == rack:
                inside[members] = candidates[at]
                rooms[members] = held[at]
                members += 1
        until = min(want.tasks, placed + totals[rack])
        totals[rack] = 0
        while placed < until:
            at = _narrowest(rooms[:members], until - placed)
            node = inside[at]
            for _ in range(min(rooms[at], until - placed)):
                mask = pick_gpus(machine, free, node, want)
                take(machine, free, node, want, mask)
                nodes[placed] = node
                gpus[placed] = mask
                placed += 1
            rooms[at] = 0
    return True


@compiled
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
