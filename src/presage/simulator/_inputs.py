"""The engine's own arrays, made from jobs and nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.simulator._cluster import GPU, Machine
from presage.simulator._fragmentation import Typical
from presage.simulator._placed import Demands

if TYPE_CHECKING:
    from presage.simulator.jobs import IntArray
    from presage.simulator.nodes import Nodes, PlacedJobs

MOST_TYPICAL = 256
"""How many kinds of tasks, the most frequent first, stand for the workload where fragmentation is computed."""
_MEMORY_CELLS = 2_000_000


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


def typical_of(jobs: PlacedJobs, remembered: tuple[int, int] = (0, 0)) -> Typical:
    """Return the most frequent kinds of tasks that want GPUs.

    `remembered` is the number of shapes of jobs and of nodes for which descents are to keep what they computed,
    as far as the memory set aside for it goes.
    """
    wanting = jobs.select(np.flatnonzero(jobs.gpus + jobs.gpu_milli))
    kinds, example, kind = np.unique(_numbered(*_wants(wanting)), return_index=True, return_inverse=True)
    weight = np.bincount(kind, wanting.tasks, minlength=len(kinds)).astype(np.int64)
    most = np.argsort(-weight, kind="stable")[:MOST_TYPICAL]
    tasks = wanting.select(example[most])
    levels, level = np.unique(np.where(tasks.gpu_milli > 0, tasks.gpu_milli, GPU), return_inverse=True)
    shapes, nodes = remembered
    cells = (max(min(shapes, _MEMORY_CELLS // max(nodes, 1)), 1), nodes)
    return Typical(
        cpu=tasks.cpu_milli,
        mem=tasks.mem_mib,
        gpus=tasks.gpus,
        share=tasks.gpu_milli,
        types=tasks.gpu_types,
        features=tasks.features,
        weight=weight[most],
        level=level.astype(np.int64),
        levels=levels.astype(np.int64),
        slot_shape=np.full(cells[0], -1, np.int64),
        version=np.full(cells, -1, np.int64),
        growth=np.zeros(cells, np.int64),
        mask=np.zeros(cells, np.int64),
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
