"""The best node for a member, by rules that score nodes by their state.

The lower a score the better; of equals the first node wins. States that last are kept in order (see `_states`):
whole groups of nodes without room, or whose best possible score is no better than the best so far, are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

from presage.simulator._cluster import GPU, NO_CPU, NO_MEM, SCALE, Free, Machine, Want, find_node
from presage.simulator._compiling import inner
from presage.simulator._fragmentation import Typical, growth_bound, least_growth, spans_of
from presage.simulator._states import (
    AMOUNTS,
    FIRST,
    HIGH_CPU,
    HIGH_MEM,
    HIGH_WHOLE,
    HIGH_WIDEST,
    KIND,
    LEFT,
    LOW_ASKED_CPU,
    LOW_ASKED_MEM,
    LOW_CPU,
    LOW_GPU,
    LOW_MEM,
    LOW_WHOLE,
    LOW_WIDEST,
    MIXED,
    RIGHT,
    insert,
    key_of,
    remove,
)
from presage.simulator._structures import NEVER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

# Codes of presage.policies.
BEST_FIT, DOT_PRODUCT, KUBE_DEFAULT, FGD = 1, 3, 5, 6


@inner
def find_best(rule: int, machine: Machine, free: Free, want: Want, typical: Typical) -> int:
    """Return the node with room that has the lowest score, or -1."""
    if free.real:
        _bring_up_to_date(machine, free, typical.span_of)
        return _search(rule, machine, free, want, typical)
    cpus, mems, tops = machine.cpu, machine.mem, machine.top
    best = -1
    least = NEVER
    weights = _weights(rule, want, tops)
    row = free.states
    node = find_node(free.tree, 0, want)
    while node >= 0:
        _fill_row(machine, free, node, row, 0)
        if rule == FGD:
            score = least_growth(machine, free, node, want, typical)[0]
        else:
            score = _score(rule, row, 0, cpus, mems, tops, want, weights)
        if score < least:
            best, least = node, score
        node = find_node(free.tree, node + 1, want)
    return best


@inner
def _search(rule: int, machine: Machine, free: Free, want: Want, typical: Typical) -> int:
    rows, types, features, cpus, mems, tops = (
        free.states, machine.type_bit, machine.features, machine.cpu, machine.mem, machine.top,
    )  # fmt: skip
    nodes = len(rows) // 2
    tasks, kinds, levels, spans = typical.tasks, typical.first, typical.levels, typical.spans
    lossless = -(want.gpus * GPU + want.share) * typical.total
    weights = _weights(rule, want, machine.top)
    stack, bounds, kept = free.scratch[0], free.scratch[1], typical.scratch[1]
    stack[0] = rows[0, LEFT]
    bounds[0] = -NEVER
    if not _has_room(rows, stack[0], want, types, features):
        return -1
    top = 1
    best = -1
    least = NEVER
    while top > 0:
        top -= 1
        at = stack[top]
        if bounds[top] > least or (bounds[top] == least and rows[at, FIRST] > best):
            continue
        if at >= nodes:
            best = at - nodes
            least = bounds[top]
            continue
        begin = top
        for side in (LEFT, RIGHT):
            child = rows[at, side]
            if not _has_room(rows, child, want, types, features):
                continue
            if rule == FGD:
                bound = -NEVER
                node = rows[child, FIRST]
                if child >= nodes:
                    bound = least_growth(machine, free, node, want, typical)[0]
                elif rows[child, KIND] != MIXED:
                    bound = growth_bound(
                        rows,
                        child,
                        types[node],
                        features[node],
                        want,
                        tasks,
                        kinds,
                        levels,
                        spans,
                        kept,
                        lossless,
                        least,
                    )
            else:
                bound = _score(rule, rows, child, cpus, mems, tops, want, weights)
            if bound > least or (bound == least and rows[child, FIRST] > best):
                continue
            stack[top] = child
            bounds[top] = bound
            top += 1
        # The last pushed is looked at first: the one that promises more, of equals the one with the first node.
        if top == begin + 2 and (
            bounds[begin] < bounds[begin + 1]
            or (bounds[begin] == bounds[begin + 1] and rows[stack[begin], FIRST] < rows[stack[begin + 1], FIRST])
        ):
            stack[begin], stack[begin + 1] = stack[begin + 1], stack[begin]
            bounds[begin], bounds[begin + 1] = bounds[begin + 1], bounds[begin]
    return best


@njit(inline="always")
def _has_room(rows: Ints, at: int, want: Want, types: Ints, features: Ints) -> bool:
    """Return whether a member fits on a leaf, or may fit on one below an inner node."""
    node = rows[at, FIRST]
    return bool(
        rows[at, HIGH_CPU] >= want.cpu
        and rows[at, HIGH_MEM] >= want.mem
        and rows[at, HIGH_WHOLE] >= want.gpus
        and rows[at, HIGH_WIDEST] >= want.share
        and (
            rows[at, KIND] == MIXED
            or ((types[node] & want.types) != 0 and (features[node] & want.features) == want.features)
        )
    )


@inner
def _weights(rule: int, want: Want, top: Ints) -> tuple[int, int, int]:
    """Return what free shares of processors, memory and GPUs are multiplied with."""
    if rule != DOT_PRODUCT:
        return 1, 1, 1
    gpu = want.gpus * GPU + want.share
    return int(want.cpu * SCALE // top[0]), int(want.mem * SCALE // top[1]), int(gpu * SCALE // top[2])


@njit(inline="always")
def _score(
    rule: int, rows: Ints, at: int, cpus: Ints, mems: Ints, tops: Ints, want: Want, weights: tuple[int, int, int]
) -> int:
    """Return the score of a leaf, or a bound that no node with room below an inner node can beat."""
    cpu = max(rows[at, LOW_CPU], want.cpu)
    mem = max(rows[at, LOW_MEM], want.mem)
    if rule == KUBE_DEFAULT:
        if rows[at, KIND] == MIXED:
            score = -NEVER
        else:
            node = rows[at, FIRST]
            score = -_best_kube_score(rows, at, cpu, mem, cpus[node], mems[node], want)
    else:
        gpu = max(rows[at, LOW_GPU], want.gpus * GPU + want.share)
        score = (
            weights[0] * (cpu * SCALE // tops[0])
            + weights[1] * (mem * SCALE // tops[1])
            + weights[2] * (gpu * SCALE // tops[2])
        )
    return score


@inner
def _best_kube_score(rows: Ints, at: int, low_cpu: int, low_mem: int, cpu: int, mem: int, want: Want) -> int:
    """Return the highest LeastAllocated + BalancedAllocation that nodes of one kind below `at` can have.

    `low_cpu` and `low_mem` are free on each of them, `cpu` and `mem` are what they have.
    """
    counted_cpu = rows[at, LOW_ASKED_CPU] + (want.cpu if want.cpu > 0 else NO_CPU)
    counted_mem = rows[at, LOW_ASKED_MEM] + (want.mem if want.mem > 0 else NO_MEM)
    score = least_allocated(cpu, mem, counted_cpu, counted_mem)
    if want.cpu == 0 and want.mem == 0:  # pods that ask for nothing are not balanced
        return score
    if cpu == 0 or mem == 0:
        return score + 100
    least_used_cpu = used_share(cpu - rows[at, HIGH_CPU] + want.cpu, cpu)
    least_used_mem = used_share(mem - rows[at, HIGH_MEM] + want.mem, mem)
    most_used_cpu = used_share(cpu - low_cpu + want.cpu, cpu)
    most_used_mem = used_share(mem - low_mem + want.mem, mem)
    apart = max(least_used_cpu - most_used_mem, least_used_mem - most_used_cpu, 0.0)
    return score + int((1 - abs(apart / 2)) * 100)


@inner
def used_share(used: int, of: int) -> float:
    """Return what part of a resource is used, at most all of it."""
    return min(used / of, 1.0)


@inner
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


@inner
def _bring_up_to_date(machine: Machine, free: Free, span_of: Ints) -> None:
    """Move the nodes that have changed to where their states belong."""
    stale, rows = free.stale, free.states
    nodes = len(rows) // 2
    new = rows[0, LEFT] == 0
    for at in range(1, stale[0] + 1):
        node = stale[at]
        stale[nodes + 1 + node] = 0
        inner = at - 1 if new else remove(rows, node)
        _fill_row(machine, free, node, rows, nodes + node)
        first, last = machine.first_gpu[node], machine.first_gpu[node + 1]
        rows[nodes + node, AMOUNTS] = spans_of(free.gpu, first, last, span_of)
        insert(rows, node, _key(machine, free, node), inner)
    stale[0] = 0


@inner
def _key(machine: Machine, free: Free, node: int) -> int:
    gpus = machine.first_gpu[node + 1] - machine.first_gpu[node]
    return key_of(
        machine.kind[node], free.cpu[node], free.mem[node], free.gpu_sum[node], machine.cpu[node],
        machine.mem[node], gpus * GPU,
    )  # fmt: skip


@inner
def _fill_row(machine: Machine, free: Free, node: int, rows: Ints, at: int) -> None:
    rows[at, KIND] = machine.kind[node]
    rows[at, FIRST] = node
    rows[at, LOW_CPU] = rows[at, HIGH_CPU] = free.cpu[node]
    rows[at, LOW_MEM] = rows[at, HIGH_MEM] = free.mem[node]
    rows[at, LOW_WHOLE] = rows[at, HIGH_WHOLE] = free.whole[node]
    rows[at, LOW_WIDEST] = rows[at, HIGH_WIDEST] = free.widest[node]
    rows[at, LOW_GPU] = free.gpu_sum[node]
    rows[at, LOW_ASKED_CPU] = free.asked_cpu[node]
    rows[at, LOW_ASKED_MEM] = free.asked_mem[node]
