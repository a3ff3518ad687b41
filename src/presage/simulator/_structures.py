"""Data structures of the engine: a heap of ends, the running jobs by planned end, and the waiting jobs by rank.

Arrays in, arrays out, no Python objects; lengths are kept by the caller. All are inlined into the event loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

NEVER = 1 << 62
GRACE_MS = 60_000


@njit(inline="always")
def push_end(ends: Ints, jobs: Ints, count: int, end: int, job: int) -> None:
    """Add (end, job) to the heap of `count` entries."""
    at = count
    while at > 0:
        parent = (at - 1) >> 1
        if ends[parent] <= end:
            break
        ends[at] = ends[parent]
        jobs[at] = jobs[parent]
        at = parent
    ends[at] = end
    jobs[at] = job


@njit(inline="always")
def pop_end(ends: Ints, jobs: Ints, count: int) -> None:
    """Remove the earliest end from the heap; `count` is the number of entries that remain."""
    end = ends[count]
    job = jobs[count]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and ends[child + 1] < ends[child]:
            child += 1
        if ends[child] >= end:
            break
        ends[at] = ends[child]
        jobs[at] = jobs[child]
        at = child
    ends[at] = end
    jobs[at] = job


@njit(inline="always")
def insert_running(planned: Ints, jobs: Ints, count: int, end: int, job: int) -> None:
    """Insert a running job behind all that are planned to end no later."""
    at = count
    while at > 0 and planned[at - 1] > end:
        planned[at] = planned[at - 1]
        jobs[at] = jobs[at - 1]
        at -= 1
    planned[at] = end
    jobs[at] = job


@njit(inline="always")
def remove_running(planned: Ints, jobs: Ints, count: int, end: int, job: int) -> None:
    """Remove a running job; `count` is the number that remain."""
    low = 0
    high = count + 1
    while low < high:
        middle = (low + high) >> 1
        if planned[middle] < end:
            low = middle + 1
        else:
            high = middle
    while jobs[low] != job:
        low += 1
    for at in range(low, count):
        planned[at] = planned[at + 1]
        jobs[at] = jobs[at + 1]


@njit(inline="always")
def renewed_end(now: int, start: int, limit: int) -> int:
    """Return the new planned end of a running job that has outlived its plan."""
    return max(start + min(limit, 2 * (now - start) + GRACE_MS), now + 1)


@njit(inline="always")
def begin_running(
    ends: Ints,
    ending: Ints,
    planned: Ints,
    holding: Ints,
    planned_end: Ints,
    count: int,
    job: int,
    end: int,
    plan: int,
) -> None:
    """Add a job that ends at `end` and is planned to end at `plan` to the `count` that run."""
    planned_end[job] = plan
    push_end(ends, ending, count, end, job)
    insert_running(planned, holding, count, plan, job)


@njit(inline="always")
def end_first(ends: Ints, ending: Ints, planned: Ints, holding: Ints, planned_end: Ints, count: int) -> int:
    """Remove the running job that ends first, and return it; `count` is the number that remain."""
    job = ending[0]
    pop_end(ends, ending, count)
    remove_running(planned, holding, count, planned_end[job], job)
    return int(job)


@njit(inline="always")
def renew_plans(
    planned: Ints, holding: Ints, planned_end: Ints, count: int, now: int, start: Ints, limit: Ints
) -> bool:
    """Plan the running jobs anew that have outlived their plans; return whether there were any."""
    renewed = False
    while count > 0 and planned[0] <= now:
        job = holding[0]
        end = renewed_end(now, start[job], limit[job])
        remove_running(planned, holding, count - 1, planned_end[job], job)
        insert_running(planned, holding, count - 1, end, job)
        planned_end[job] = end
        renewed = True
    return renewed


@njit(inline="always")
def smallest_of(queue: Ints, waiting: int, size: Ints) -> int:
    """Return the size of the smallest of the waiting jobs, NEVER if there are none."""
    smallest = NEVER
    for at in range(waiting):
        smallest = min(smallest, size[queue[at]])
    return smallest


@njit(inline="always")
def close_ranks(queue: Ints, queued: NDArray[np.bool_], waiting: int) -> int:
    """Take those who are not `queued` any more out of the queue; return its length. The order stays as it is."""
    gone = 0
    for at in range(waiting):
        if queued[queue[at]]:
            queue[at - gone] = queue[at]
        else:
            gone += 1
    return waiting - gone


@njit(inline="always")
def set_leaf(sizes: Ints, plans: Ints, leaves: int, rank: int, size: int, plan: int) -> None:
    """Set the leaf of `rank` in the tree of least sizes and plans; (NEVER, NEVER) empties it."""
    at = rank + leaves
    sizes[at] = size
    plans[at] = plan
    at >>= 1
    while at >= 1:
        least_size = min(sizes[2 * at], sizes[2 * at + 1])
        least_plan = min(plans[2 * at], plans[2 * at + 1])
        if least_size == sizes[at] and least_plan == plans[at]:
            break
        sizes[at] = least_size
        plans[at] = least_plan
        at >>= 1


@njit(inline="always")
def set_size(sizes: Ints, leaves: int, rank: int, size: int) -> None:
    """Set the leaf of `rank` in a tree of least sizes alone; NEVER empties it."""
    at = rank + leaves
    sizes[at] = size
    at >>= 1
    while at >= 1:
        least = min(sizes[2 * at], sizes[2 * at + 1])
        if least == sizes[at]:
            break
        sizes[at] = least
        at >>= 1


@njit(inline="always")
def find_leaf(
    sizes: Ints, plans: Ints, leaves: int, rank: int, free: int, window: int, extra: int
) -> tuple[int, int]:
    """Return the first rank at or behind `rank` whose job may start, or -1, and how many nodes were looked at.

    It may if it fits into `free` and either ends within `window` or fits into `extra`. A subtree whose least
    size and least plan already fail is skipped whole; one in which no job has both is entered in vain.
    """
    at = rank + leaves
    visited = 0
    while True:
        visited += 1
        if sizes[at] <= free and (plans[at] <= window or sizes[at] <= extra):
            if at >= leaves:
                return at - leaves, visited
            at = 2 * at
            continue
        while at & 1:
            at >>= 1
        if at == 0:
            return -1, visited
        at += 1


@njit(inline="always")
def find_next(sizes: Ints, leaves: int, rank: int) -> int:
    """Return the first rank at or behind `rank` whose job waits; there must be one."""
    at = rank + leaves
    while True:
        if sizes[at] < NEVER:
            if at >= leaves:
                return at - leaves
            at = 2 * at
            continue
        while at & 1:
            at >>= 1
        at += 1


@njit(inline="always")
def find_size(sizes: Ints, leaves: int, size: int) -> int:
    """Return the first rank of all whose job needs at most `size`, or -1."""
    if sizes[1] > size:
        return -1
    at = 1
    while at < leaves:
        at *= 2
        if sizes[at] > size:
            at += 1
    return at - leaves


@njit(inline="always")
def find_shortest(sizes: Ints, leaves: int, order: Ints, plan: Ints, free: int, window: int, extra: int) -> int:
    """Return what `find_leaf` would from rank 0 on, if ranks go by plan: no subtree is entered in vain then."""
    found = find_size(sizes, leaves, free)
    if found >= 0 and plan[order[found]] > window:
        found = find_size(sizes, leaves, min(free, extra))
    return found


@njit(inline="always")
def reserve(planned: Ints, jobs: Ints, count: int, sizes: Ints, free: int, size: int) -> tuple[int, int]:
    """Return when a blocked job of `size` fits (the shadow time) and how many processors are left over then."""
    at = 0
    while free < size:
        free += sizes[jobs[at]]
        at += 1
    shadow = planned[at - 1]
    while at < count and planned[at] == shadow:
        free += sizes[jobs[at]]
        at += 1
    return shadow, free - size
