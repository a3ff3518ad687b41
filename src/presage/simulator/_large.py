"""The loop of `_pooled.run_static` for very long queues and very many running jobs.

The same decisions, with structures whose cost hardly grows: an index of the queue, and running jobs in pages. They
cost more per job than the plain ones, so this loop gives back when the numbers are small again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from presage.simulator._backlog import find_job, index_queue, set_plan
from presage.simulator._pages import (
    LENGTHS,
    PAGE,
    PAGES,
    USED,
    insert_paged,
    no_pages,
    remove_paged,
    reserve_paged,
)
from presage.simulator._structures import (
    NEVER,
    find_next,
    find_shortest,
    find_size,
    pop_end,
    push_end,
    renewed_end,
    set_leaf,
    set_size,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


class Large(NamedTuple):
    """When this loop takes over; it gives back when a quarter of `queue` and of `running` is left."""

    queue: int = 1024
    """Jobs in the queue before an index may pay."""
    effort: int = 256
    """Nodes of the queue's tree that a search looks at, on average, before an index is cheaper."""
    running: int = 1024
    """Running jobs before pages pay."""


class Work(NamedTuple):
    """What `run_static` is given of the jobs."""

    submit: Ints
    run: Ints
    plan: Ints
    limit: Ints
    size: Ints
    rank: Ints
    order: Ints
    short_rank: Ints
    short_order: Ints


class Progress(NamedTuple):
    """The arrays in which `run_static` keeps where it is."""

    sizes: Ints
    plans: Ints
    short_sizes: Ints
    ends: Ints
    ending: Ints
    planned: Ints
    holding: Ints
    planned_end: Ints
    start: Ints


@njit(cache=True, nogil=True)
def run_large(
    work: Work,
    progress: Progress,
    now: int,
    running: int,
    waiting: int,
    arrived: int,
    free: int,
    capacity: int,
    by_length: bool,
    ascending: bool,
    large: Large,
) -> tuple[int, int, int, int, int, int, int]:
    """Go on from a pass that is due `now` until the numbers are small again or the index is used up.

    Returns the running, waiting and arrived jobs, the free processors, and the last pass's head, shadow time and
    extra processors.
    """
    submit, run, plan, limit, size, rank, order, short_rank, short_order = work
    sizes, plans, short_sizes, ends, ending, planned, holding, planned_end, start = progress
    count = len(submit)
    leaves = len(sizes) // 2
    covered = min(count, arrived + max(waiting, running, large.running))
    while covered < count and submit[covered] == submit[covered - 1]:
        covered += 1
    entries, jobs, book = no_pages(min(capacity, running + waiting + covered - arrived))
    for at in range(running):
        insert_paged(entries, jobs, book, planned[at], holding[at], size)
    indexed = not by_length and not ascending
    numbers = np.empty(count if indexed else 0, np.int64)
    members = _members(sizes, waiting, rank[arrived:covered], order) if indexed else order[:0]
    kinds, lists, trees, listed, shorts, least, nodes, own, places = index_queue(
        members, arrived, size, plan, numbers
    )
    while True:
        head = -1
        shadow = 0
        extra = 0
        while waiting > 0:
            position = find_size(sizes, leaves, NEVER - 1) if head < 0 else head
            job = order[position]
            if head < 0 and size[job] > free:
                head = position
                if free > 0:
                    shadow, extra = reserve_paged(entries, jobs, book, size, free, size[job])
            if head >= 0:
                if free == 0:
                    break
                if by_length:
                    found = find_shortest(short_sizes, leaves, short_order, plan, free, shadow - now, extra)
                elif ascending:
                    found = find_shortest(sizes, leaves, order, plan, free, shadow - now, extra)
                else:
                    fitting = find_size(sizes, leaves, min(free, extra))
                    fitting = fitting if fitting >= 0 else count
                    small = int(np.searchsorted(kinds, free, side="right"))
                    found = find_job(small, lists, trees, listed, shorts, least, shadow - now, rank, fitting)
                if found < 0 or found == count:
                    break
                job = short_order[found]
                if now + plan[job] > shadow:
                    extra -= size[job]
            set_leaf(sizes, plans, leaves, rank[job], NEVER, NEVER)
            if by_length:
                set_size(short_sizes, leaves, short_rank[job], NEVER)
            if indexed:
                set_plan(lists, trees, shorts, least, nodes, own, places, numbers[job], NEVER)
            waiting -= 1
            start[job] = now
            free -= size[job]
            planned_end[job] = now + plan[job]
            push_end(ends, ending, running, now + run[job], job)
            insert_paged(entries, jobs, book, planned_end[job], job, size)
            running += 1
        if arrived == count and running == 0:
            break
        arrives = arrived < count and (running == 0 or submit[arrived] <= ends[0])
        if (arrives and arrived == covered) or (4 * waiting < large.queue and 4 * running < large.running):
            break
        now = submit[arrived] if arrives else ends[0]
        while running > 0 and ends[0] <= now:
            job = ending[0]
            running -= 1
            pop_end(ends, ending, running)
            remove_paged(entries, jobs, book, planned_end[job], job, size)
            free += size[job]
        first = book[PAGES, 0] * PAGE
        while running > 0 and entries[first] <= now:
            job = jobs[first]
            end = renewed_end(now, start[job], limit[job])
            remove_paged(entries, jobs, book, planned_end[job], job, size)
            insert_paged(entries, jobs, book, end, job, size)
            planned_end[job] = end
            first = book[PAGES, 0] * PAGE
        while arrived < count and submit[arrived] <= now:
            set_leaf(sizes, plans, leaves, rank[arrived], size[arrived], plan[arrived])
            if by_length:
                set_size(short_sizes, leaves, short_rank[arrived], size[arrived])
            if indexed:
                set_plan(lists, trees, shorts, least, nodes, own, places, numbers[arrived], plan[arrived])
            waiting += 1
            arrived += 1
    _leave_pages(entries, jobs, book, planned, holding)
    return running, waiting, arrived, free, head, shadow, extra


@njit(cache=True, nogil=True)
def _members(sizes: Ints, waiting: int, coming: Ints, order: Ints) -> Ints:
    """Return the jobs that wait and those whose ranks are `coming`, in the order of the queue."""
    leaves = len(sizes) // 2
    ranks = np.empty(waiting + len(coming), np.int64)
    rank = -1
    for at in range(waiting):
        rank = find_next(sizes, leaves, rank + 1)
        ranks[at] = rank
    ranks[waiting:] = coming
    return order[np.sort(ranks)]


@njit(cache=True, nogil=True)
def _leave_pages(entries: Ints, jobs: Ints, book: Ints, planned: Ints, holding: Ints) -> None:
    """Write the running jobs to two plain arrays."""
    into = 0
    for index in range(book[USED, 0]):
        page = book[PAGES, index]
        for at in range(page * PAGE, page * PAGE + book[LENGTHS, page]):
            planned[into] = entries[at]
            holding[into] = jobs[at]
            into += 1
