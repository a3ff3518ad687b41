"""Very many running jobs by planned end, in pages of limited length: none is moved far when another comes or goes.

Entries are (planned end, job), ascending within a page and from page to page. Neighbouring
pages with few jobs between them become one.

The set is three arrays, as `no_pages` makes them: `planned` and `jobs` have PAGE entries for every page, `book`
has the rows below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

PAGE = 512
PAGES, LENGTHS, HELD, USED = 0, 1, 2, 3
"""Rows of the book: pages in order, the unused behind them; by page its entries and processors; pages in use."""


@njit(cache=True, nogil=True)
def no_pages(most: int) -> tuple[Ints, Ints, Ints]:
    """Return a set that can hold `most` jobs, empty."""
    # Two neighbours hold more than half a page of jobs, and a split needs one page to spare.
    pages = 4 * most // PAGE + 3
    book = np.zeros((4, pages), np.int64)
    book[PAGES] = np.arange(pages)
    book[USED, 0] = 1
    return np.empty(pages * PAGE, np.int64), np.empty(pages * PAGE, np.int64), book


@njit(cache=True, nogil=True)
def insert_paged(planned: Ints, jobs: Ints, book: Ints, end: int, job: int, sizes: Ints) -> None:
    """Add a job that is planned to end at `end`."""
    page = book[PAGES, 0]
    if book[USED, 0] > 1 or book[LENGTHS, page] == PAGE:
        page = _page_with_room(planned, jobs, book, end, job, sizes)
    first = page * PAGE
    at = first + book[LENGTHS, page]
    while at > first and (planned[at - 1] > end or (planned[at - 1] == end and jobs[at - 1] > job)):
        planned[at] = planned[at - 1]
        jobs[at] = jobs[at - 1]
        at -= 1
    planned[at] = end
    jobs[at] = job
    book[LENGTHS, page] += 1
    book[HELD, page] += sizes[job]


@njit(cache=True, nogil=True)
def remove_paged(planned: Ints, jobs: Ints, book: Ints, end: int, job: int, sizes: Ints) -> None:
    """Remove a job that was planned to end at `end`."""
    index = 0
    if book[USED, 0] > 1:
        index = _find_page(planned, jobs, book, end, job)
    page = book[PAGES, index]
    low = page * PAGE
    last = low + book[LENGTHS, page] - 1
    high = last
    while low < high:
        middle = (low + high) >> 1
        if planned[middle] < end or (planned[middle] == end and jobs[middle] < job):
            low = middle + 1
        else:
            high = middle
    for at in range(low, last):
        planned[at] = planned[at + 1]
        jobs[at] = jobs[at + 1]
    book[LENGTHS, page] -= 1
    book[HELD, page] -= sizes[job]
    if book[USED, 0] > 1:
        _join(planned, jobs, book, index, sizes)
        _join(planned, jobs, book, index - 1, sizes)


@njit(cache=True, nogil=True)
def reserve_paged(planned: Ints, jobs: Ints, book: Ints, sizes: Ints, free: int, size: int) -> tuple[int, int]:
    """Return when a blocked job of `size` fits (the shadow time) and how many processors are left over then."""
    index = 0
    while free + book[HELD, book[PAGES, index]] < size:
        free += book[HELD, book[PAGES, index]]
        index += 1
    page = book[PAGES, index]
    at = page * PAGE
    while free < size:
        free += sizes[jobs[at]]
        at += 1
    shadow = planned[at - 1]
    while True:
        end = page * PAGE + book[LENGTHS, page]
        while at < end and planned[at] == shadow:
            free += sizes[jobs[at]]
            at += 1
        index += 1
        if at < end or index == book[USED, 0]:
            return shadow, free - size
        page = book[PAGES, index]
        at = page * PAGE
        last = at + book[LENGTHS, page] - 1
        if planned[last] == shadow:
            free += book[HELD, page]
            at = last + 1


@njit(cache=True, nogil=True)
def _find_page(planned: Ints, jobs: Ints, book: Ints, end: int, job: int) -> int:
    """Return the number in order of the last page that begins at or before (end, job), or of the first."""
    low = 0
    high = book[USED, 0] - 1
    while low < high:
        middle = (low + high + 1) >> 1
        first = book[PAGES, middle] * PAGE
        if planned[first] < end or (planned[first] == end and jobs[first] <= job):
            low = middle
        else:
            high = middle - 1
    return low


@njit(cache=True, nogil=True)
def _page_with_room(planned: Ints, jobs: Ints, book: Ints, end: int, job: int, sizes: Ints) -> int:
    """Return the page that (end, job) belongs to, which is split if it is full."""
    index = _find_page(planned, jobs, book, end, job)
    page = book[PAGES, index]
    if book[LENGTHS, page] < PAGE:
        return int(page)
    used = book[USED, 0]
    fresh = book[PAGES, used]
    for at in range(used, index + 1, -1):
        book[PAGES, at] = book[PAGES, at - 1]
    book[PAGES, index + 1] = fresh
    book[USED, 0] = used + 1
    _move(planned, jobs, book, page, PAGE // 2, fresh, sizes)
    return int(book[PAGES, _find_page(planned, jobs, book, end, job)])


@njit(cache=True, nogil=True)
def _join(planned: Ints, jobs: Ints, book: Ints, index: int, sizes: Ints) -> None:
    """Make one page of this and the next in order if they have few entries, or if one has none."""
    used = book[USED, 0]
    if index < 0 or index + 1 >= used:
        return
    page = book[PAGES, index]
    spare = book[PAGES, index + 1]
    few = book[LENGTHS, page] + book[LENGTHS, spare] <= PAGE // 2
    if not few and book[LENGTHS, page] > 0 and book[LENGTHS, spare] > 0:
        return
    _move(planned, jobs, book, spare, 0, page, sizes)
    for at in range(index + 1, used - 1):
        book[PAGES, at] = book[PAGES, at + 1]
    book[PAGES, used - 1] = spare
    book[USED, 0] = used - 1


@njit(cache=True, nogil=True)
def _move(planned: Ints, jobs: Ints, book: Ints, source: int, kept: int, target: int, sizes: Ints) -> None:
    """Append the entries of a page, the first `kept` excepted, to another page."""
    for at in range(source * PAGE + kept, source * PAGE + book[LENGTHS, source]):
        into = target * PAGE + book[LENGTHS, target]
        planned[into] = planned[at]
        jobs[into] = jobs[at]
        book[LENGTHS, target] += 1
        book[HELD, target] += sizes[jobs[at]]
        book[HELD, source] -= sizes[jobs[at]]
    book[LENGTHS, source] = kept
