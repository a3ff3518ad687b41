"""The waiting jobs, by what they want.

Jobs that want the same have one shape. If one of them does not fit, none does until something is given back on a
node that then has room for a member. So a pass looks at shapes, not at jobs: those that are OPEN may fit, those
that are SHUT do not. Each shape has its jobs by rank in a stretch of its own of one tree of plans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._cluster import CPU, FEATURES, MEM, TYPES, WHOLE, WIDEST
from presage.simulator._compiling import compiled, inner
from presage.simulator._structures import NEVER, pop_end, push_end

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

IDLE, OPEN, SHUT = 0, 1, 2
ANY_PLAN = NEVER - 1


class Waiting(NamedTuple):
    """Who waits; entries per job or per shape. Lists begin with their length."""

    shape: Ints
    rank: Ints
    slot: Ints
    """Of each job: shape by shape, then by rank."""
    job_in: Ints
    """The job of each slot."""
    first_slot: Ints
    """Of each shape; one entry more than shapes."""
    plans: Ints
    """A tree over the slots: the least plan of the waiting jobs below, NEVER if there is none."""
    wants: Ints
    """What a member of each shape wants, in the columns of the tree of what is free."""
    state: Ints
    """Of each shape."""
    members: Ints
    """How many jobs of each shape wait."""
    least: Ints
    """No waiting job of a shape has a shorter plan."""
    opened: Ints
    """A list of the shapes that are OPEN, and of some that no longer are."""
    listed: Ints
    """Whether a shape is in it."""
    shut: Ints
    """A list of the shapes that are SHUT."""
    queued: Ints
    """Whether a job waits."""
    line: Ints
    """A heap of ranks, with jobs that no longer wait among them."""
    in_line: Ints
    """The jobs of the heap."""
    length: Ints
    """The length of the heap."""


@compiled
def no_waiting(shape: Ints, rank: Ints, slot: Ints, wants: Ints) -> Waiting:
    """Return the state in which nobody waits."""
    jobs = len(shape)
    shapes = len(wants)
    leaves = 1
    while leaves < jobs:
        leaves *= 2
    job_in = np.empty(jobs, np.int64)
    first_slot = np.zeros(shapes + 1, np.int64)
    for job in range(jobs):
        job_in[slot[job]] = job
        first_slot[shape[job] + 1] += 1
    per_shape = np.zeros(shapes, np.int64)
    listed = np.zeros(shapes + 1, np.int64)
    return Waiting(
        shape, rank, slot, job_in, np.cumsum(first_slot), np.full(2 * leaves, NEVER, np.int64), wants,
        per_shape.copy(), per_shape.copy(), per_shape.copy(), listed.copy(), per_shape.copy(), listed.copy(),
        np.zeros(jobs, np.int64), np.empty(jobs + 1, np.int64), np.empty(jobs + 1, np.int64),
        np.zeros(1, np.int64),
    )  # fmt: skip


@inner
def join(waiting: Waiting, job: int, plan: int) -> None:
    """Add a job."""
    shape = waiting.shape[job]
    if waiting.state[shape] == IDLE:
        _open(waiting, shape)
    waiting.least[shape] = plan if waiting.members[shape] == 0 else min(waiting.least[shape], plan)
    waiting.members[shape] += 1
    waiting.queued[job] = 1
    _set_plan(waiting.plans, waiting.slot[job], plan)
    push_end(waiting.line, waiting.in_line, waiting.length[0], waiting.rank[job], job)
    waiting.length[0] += 1


@inner
def leave(waiting: Waiting, job: int) -> None:
    """Remove a job."""
    waiting.members[waiting.shape[job]] -= 1
    waiting.queued[job] = 0
    _set_plan(waiting.plans, waiting.slot[job], NEVER)


@inner
def first_in_line(waiting: Waiting) -> int:
    """Return the waiting job of the lowest rank, or -1."""
    queued, line, in_line, count = waiting.queued, waiting.line, waiting.in_line, waiting.length
    while count[0] > 0 and not queued[in_line[0]]:
        count[0] -= 1
        pop_end(line, in_line, count[0])
    return int(in_line[0]) if count[0] > 0 else -1


@inner
def first_of_shape(waiting: Waiting, shape: int, most: int) -> int:
    """Return the first job of a shape whose plan is at most `most`, or -1."""
    if waiting.least[shape] > most:
        return -1
    job = next_of_shape(waiting, shape, waiting.first_slot[shape], most)
    if job < 0:
        waiting.least[shape] = most + 1
    return job


@inner
def next_of_shape(waiting: Waiting, shape: int, slot: int, most: int) -> int:
    """Return the first job of a shape at or behind a slot whose plan is at most `most`, or -1."""
    plans, end = waiting.plans, waiting.first_slot[shape + 1]
    leaves = len(plans) // 2
    at = slot + leaves
    if at >= 2 * leaves:
        return -1
    while True:
        if plans[at] <= most:
            if at >= leaves:
                return int(waiting.job_in[at - leaves]) if at - leaves < end else -1
            at *= 2
            continue
        while at & 1:
            at >>= 1
        if at == 0:
            return -1
        at += 1


@inner
def shut(waiting: Waiting, shape: int) -> None:
    """Note that no job of a shape fits."""
    if waiting.state[shape] != SHUT:
        waiting.state[shape] = SHUT
        _append(waiting.shut, shape)


@inner
def reopen(waiting: Waiting, tree: Ints, node: int) -> None:
    """Note that something was given back on a node."""
    state, members, wants, shapes, leaf = (
        waiting.state, waiting.members, waiting.wants, waiting.shut, len(tree) // 2 + node,
    )  # fmt: skip
    kept = 0
    for at in range(1, shapes[0] + 1):
        shape = shapes[at]
        if members[shape] == 0:
            state[shape] = IDLE
        elif may_hold(tree, leaf, wants, shape):
            _open(waiting, shape)
        else:
            kept += 1
            shapes[kept] = shape
    shapes[0] = kept


@inner
def tidy(waiting: Waiting) -> int:
    """Take off the list of open shapes those that are not, or that nobody waits with; return how many are left."""
    state, members, shapes = waiting.state, waiting.members, waiting.opened
    kept = 0
    for at in range(1, shapes[0] + 1):
        shape = shapes[at]
        if state[shape] == OPEN and members[shape] == 0:
            state[shape] = IDLE
        if state[shape] == OPEN:
            kept += 1
            shapes[kept] = shape
        else:
            waiting.listed[shape] = 0
    shapes[0] = kept
    return kept


@inner
def _open(waiting: Waiting, shape: int) -> None:
    waiting.state[shape] = OPEN
    if not waiting.listed[shape]:
        waiting.listed[shape] = 1
        _append(waiting.opened, shape)


@inner
def may_hold(tree: Ints, leaf: int, wants: Ints, shape: int) -> bool:
    """Return whether the node of a leaf has room for a member of a shape."""
    return bool(
        tree[leaf, CPU] >= wants[shape, CPU]
        and tree[leaf, MEM] >= wants[shape, MEM]
        and tree[leaf, WHOLE] >= wants[shape, WHOLE]
        and tree[leaf, WIDEST] >= wants[shape, WIDEST]
        and (tree[leaf, TYPES] & wants[shape, TYPES]) != 0
        and (tree[leaf, FEATURES] & wants[shape, FEATURES]) == wants[shape, FEATURES]
    )


@inner
def _append(shapes: Ints, shape: int) -> None:
    shapes[0] += 1
    shapes[shapes[0]] = shape


@inner
def _set_plan(plans: Ints, slot: int, plan: int) -> None:
    at = slot + len(plans) // 2
    plans[at] = plan
    at >>= 1
    while at >= 1:
        least = min(plans[2 * at], plans[2 * at + 1])
        if least == plans[at]:
            break
        plans[at] = least
        at >>= 1
