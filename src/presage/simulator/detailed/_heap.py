"""A heap of jobs by instant, in which a job's instant can be changed and a job can be taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._structures import NEVER
from presage.simulator.detailed._compiling import compiled, lean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

_ABSENT = -1


class Heap(NamedTuple):
    """Jobs in heap order of (instant, number); one of equal instants goes by the lower number."""

    jobs: Ints
    where: Ints
    """Per job its place in `jobs`, or -1."""
    instant: Ints
    """Per job."""
    length: Ints
    """One entry: how many jobs there are."""


@compiled
def empty_heap(jobs: int) -> Heap:
    """Return a heap that can take jobs 0 to `jobs`."""
    return Heap(np.empty(jobs, np.int64), np.full(jobs, _ABSENT), np.empty(jobs, np.int64), np.zeros(1, np.int64))


@lean
def first_instant(heap: Heap) -> int:
    """Return the earliest instant, or NEVER."""
    return heap.instant[heap.jobs[0]] if heap.length[0] > 0 else NEVER


@lean
def push(heap: Heap, job: int, instant: int) -> None:
    """Add a job, or change its instant if it is there."""
    heap.instant[job] = instant
    at = heap.where[job]
    if at == _ABSENT:
        at = heap.length[0]
        heap.length[0] += 1
        heap.jobs[at] = job
        heap.where[job] = at
    _sink(heap, _rise(heap, at))


@lean
def pop(heap: Heap) -> int:
    """Take out the job with the earliest instant and return it."""
    job = heap.jobs[0]
    discard(heap, job)
    return int(job)


@lean
def discard(heap: Heap, job: int) -> None:
    """Take out a job if it is there."""
    at = heap.where[job]
    if at == _ABSENT:
        return
    heap.where[job] = _ABSENT
    heap.length[0] -= 1
    last = heap.length[0]
    if at < last:
        heap.jobs[at] = heap.jobs[last]
        heap.where[heap.jobs[at]] = at
        _sink(heap, _rise(heap, at))


@lean
def _before(heap: Heap, one: int, other: int) -> bool:
    if heap.instant[one] != heap.instant[other]:
        return bool(heap.instant[one] < heap.instant[other])
    return one < other


@lean
def _rise(heap: Heap, at: int) -> int:
    while at > 0 and _before(heap, heap.jobs[at], heap.jobs[(at - 1) >> 1]):
        _swap(heap, at, (at - 1) >> 1)
        at = (at - 1) >> 1
    return at


@lean
def _sink(heap: Heap, at: int) -> None:
    while True:
        child = 2 * at + 1
        if child >= heap.length[0]:
            return
        if child + 1 < heap.length[0] and _before(heap, heap.jobs[child + 1], heap.jobs[child]):
            child += 1
        if not _before(heap, heap.jobs[child], heap.jobs[at]):
            return
        _swap(heap, at, child)
        at = child


@lean
def _swap(heap: Heap, one: int, other: int) -> None:
    heap.jobs[one], heap.jobs[other] = heap.jobs[other], heap.jobs[one]
    heap.where[heap.jobs[one]] = one
    heap.where[heap.jobs[other]] = other
