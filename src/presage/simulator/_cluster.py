"""What nodes have and what is free on them, as arrays, with a tree that skips whole ranges without room.

All amounts are int64: thousandths of a processor, MiB, thousandths of a GPU. GPUs of all nodes lie in one array;
those of node n are `first_gpu[n]` to `first_gpu[n + 1]`. The GPUs that a member holds are a bit mask over the GPUs
of its node. Types and features are bit masks too; a node has exactly one bit of type.

Functions that make no arrays are `lean`: handing a Machine or Free to any other costs about as much as looking at
ten nodes, because every array in it is counted as used once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._compiling import compiled as compiled
from presage.simulator._compiling import lean
from presage.simulator._states import DEEPEST, STATE_COLUMNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

# Columns of the tree. Inner nodes hold the largest (for masks the union) of their leaves.
CPU, MEM, WHOLE, WIDEST, MOST, TYPES, FEATURES = 0, 1, 2, 3, 4, 5, 6
COLUMNS = 7
# The last column of `racks`, whose others are the first of the tree.
OUTDATED = 4
GPU = 1000
SCALE = 1_000_000
# What kube-scheduler counts for a container that asks for nothing.
NO_CPU, NO_MEM = 100, 200


class Machine(NamedTuple):
    """What never changes; one entry per node."""

    cpu: Ints
    mem: Ints
    first_gpu: Ints
    """One entry more than nodes."""
    type_bit: Ints
    features: Ints
    rack: Ints
    """Codes from 0."""
    top: Ints
    """The largest node's processors, memory and GPUs, each at least 1."""
    kind: Ints
    """Codes from 0; nodes of one kind differ in nothing but their racks."""
    by_rack: Ints
    """The nodes, rack by rack."""
    first_of_rack: Ints
    """Where each rack begins in `by_rack`; one entry more than racks."""


class Free(NamedTuple):
    """What is free; one entry per node, except `gpu` (per GPU) and `tree`."""

    cpu: Ints
    mem: Ints
    gpu: Ints
    whole: Ints
    """GPUs that nobody uses."""
    widest: Ints
    """The most that is free of one GPU."""
    gpu_sum: Ints
    asked_cpu: Ints
    """Taken as kube-scheduler counts it, a member that asks for none with NO_CPU."""
    asked_mem: Ints
    version: Ints
    """Goes up with every change of a node."""
    tree: Ints
    real: bool
    """Whether this state lasts, so that `states` is worth its upkeep."""
    states: Ints
    """The nodes ordered by state; see presage.simulator._states."""
    stale: Ints
    """How many nodes have changed since `states` last knew, then which, then a mark for each node if it has."""
    racks: Ints
    """Per rack the most that a node of it has free: CPU, MEM, WHOLE, WIDEST, and whether that is out of date."""
    scratch: Ints
    """Room to search in."""


class Want(NamedTuple):
    """What a job wants: `tasks` members, each with all of the rest."""

    tasks: int
    cpu: int
    mem: int
    gpus: int
    """Whole GPUs."""
    share: int
    """Thousandths of one GPU; 0 if `gpus` is not."""
    types: int
    """Allowed types; -1 is any."""
    features: int
    """Required features."""


@compiled
def all_free(machine: Machine, real: bool) -> Free:
    """Return the state of the empty machine."""
    count = len(machine.cpu)
    leaves = 1
    while leaves < count:
        leaves *= 2
    gpu = np.full(machine.first_gpu[count], GPU, np.int64)
    zeros = np.zeros(count, np.int64)
    states = np.zeros((2 * count if real else 1, STATE_COLUMNS), np.int64)
    racks = np.ones((len(machine.first_of_rack) - 1, OUTDATED + 1), np.int64)
    free = Free(
        machine.cpu.copy(), machine.mem.copy(), gpu, zeros.copy(), zeros.copy(), zeros.copy(), zeros.copy(),
        zeros.copy(), zeros.copy(), np.zeros((2 * leaves, COLUMNS), np.int64), real, states,
        np.zeros(2 * count + 1, np.int64), racks, np.zeros((3, max(count, DEEPEST)), np.int64),
    )  # fmt: skip
    for node in range(count):
        _sum_up_node(machine.first_gpu, gpu, free.whole, free.widest, free.gpu_sum, node)
    build_tree(machine, free)
    return free


@lean
def sum_up(gpu: Ints, first: int, last: int) -> tuple[int, int, int]:
    """Return of GPUs `first` to `last` how many are unused, the most free of one, and the sum of what is free."""
    whole = 0
    widest = 0
    total = 0
    for at in range(first, last):
        left = gpu[at]
        total += left
        widest = max(widest, left)
        if left == GPU:
            whole += 1
    return whole, widest, total


@lean
def _sum_up_node(first_gpu: Ints, gpu: Ints, whole: Ints, widest: Ints, total: Ints, node: int) -> None:
    whole[node], widest[node], total[node] = sum_up(gpu, first_gpu[node], first_gpu[node + 1])


@lean
def free_share(cpu: int, mem: int, gpu: int, top: Ints) -> int:
    """Return what is free as a share of the largest node, all resources added up, in millionths."""
    return int(cpu * SCALE // top[0] + mem * SCALE // top[1] + gpu * SCALE // top[2])


@lean
def _join(tree: Ints, at: int) -> bool:
    """Compute an inner node from its children; return whether it changed."""
    left = 2 * at
    right = left + 1
    changed = False
    for column in range(MOST + 1):
        value = max(tree[left, column], tree[right, column])
        if value != tree[at, column]:
            tree[at, column] = value
            changed = True
    return changed


@lean
def build_tree(machine: Machine, free: Free) -> None:
    """Compute the whole tree from the other arrays; all that is ordered by state or rack is out of date."""
    cpu, mem, gpu_sum, top, tree = free.cpu, free.mem, free.gpu_sum, machine.top, free.tree
    leaves = len(tree) // 2
    for node in range(leaves):
        at = leaves + node
        if node < len(cpu):
            share = free_share(cpu[node], mem[node], gpu_sum[node], top)
            tree[at, CPU] = cpu[node]
            tree[at, MEM] = mem[node]
            tree[at, WHOLE] = free.whole[node]
            tree[at, WIDEST] = free.widest[node]
            tree[at, MOST] = share
            tree[at, TYPES] = machine.type_bit[node]
            tree[at, FEATURES] = machine.features[node]
        else:
            tree[at, :] = 0
            tree[at, CPU] = -1  # nothing fits
    for at in range(leaves - 1, 0, -1):
        _join(tree, at)
        tree[at, TYPES] = tree[2 * at, TYPES] | tree[2 * at + 1, TYPES]
        tree[at, FEATURES] = tree[2 * at, FEATURES] | tree[2 * at + 1, FEATURES]
    for node in range(len(cpu)):
        _set_stale(free.stale, node)
    free.racks[:, OUTDATED] = 1


@lean
def _set_stale(stale: Ints, node: int) -> None:
    """Note once that a node has changed. `stale` ends with a mark for each node."""
    marks = (len(stale) + 1) // 2
    if stale[marks + node] == 0:
        stale[marks + node] = 1
        stale[0] += 1
        stale[stale[0]] = node


@lean
def update_tree(machine: Machine, free: Free, node: int) -> None:
    """Bring the tree up to date after a change of one node."""
    _set_stale(free.stale, node)
    free.racks[machine.rack[node], OUTDATED] = 1
    tree = free.tree
    at = node + len(tree) // 2
    share = free_share(free.cpu[node], free.mem[node], free.gpu_sum[node], machine.top)
    tree[at, CPU] = free.cpu[node]
    tree[at, MEM] = free.mem[node]
    tree[at, WHOLE] = free.whole[node]
    tree[at, WIDEST] = free.widest[node]
    tree[at, MOST] = share
    at >>= 1
    while at >= 1 and _join(tree, at):
        at >>= 1


@lean
def change(machine: Machine, free: Free, node: int, want: Want, gpus: int, sign: int) -> None:
    """Add (`sign` 1) or subtract (-1) one member to what is free on a node; the tree is left as it is."""
    free.cpu[node] += sign * want.cpu
    free.mem[node] += sign * want.mem
    free.asked_cpu[node] -= sign * (want.cpu if want.cpu > 0 else NO_CPU)
    free.asked_mem[node] -= sign * (want.mem if want.mem > 0 else NO_MEM)
    if gpus:
        amount = sign * (want.share if want.share > 0 else GPU)
        at = machine.first_gpu[node]
        while gpus:
            if gpus & 1:
                free.gpu[at] += amount
            gpus >>= 1
            at += 1
        _sum_up_node(machine.first_gpu, free.gpu, free.whole, free.widest, free.gpu_sum, node)
    free.version[node] += 1


@lean
def take(machine: Machine, free: Free, node: int, want: Want, gpus: int) -> None:
    """Put one member on a node."""
    change(machine, free, node, want, gpus, -1)
    update_tree(machine, free, node)


@lean
def give_back(machine: Machine, free: Free, node: int, want: Want, gpus: int) -> None:
    """Take one member off a node."""
    change(machine, free, node, want, gpus, 1)
    update_tree(machine, free, node)


@lean
def has_room(tree: Ints, at: int, want: Want) -> bool:
    """Return whether one member fits on a leaf, or may fit on one below an inner node."""
    return bool(
        tree[at, CPU] >= want.cpu
        and tree[at, MEM] >= want.mem
        and tree[at, WHOLE] >= want.gpus
        and tree[at, WIDEST] >= want.share
        and (tree[at, TYPES] & want.types) != 0
        and (tree[at, FEATURES] & want.features) == want.features
    )


@lean
def find_node(tree: Ints, node: int, want: Want) -> int:
    """Return the first node at or behind `node` that has room for a member, or -1."""
    leaves = len(tree) // 2
    if node >= leaves:
        return -1
    at = node + leaves
    while True:
        if has_room(tree, at, want):
            if at >= leaves:
                return at - leaves
            at = 2 * at
            continue
        while at & 1:
            at >>= 1
        if at == 0:
            return -1
        at += 1


@lean
def room(cpu: int, mem: int, whole: int, gpu: Ints, first: int, last: int, want: Want, most: int) -> int:
    """Return how many members fit into `cpu`, `mem`, `whole` GPUs and GPUs `first` to `last`, at most `most`.

    Types and features are not looked at.
    """
    count = most
    if want.cpu > 0:
        count = min(count, cpu // want.cpu)
    if want.mem > 0:
        count = min(count, mem // want.mem)
    if want.gpus > 0:
        count = min(count, whole // want.gpus)
    if want.share > 0:
        shares = 0
        for at in range(first, last):
            shares += gpu[at] // want.share
        count = min(count, shares)
    return count


@lean
def room_on(machine: Machine, free: Free, node: int, want: Want) -> int:
    """Return how many members fit on a node together, at most as many as the job has."""
    if (machine.type_bit[node] & want.types) == 0 or (machine.features[node] & want.features) != want.features:
        return 0
    first, last = machine.first_gpu[node], machine.first_gpu[node + 1]
    return room(free.cpu[node], free.mem[node], free.whole[node], free.gpu, first, last, want, want.tasks)


@lean
def total_room(machine: Machine, free: Free, want: Want) -> int:
    """Return how many members fit, at most as many as the job has.

    The members are equal, so no choice of nodes can make fewer fit than another.
    """
    cpu, mem, whole, gpu, first_gpu, tree = free.cpu, free.mem, free.whole, free.gpu, machine.first_gpu, free.tree
    total = 0
    node = find_node(tree, 0, want)
    while node >= 0 and total < want.tasks:
        first, last = first_gpu[node], first_gpu[node + 1]
        total += room(cpu[node], mem[node], whole[node], gpu, first, last, want, want.tasks - total)
        node = find_node(tree, node + 1, want)
    return total


@lean
def pick_gpus(machine: Machine, free: Free, node: int, want: Want) -> int:
    """Return the GPUs for one member: the first free ones, or the one with the least left that is enough."""
    first = machine.first_gpu[node]
    mask = 0
    if want.share > 0:
        least = GPU + 1
        for at in range(first, machine.first_gpu[node + 1]):
            if want.share <= free.gpu[at] < least:
                least = free.gpu[at]
                mask = 1 << (at - first)
        return mask
    needed = want.gpus
    at = first
    while needed > 0:
        if free.gpu[at] == GPU:
            mask |= 1 << (at - first)
            needed -= 1
        at += 1
    return mask


@lean
def copy_amounts(source: Free, target: Free) -> None:
    """Copy everything but versions and the tree."""
    for node in range(len(source.cpu)):
        target.cpu[node] = source.cpu[node]
        target.mem[node] = source.mem[node]
        target.whole[node] = source.whole[node]
        target.widest[node] = source.widest[node]
        target.gpu_sum[node] = source.gpu_sum[node]
        target.asked_cpu[node] = source.asked_cpu[node]
        target.asked_mem[node] = source.asked_mem[node]
    for at in range(len(source.gpu)):
        target.gpu[at] = source.gpu[at]


@lean
def meet(machine: Machine, one: Free, other: Free, target: Free, begin: int, end: int) -> None:
    """Set nodes `begin` to `end` of `target` to what is free in both; the tree is left as it is."""
    first_gpu, gpu, whole, widest, total = (
        machine.first_gpu,
        target.gpu,
        target.whole,
        target.widest,
        target.gpu_sum,
    )
    for node in range(begin, end):
        target.cpu[node] = min(one.cpu[node], other.cpu[node])
        target.mem[node] = min(one.mem[node], other.mem[node])
        target.asked_cpu[node] = max(one.asked_cpu[node], other.asked_cpu[node])
        target.asked_mem[node] = max(one.asked_mem[node], other.asked_mem[node])
        for at in range(first_gpu[node], first_gpu[node + 1]):
            gpu[at] = min(one.gpu[at], other.gpu[at])
        _sum_up_node(first_gpu, gpu, whole, widest, total, node)
