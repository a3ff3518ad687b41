"""GPU fragmentation by the definition of Weng et al. (ATC 2023), and the descent on it.

The fragmentation of a node for a task is its free GPU that the task cannot use: all of it if the task does not fit
on the node, else the GPUs with less free than the task wants of one. Its expectation over the typical tasks is a
sum weighted by how often they occur, kept in integers so that ties are ties.

Tasks without GPUs can use no GPU at all: they would add the same to every choice, so they are not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from presage.simulator._cluster import GPU, Free, Machine, Want, pick_gpus, sum_up
from presage.simulator._compiling import inner, lean
from presage.simulator._states import (
    AMOUNTS,
    HIGH_CPU,
    HIGH_MEM,
    HIGH_WHOLE,
    LOW_CPU,
    LOW_MEM,
    LOW_WHOLE,
    LOW_WIDEST,
)
from presage.simulator._structures import NEVER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


# Columns of the typical tasks.
CPU, MEM, GPUS, SHARE, WEIGHT, LEVEL, TYPES, FEATURES = 0, 1, 2, 3, 4, 5, 6, 7


class Typical(NamedTuple):
    """What tasks typically want."""

    tasks: Ints
    """A row each: what it wants, how often it occurs, and which of `levels` it wants of one GPU."""
    first: Ints
    """Where tasks with the same types and features begin, and where the last end."""
    levels: Ints
    total: int
    """The sum of all weights."""
    span_of: Ints
    """For each amount that may be free of a GPU the range it belongs to; of at most 62."""
    spans: Ints
    """The least and the most of each range."""
    scratch: Ints
    """Two rows of an entry per level."""


@inner
def fragmentation(
    gpu: Ints, begin: int, end: int, cpu: int, mem: int, type_bit: int, features: int, typical: Typical
) -> int:
    """Return the weighted fragmentation of a node with `cpu` and `mem` free and its GPUs as they are."""
    whole, widest, total = sum_up(gpu, begin, end)
    if total == 0:
        return 0
    tasks, levels = typical.tasks, typical.levels
    useless = typical.scratch[0]
    useless[:] = 0
    for level in range(len(levels)):
        for at in range(begin, end):
            if gpu[at] < levels[level]:
                useless[level] += gpu[at]
    summed = 0
    for kind in range(len(typical.first) - 1):
        first, last = typical.first[kind], typical.first[kind + 1]
        possible = (tasks[first, TYPES] & type_bit) != 0 and (tasks[first, FEATURES] & ~features) == 0
        for at in range(first, last):
            fits = (
                possible
                and tasks[at, CPU] <= cpu
                and tasks[at, MEM] <= mem
                and tasks[at, GPUS] <= whole
                and tasks[at, SHARE] <= widest
            )
            summed += tasks[at, WEIGHT] * (useless[tasks[at, LEVEL]] if fits else total)
    return summed


@lean
def total_fragmentation(machine: Machine, free: Free, typical: Typical) -> int:
    """Return the weighted fragmentation of all nodes together."""
    summed = 0
    for node in range(len(free.cpu)):
        first, last = machine.first_gpu[node], machine.first_gpu[node + 1]
        bits, features = machine.type_bit[node], machine.features[node]
        summed += fragmentation(free.gpu, first, last, free.cpu[node], free.mem[node], bits, features, typical)
    return summed


@inner
def least_growth(machine: Machine, free: Free, node: int, want: Want, typical: Typical) -> tuple[int, int]:
    """Return by how much a member on this node adds to fragmentation, and the GPUs where it adds least."""
    first, last = machine.first_gpu[node], machine.first_gpu[node + 1]
    if first == last:
        return 0, 0
    gpu, cpu, mem = free.gpu, free.cpu[node], free.mem[node]
    bits, features = machine.type_bit[node], machine.features[node]
    before = fragmentation(gpu, first, last, cpu, mem, bits, features, typical)
    cpu -= want.cpu
    mem -= want.mem
    if want.share == 0:
        mask = pick_gpus(machine, free, node, want)
        _shift(gpu, first, last, mask, -GPU)
        after = fragmentation(gpu, first, last, cpu, mem, bits, features, typical)
        _shift(gpu, first, last, mask, GPU)
        return after - before, mask
    least = NEVER
    mask = 0
    for at in range(first, last):
        if gpu[at] < want.share:
            continue
        seen = False  # a GPU with just as much left gives the same
        for earlier in range(first, at):
            seen |= gpu[earlier] == gpu[at]
        if seen:
            continue
        gpu[at] -= want.share
        after = fragmentation(gpu, first, last, cpu, mem, bits, features, typical)
        gpu[at] += want.share
        if after - before < least:
            least = after - before
            mask = 1 << (at - first)
    return least, mask


@inner
def _shift(gpu: Ints, first: int, last: int, mask: int, amount: int) -> None:
    for at in range(first, last):
        if mask >> (at - first) & 1:
            gpu[at] += amount


@inner
def growth_bound(
    rows: Ints,
    at: int,
    type_bit: int,
    features: int,
    want: Want,
    tasks: Ints,
    kinds: Ints,
    levels: Ints,
    spans: Ints,
    kept: Ints,
    lost: int,
    enough: int,
) -> int:
    """Return a growth that no node with room below an inner node of `_states` can be under; all are of one kind.

    `lost` is the growth if no task loses anything, `kept` is scratch. Above `enough` any bound will do.

    What is taken is no loss to a task that does not fit on a node. One that surely fits before loses what it can
    no longer use: all of the node if it surely does not fit after, else the GPU that is left too small for it. One
    that fits on some of the nodes only may lose nothing.
    """
    taken = want.gpus * GPU + want.share
    low_cpu, low_mem = max(rows[at, LOW_CPU], want.cpu), max(rows[at, LOW_MEM], want.mem)
    high_cpu, high_mem = rows[at, HIGH_CPU] - want.cpu, rows[at, HIGH_MEM] - want.mem
    low_whole, high_whole = max(rows[at, LOW_WHOLE], want.gpus), rows[at, HIGH_WHOLE] - want.gpus
    low_widest = max(rows[at, LOW_WIDEST], want.share, GPU if want.gpus > 0 else 0)
    if low_widest == 0:
        return lost
    useful = low_whole * GPU
    last_whole = 0
    kept[:] = 0
    for kind in range(len(kinds) - 1):
        first, last = kinds[kind], kinds[kind + 1]
        if (tasks[first, TYPES] & type_bit) == 0 or (tasks[first, FEATURES] & ~features) != 0:
            continue
        for task in range(first, last):
            cpu, mem, gpus, share = tasks[task, CPU], tasks[task, MEM], tasks[task, GPUS], tasks[task, SHARE]
            if cpu > low_cpu or mem > low_mem or gpus > low_whole or share > low_widest:
                continue
            if cpu > high_cpu or mem > high_mem or gpus > high_whole:
                lost += tasks[task, WEIGHT] * max(useful, low_widest if share > 0 else 0)
            elif want.share == 0:
                lost += tasks[task, WEIGHT] * taken
            else:
                kept[tasks[task, LEVEL]] += tasks[task, WEIGHT]
                if gpus == high_whole:
                    last_whole += tasks[task, WEIGHT]
            if lost > enough:
                return lost
    if want.share > 0:
        lost += _least_loss(rows[at, AMOUNTS], want.share, kept, levels, spans, last_whole * (useful - GPU))
    return lost


@inner
def _least_loss(amounts: int, share: int, weights: Ints, levels: Ints, spans: Ints, last_whole: int) -> int:
    """Return the least that tasks, with `weights` by level, lose of one GPU that a share is taken of.

    `amounts` are the ranges of free amounts that GPUs may have; `last_whole` is what is lost beside when the GPU
    is a whole one.
    """
    least = NEVER
    for span in range(len(spans)):
        low, high = max(spans[span, 0], share), spans[span, 1]
        if high < share or not amounts >> span & 1:
            continue
        loss = last_whole if low == GPU else 0
        for at in range(len(weights)):
            if levels[at] <= low:
                loss += weights[at] * (low if high - share < levels[at] else share)
        least = min(least, loss)
    return least


@inner
def spans_of(gpu: Ints, first: int, last: int, span_of: Ints) -> int:
    """Return in which ranges the free amounts of GPUs `first` to `last` are, as a mask."""
    mask = 0
    for at in range(first, last):
        mask |= 1 << span_of[gpu[at]]
    return mask
