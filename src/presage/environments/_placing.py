"""What is seen of clusters where nodes or gangs are chosen, and one choice on each of many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.environments._observing import LOG_SCALE, Known
from presage.simulator._cluster import GPU, MOST, SCALE, Machine
from presage.simulator._compiling import inner, lean
from presage.simulator._node_moments import (
    DOWN,
    JOBS,
    NOW,
    PLACED,
    PLACING,
    RUNNING,
    SLOTS,
    WAITING,
    Clusters,
    is_over,
)
from presage.simulator.node_choices import admit, has_room_on, may_wait, place_member, two_nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.simulator._fragmentation import Typical

    Ints = NDArray[np.int64]

PLACEMENT_FEATURES = (
    "cpu", "mem", "gpu", "whole", "widest", "free_share", "fits", "want_cpu", "want_mem", "want_gpu", "members",
    "estimate", "waiting", "waited",
)  # fmt: skip
"""What is observed of each node. Free on it: processors, memory, GPUs and unused GPUs, as shares of the largest
node; the most that is free of one GPU; the mean of the first three, which best-fit goes by; whether the member
fits. The rest is of the member and the same in every row: what it wants, as shares of the largest node; how many
members of its gang are to be placed, its estimate and how long it has waited, and how many jobs wait, as
logarithms over 16."""
KUBE_FEATURES = (
    "waited", "estimate", "members", "want_cpu", "want_mem", "want_gpu", "size", "slowdown", "fits", "free_cpu",
    "free_mem", "free_gpu", "down", "waiting", "running", "is_there",
)  # fmt: skip
"""What is observed of each waiting gang: how long it has waited, its estimate and members, as logarithms over 16;
what a member wants, as shares of the largest node; the gang's share of the cluster; its slowdown so far as a
logarithm over 16; whether all of it fits and delays no gang with an override. The rest is of the cluster and the
same in every row: the free shares of its processors, memory and GPUs, the share of nodes that have failed, and how
many gangs wait and run, as logarithms over 16."""


@lean
def observe_nodes(c: Clusters, machine: Machine, known: Known, at: int, out: np.ndarray, mask: np.ndarray) -> None:
    """Write what is seen of each node, and which have room for the next member."""
    facts, top, tree = c.facts[at], machine.top, c.tree[at]
    job = c.queue[at, facts[PLACING]]
    want_cpu = np.float32(c.want_cpu[at, job] / top[0])
    want_mem = np.float32(c.want_mem[at, job] / top[1])
    want_gpu = np.float32((c.want_gpus[at, job] * GPU + c.want_share[at, job]) / top[2])
    members = np.float32(np.log1p(c.tasks[at, job] - facts[PLACED]) * LOG_SCALE)
    waiting = np.float32(np.log1p(facts[WAITING]) * LOG_SCALE)
    waited = np.float32(np.log1p((facts[NOW] - c.submit[at, job]) / 1000) * LOG_SCALE)
    leaves = len(tree) // 2
    for node in range(len(out)):
        mask[node] = has_room_on(c, at, node)
        out[node, 0] = max(0, c.cpu[at, node]) / top[0]
        out[node, 1] = c.mem[at, node] / top[1]
        out[node, 2] = c.gpu_sum[at, node] / top[2]
        out[node, 3] = c.whole[at, node] * GPU / top[2]
        out[node, 4] = c.widest[at, node] / GPU
        out[node, 5] = max(0, tree[leaves + node, MOST]) / (3 * SCALE)
        out[node, 6] = mask[node]
        out[node, 7] = want_cpu
        out[node, 8] = want_mem
        out[node, 9] = want_gpu
        out[node, 10] = members
        out[node, 11] = known.logs[at, job, 0]
        out[node, 12] = waiting
        out[node, 13] = waited


@lean
def step_placing(
    c: Clusters, machine: Machine, typical: Typical, known: Known, actions: Ints, backfilling: int,
    out: np.ndarray, mask: np.ndarray, costs: np.ndarray, done: np.ndarray,
) -> None:  # fmt: skip
    """Put one member on the node chosen on every cluster; see `presage.environments._observing.step_all`."""
    for at in range(len(actions)):
        costs[at] = 0
        if is_over(c, at):
            done[at] = True
            continue
        node = actions[at]
        if not has_room_on(c, at, node):
            node = two_nodes(c, at)[0]
        done[at] = not place_member(c, machine, typical, at, node, backfilling)
        costs[at] = _take_cost(c, at)
        if done[at]:
            out[at], mask[at] = 0, False
        else:
            observe_nodes(c, machine, known, at, out[at], mask[at])


@inner
def _take_cost(c: Clusters, at: int) -> float:
    cost = c.cost[at] / c.facts[at, JOBS]
    c.cost[at] = 0
    return float(cost)


@inner
def _free_share(amounts: Ints, of: Ints) -> np.float32:
    free, total = 0, 0
    for node in range(len(amounts)):
        free += max(0, amounts[node])
        total += of[node]
    return np.float32(free / max(total, 1))


@lean
def observe_gangs(c: Clusters, machine: Machine, known: Known, at: int, out: np.ndarray, mask: np.ndarray) -> None:
    """Write what is seen of the first gangs in the queue, and which may be admitted; the last is nobody."""
    facts, top = c.facts[at], machine.top
    shown = min(facts[WAITING], len(out))
    free_cpu, free_mem = _free_share(c.cpu[at], machine.cpu), _free_share(c.mem[at], machine.mem)
    gpus = 0
    for node in range(c.gpu_sum.shape[1]):
        gpus += c.gpu_sum[at, node]
    free_gpu = np.float32(gpus / max(c.gpu.shape[1] * GPU, 1))
    down = np.float32(facts[DOWN] / c.cpu.shape[1])
    waiting = np.float32(np.log1p(facts[WAITING]) * LOG_SCALE)
    running = np.float32(np.log1p(facts[RUNNING]) * LOG_SCALE)
    for k in range(shown):
        job = c.queue[at, k]
        waited_s = np.float32((facts[NOW] - c.submit[at, job]) / 1000)
        out[k, 0] = np.log1p(waited_s) * LOG_SCALE
        out[k, 1] = known.logs[at, job, 0]
        out[k, 2] = np.log1p(c.tasks[at, job]) * LOG_SCALE
        out[k, 3] = c.want_cpu[at, job] / top[0]
        out[k, 4] = c.want_mem[at, job] / top[1]
        out[k, 5] = (c.want_gpus[at, job] * GPU + c.want_share[at, job]) / top[2]
        out[k, 6] = known.logs[at, job, 1]
        out[k, 7] = np.log1p(waited_s / max(known.estimate_s[at, job], np.float32(10))) * LOG_SCALE
        out[k, 8] = c.fits[at, k]
        out[k, 9] = free_cpu
        out[k, 10] = free_mem
        out[k, 11] = free_gpu
        out[k, 12] = down
        out[k, 13] = waiting
        out[k, 14] = running
        out[k, 15] = 1
        mask[k] = c.fits[at, k] == 1
    k = shown
    while k < len(out) and out[k, 15] != 0:  # behind the first empty row all are empty
        out[k, :] = 0
        mask[k] = False
        k += 1
    mask[len(out)] = may_wait(c, at)


@lean
def step_admitting(
    c: Clusters, machine: Machine, typical: Typical, known: Known, actions: Ints, out: np.ndarray,
    mask: np.ndarray, costs: np.ndarray, done: np.ndarray,
) -> None:  # fmt: skip
    """Admit one gang, or nobody, on every cluster; see `presage.environments._observing.step_all`."""
    for at in range(len(actions)):
        costs[at] = 0
        if is_over(c, at):
            done[at] = True
            continue
        slot = actions[at]
        slots = c.facts[at, SLOTS]
        if not (0 <= slot < slots and c.fits[at, slot]) and not (slot == slots and may_wait(c, at)):
            slot = 0
            while not c.fits[at, slot]:
                slot += 1
        done[at] = not admit(c, machine, typical, at, slot)
        costs[at] = _take_cost(c, at)
        if done[at]:
            out[at], mask[at] = 0, False
        else:
            observe_gangs(c, machine, known, at, out[at], mask[at])
