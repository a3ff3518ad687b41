"""An index of a long queue: the first job in line that is small and short enough, without looking at the others.

The distinct sizes are the leaves of a binary tree. Those up to some size are all below a few of its nodes, one per
level at most, and each of these a left child. So every left child has a list of its jobs in the order of the
queue, with a tree of least plans over it, in which the first that is short enough is found by descending. A job
stands in half as many lists as the tree of sizes has levels, on average.

The index knows a fixed set of jobs, those that wait and those that come next. It is made anew for others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from presage.simulator._structures import NEVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Shorts = NDArray[np.int32]

BLOCK = 8
"""Places that share a leaf of a tree of least plans: a line of the cache."""


class Backlog(NamedTuple):
    """All lists one behind the other, and all their trees."""

    sizes: Ints
    """The distinct sizes, ascending."""
    lists: Ints
    """By node of the tree of sizes, the place where its list begins."""
    trees: Ints
    """By node, where its tree begins: in heap order, half of it leaves, each a block of places."""
    jobs: Shorts
    """By place."""
    plans: Ints
    """By place; NEVER where nobody waits."""
    least: Ints
    """The least plans, tree behind tree."""
    nodes: Ints
    """By number of a job, the leaf of its size."""
    own: Ints
    """By number, where its places begin."""
    places: Shorts
    """The places of each job, from the leaf of its size upwards."""


@njit(cache=True, nogil=True)
def index_queue(members: Ints, arrived: int, size: Ints, plan: Ints, numbers: Ints) -> Backlog:
    """Return the index of `members`, which are in the order of the queue; jobs from `arrived` on do not wait yet.

    `numbers` is filled with the number of each member, by which the index knows it.
    """
    sizes = np.unique(size[members])
    top = 1
    while top <= len(sizes):
        top *= 2
    nodes = top + np.searchsorted(sizes, size[members])
    lists, trees, total = _lay_out(nodes, top)
    filled = lists.copy()
    jobs = np.empty(lists[-1], np.int32)
    plans = np.full(lists[-1], NEVER)
    least = np.full(trees[-1], NEVER)
    own = np.zeros(len(members) + 1, np.int64)
    places = np.empty(total, np.int32)
    for number in range(len(members)):
        job = members[number]
        numbers[job] = number
        at = own[number]
        node = nodes[number]
        while node > 1:
            if node & 1 == 0:
                place = filled[node]
                filled[node] += 1
                jobs[place] = job
                places[at] = place
                at += 1
                if job < arrived:
                    plans[place] = plan[job]
                    leaf = (trees[node] + trees[node + 1]) // 2 + (place - lists[node]) // BLOCK
                    least[leaf] = min(least[leaf], plan[job])
            node >>= 1
        own[number + 1] = at
    for node in range(2 * top):
        for at in range((trees[node + 1] - trees[node]) // 2 - 1, 0, -1):
            left = trees[node] + 2 * at
            least[trees[node] + at] = min(least[left], least[left + 1])
    return Backlog(sizes, lists, trees, jobs, plans, least, nodes, own, places)


@njit(cache=True, nogil=True)
def _lay_out(nodes: Ints, top: int) -> tuple[Ints, Ints, int]:
    """Return where the list and the tree of each node begin, and the places that all jobs have together."""
    counts = np.zeros(2 * top, np.int64)
    for leaf in nodes:
        node = leaf
        while node > 1:
            counts[node] += (node & 1) ^ 1
            node >>= 1
    lists = np.zeros(2 * top + 1, np.int64)
    trees = np.zeros(2 * top + 1, np.int64)
    for node in range(2 * top):
        blocks = -(-counts[node] // BLOCK)
        leaves = 1 if blocks else 0
        while leaves < blocks:
            leaves *= 2
        lists[node + 1] = lists[node] + blocks * BLOCK
        trees[node + 1] = trees[node] + 2 * leaves
    return lists, trees, counts.sum()


@njit(cache=True, nogil=True)
def set_plan(
    lists: Ints,
    trees: Ints,
    plans: Ints,
    least: Ints,
    nodes: Ints,
    own: Ints,
    places: Shorts,
    number: int,
    plan: int,
) -> None:
    """Let a job wait with this plan; NEVER takes it out of the queue."""
    node = nodes[number]
    at = own[number]
    while node > 1:
        if node & 1 == 0:
            place = places[at]
            at += 1
            plans[place] = plan
            first = place - place % BLOCK
            minimum = plans[first]
            for other in range(first + 1, first + BLOCK):
                minimum = min(minimum, plans[other])
            tree = trees[node]
            leaves = (trees[node + 1] - tree) // 2
            above = leaves + (place - lists[node]) // BLOCK
            while above >= 1 and least[tree + above] != minimum:
                least[tree + above] = minimum
                minimum = min(minimum, least[tree + (above ^ 1)])
                above >>= 1
        node >>= 1


@njit(cache=True, nogil=True)
def find_job(
    kinds: int,
    lists: Ints,
    trees: Ints,
    jobs: Shorts,
    plans: Ints,
    least: Ints,
    window: int,
    rank: Ints,
    bound: int,
) -> int:
    """Return the first rank below `bound` of a job of the `kinds` smallest sizes within `window`, or `bound`."""
    right = len(lists) // 2 + kinds
    while right > 1:
        node = right - 1
        tree = trees[node]
        # All sizes that fit are below the left neighbours of the path from the first that does not.
        if right & 1 and trees[right] > tree and least[tree + 1] <= window:
            leaves = (trees[right] - tree) // 2
            at = 1
            while at < leaves:
                at *= 2
                if least[tree + at] > window:
                    at += 1
            place = lists[node] + (at - leaves) * BLOCK
            while plans[place] > window:
                place += 1
            bound = min(bound, rank[jobs[place]])
        right >>= 1
    return bound
