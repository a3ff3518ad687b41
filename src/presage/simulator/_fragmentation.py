"""GPU fragmentation by the definition of Weng et al. (ATC 2023), and the descent on it.

The fragmentation of a node for a task is its free GPU that the task cannot use: all of it if the task does not fit
on the node, else the GPUs with less free than the task wants of one. Its expectation over the typical tasks is a
sum weighted by how often they occur, kept in integers so that ties are ties.

Tasks without GPUs can use no GPU at all: they would add the same to every choice, so they are not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._cluster import GPU, Free, Machine, Want, compiled, find_node, pick_gpus
from presage.simulator._structures import NEVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


class Typical(NamedTuple):
    """Typical tasks, one entry each, and what descents on them remember."""

    cpu: Ints
    mem: Ints
    gpus: Ints
    share: Ints
    types: Ints
    features: Ints
    weight: Ints
    level: Ints
    """Which of `levels` the task wants of one GPU."""
    levels: Ints
    slot_shape: Ints
    """Whose growths a slot of the memory holds."""
    version: Ints
    """The state of the node, per slot and node, that the remembered growth belongs to."""
    growth: Ints
    mask: Ints


@compiled
def fragmentation(machine: Machine, free: Free, node: int, cpu: int, mem: int, typical: Typical) -> int:
    """Return the weighted fragmentation of a node with `cpu` and `mem` free and its GPUs as they are."""
    first = machine.first_gpu[node]
    last = machine.first_gpu[node + 1]
    whole = 0
    widest = 0
    total = 0
    for at in range(first, last):
        left = free.gpu[at]
        total += left
        widest = max(widest, left)
        if left == GPU:
            whole += 1
    if total == 0:
        return 0
    useless = np.zeros(len(typical.levels), np.int64)
    for level in range(len(typical.levels)):
        for at in range(first, last):
            if free.gpu[at] < typical.levels[level]:
                useless[level] += free.gpu[at]
    summed = 0
    for task in range(len(typical.cpu)):
        fits = (
            typical.cpu[task] <= cpu
            and typical.mem[task] <= mem
            and typical.gpus[task] <= whole
            and typical.share[task] <= widest
            and (typical.types[task] & machine.type_bit[node]) != 0
            and (typical.features[task] & machine.features[node]) == typical.features[task]
        )
        summed += typical.weight[task] * (useless[typical.level[task]] if fits else total)
    return summed


@compiled
def total_fragmentation(machine: Machine, free: Free, typical: Typical) -> int:
    """Return the weighted fragmentation of all nodes together."""
    summed = 0
    for node in range(len(free.cpu)):
        summed += fragmentation(machine, free, node, free.cpu[node], free.mem[node], typical)
    return summed


@compiled
def least_growth(machine: Machine, free: Free, node: int, want: Want, typical: Typical) -> tuple[int, int]:
    """Return by how much a member on this node adds to fragmentation, and the GPUs where it adds least."""
    first = machine.first_gpu[node]
    last = machine.first_gpu[node + 1]
    if first == last:
        return 0, 0
    before = fragmentation(machine, free, node, free.cpu[node], free.mem[node], typical)
    cpu = free.cpu[node] - want.cpu
    mem = free.mem[node] - want.mem
    if want.share == 0:
        mask = pick_gpus(machine, free, node, want)
        for at in range(first, last):
            if mask >> (at - first) & 1:
                free.gpu[at] -= GPU
        after = fragmentation(machine, free, node, cpu, mem, typical)
        for at in range(first, last):
            if mask >> (at - first) & 1:
                free.gpu[at] += GPU
        return after - before, mask
    least = NEVER
    mask = 0
    for at in range(first, last):
        if free.gpu[at] < want.share:
            continue
        seen = False  # a GPU with just as much left gives the same
        for earlier in range(first, at):
            seen |= free.gpu[earlier] == free.gpu[at]
        if seen:
            continue
        free.gpu[at] -= want.share
        after = fragmentation(machine, free, node, cpu, mem, typical)
        free.gpu[at] += want.share
        if after - before < least:
            least = after - before
            mask = 1 << (at - first)
    return least, mask


@compiled
def descend(machine: Machine, free: Free, want: Want, shape: int, typical: Typical) -> tuple[int, int]:
    """Return the node and GPUs where a member adds least to fragmentation, or -1 and 0.

    In a real state, growths are computed once per version of a node and shape of job.
    """
    remember = free.real
    slot = shape % len(typical.slot_shape)
    if remember and typical.slot_shape[slot] != shape:
        typical.slot_shape[slot] = shape
        typical.version[slot, :] = -1
    best = -1
    least = NEVER
    mask = 0
    node = find_node(free.tree, 0, want)
    while node >= 0:
        if remember and typical.version[slot, node] == free.version[node]:
            growth = typical.growth[slot, node]
            gpus = typical.mask[slot, node]
        else:
            growth, gpus = least_growth(machine, free, node, want, typical)
            if remember:
                typical.version[slot, node] = free.version[node]
                typical.growth[slot, node] = growth
                typical.mask[slot, node] = gpus
        if growth < least:
            best, least, mask = node, growth, gpus
        node = find_node(free.tree, node + 1, want)
    return best, mask
