"""The engine's own arrays, made from jobs and nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.simulator._cluster import COLUMNS, CPU, FEATURES, GPU, MEM, TYPES, WHOLE, WIDEST, Machine
from presage.simulator._demands import Demands
from presage.simulator._fragmentation import Typical
from presage.simulator._waiting import Waiting, no_waiting

if TYPE_CHECKING:
    from presage.simulator.jobs import IntArray
    from presage.simulator.nodes import Nodes, PlacedJobs

MOST_TYPICAL = 256
"""How many kinds of tasks, the most frequent first, stand for the workload where fragmentation is computed."""
_MOST_SPANS = 60


def machine_of(nodes: Nodes) -> Machine:
    """Return the nodes for the engine."""
    top = np.array([nodes.cpu_milli.max(), nodes.mem_mib.max(), nodes.gpus.max() * GPU], np.int64)
    return Machine(
        cpu=owned(nodes.cpu_milli),
        mem=owned(nodes.mem_mib),
        first_gpu=offsets(nodes.gpus),
        type_bit=owned(nodes.type_bit),
        features=owned(nodes.features),
        rack=owned(nodes.rack),
        top=np.maximum(top, 1),
        kind=_numbered(nodes.cpu_milli, nodes.mem_mib, nodes.gpus, nodes.type_bit, nodes.features),
        by_rack=np.argsort(nodes.rack, kind="stable"),
        first_of_rack=offsets(np.bincount(nodes.rack)),
    )


def demands_of(jobs: PlacedJobs) -> Demands:
    """Return what jobs want for the engine."""
    return Demands(
        tasks=owned(jobs.tasks),
        cpu=owned(jobs.cpu_milli),
        mem=owned(jobs.mem_mib),
        gpus=owned(jobs.gpus),
        share=owned(jobs.gpu_milli),
        types=owned(jobs.gpu_types),
        features=owned(jobs.features),
        shape=_numbered(jobs.tasks, *_wants(jobs)),
    )


def waiting_of(demands: Demands, rank: IntArray) -> Waiting:
    """Return the state in which none of these jobs waits yet."""
    slot = np.empty(len(rank), np.int64)
    slot[np.lexsort((rank, demands.shape))] = np.arange(len(rank))
    wants = np.zeros((int(demands.shape.max()) + 1, COLUMNS), np.int64)
    for column, amounts in (
        (CPU, demands.cpu), (MEM, demands.mem), (WHOLE, demands.gpus), (WIDEST, demands.share),
        (TYPES, demands.types), (FEATURES, demands.features),
    ):  # fmt: skip
        wants[demands.shape, column] = amounts
    return no_waiting(demands.shape, rank, slot, wants)


def typical_of(jobs: PlacedJobs) -> Typical:
    """Return the most frequent kinds of tasks that want GPUs."""
    wanting = jobs.select(np.flatnonzero(jobs.gpus + jobs.gpu_milli))
    kinds, example, kind = np.unique(_numbered(*_wants(wanting)), return_index=True, return_inverse=True)
    weight = np.bincount(kind, wanting.tasks, minlength=len(kinds)).astype(np.int64)
    most = np.argsort(-weight, kind="stable")[:MOST_TYPICAL]
    bound = _numbered(wanting.gpu_types[example[most]], wanting.features[example[most]])
    most = most[np.argsort(bound, kind="stable")]
    tasks = wanting.select(example[most])
    levels, level = np.unique(np.where(tasks.gpu_milli > 0, tasks.gpu_milli, GPU), return_inverse=True)
    low = np.unique(np.concatenate(([0], levels[:: len(levels) // _MOST_SPANS + 1], [GPU])))
    wants = (tasks.cpu_milli, tasks.mem_mib, tasks.gpus, tasks.gpu_milli)
    return Typical(
        tasks=np.stack([*wants, weight[most], level, tasks.gpu_types, tasks.features], axis=1).astype(np.int64),
        first=offsets(np.bincount(bound)),
        levels=levels.astype(np.int64),
        total=int(weight[most].sum()),
        span_of=np.searchsorted(low, np.arange(GPU + 1), side="right") - 1,
        spans=np.stack([low, np.append(low[1:] - 1, GPU)], axis=1).astype(np.int64),
        scratch=np.zeros((2, len(levels)), np.int64),
    )


def owned(column: IntArray) -> IntArray:
    """Return a copy: code would be compiled once more for arrays that may not be written to."""
    return np.array(column, np.int64)


def offsets(counts: IntArray) -> IntArray:
    """Return where each group begins when groups of these sizes lie one behind the other, and where all end."""
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))


def _wants(jobs: PlacedJobs) -> tuple[IntArray, ...]:
    return jobs.cpu_milli, jobs.mem_mib, jobs.gpus, jobs.gpu_milli, jobs.gpu_types, jobs.features


def _numbered(*columns: IntArray) -> IntArray:
    """Return a number from 0 for each row, the same for rows that are equal in all columns."""
    order = np.lexsort(columns)
    changed = np.zeros(len(order), np.bool_)
    for column in columns:
        changed[1:] |= np.diff(column[order]) != 0
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(changed)
    return numbers
