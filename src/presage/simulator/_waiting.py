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
# Rows of `jobs`: what a job is, its slot in the tree of plans, the job of each slot, and whether a job waits.
SHAPE, RANK, SLOT, JOB_IN, QUEUED = 0, 1, 2, 3, 4
# Rows of `shapes`: where its slots begin, its state, how many of its jobs wait, how long their plans are at least,
# whether it is listed as open, and whether its jobs are known not to fit beside a reservation; then two lists that
# begin with their length: the open shapes with some that no longer are, and the shut ones.
FIRST_SLOT, STATE, MEMBERS, LEAST, LISTED, BOXED, OPEN_LIST, SHUT_LIST = 0, 1, 2, 3, 4, 5, 6, 7


class Waiting(NamedTuple):
    """Who waits. Few arrays with many rows, because every array that is handed over takes time to compile."""

    jobs: Ints
    """A column per job."""
    shapes: Ints
    """A column per shape and one more."""
    plans: Ints
    """A tree over the slots: the least plan of the waiting jobs below, NEVER if there is none."""
    wants: Ints
    """What a member of each shape wants, in the columns of the tree of what is free."""
    line: Ints
    """A heap of ranks and jobs, with jobs that no longer wait among them."""
    length: Ints
    """Of the heap."""


@compiled
def no_waiting(shape: Ints, rank: Ints, slot: Ints, wants: Ints) -> Waiting:
    """Return the state in which nobody waits; slots are numbered shape by shape, then by rank."""
    count = len(shape)
    leaves = 1
    while leaves < count:
        leaves *= 2
    jobs = np.zeros((QUEUED + 1, count), np.int64)
    jobs[SHAPE], jobs[RANK], jobs[SLOT] = shape, rank, slot
    shapes = np.zeros((SHUT_LIST + 1, len(wants) + 1), np.int64)
    for job in range(count):
        jobs[JOB_IN, slot[job]] = job
        shapes[FIRST_SLOT, shape[job] + 1] += 1
    for at in range(len(wants)):
        shapes[FIRST_SLOT, at + 1] += shapes[FIRST_SLOT, at]
    plans = np.full(2 * leaves, NEVER, np.int64)
    return Waiting(jobs, shapes, plans, wants, np.empty((2, count + 1), np.int64), np.zeros(1, np.int64))


@inner
def join(waiting: Waiting, job: int, plan: int) -> None:
    """Add a job."""
    shape = waiting.jobs[SHAPE, job]
    if waiting.shapes[STATE, shape] == IDLE:
        _open(waiting, shape)
    waiting.shapes[LEAST, shape] = (
        plan if waiting.shapes[MEMBERS, shape] == 0 else min(waiting.shapes[LEAST, shape], plan)
    )
    waiting.shapes[MEMBERS, shape] += 1
    waiting.jobs[QUEUED, job] = 1
    _set_plan(waiting.plans, waiting.jobs[SLOT, job], plan)
    push_end(waiting.line[0], waiting.line[1], waiting.length[0], waiting.jobs[RANK, job], job)
    waiting.length[0] += 1


@inner
def leave(waiting: Waiting, job: int) -> None:
    """Remove a job."""
    waiting.shapes[MEMBERS, waiting.jobs[SHAPE, job]] -= 1
    waiting.jobs[QUEUED, job] = 0
    _set_plan(waiting.plans, waiting.jobs[SLOT, job], NEVER)


@inner
def first_in_line(waiting: Waiting) -> int:
    """Return the waiting job of the lowest rank, or -1."""
    queued, ranks, jobs, length = waiting.jobs[QUEUED], waiting.line[0], waiting.line[1], waiting.length
    while length[0] > 0 and not queued[jobs[0]]:
        length[0] -= 1
        pop_end(ranks, jobs, length[0])
    return int(jobs[0]) if length[0] > 0 else -1


@inner
def first_of_shape(waiting: Waiting, shape: int, most: int) -> int:
    """Return the first job of a shape whose plan is at most `most`, or -1."""
    if waiting.shapes[LEAST, shape] > most:
        return -1
    job = next_of_shape(waiting, shape, waiting.shapes[FIRST_SLOT, shape], most)
    if job < 0:
        waiting.shapes[LEAST, shape] = most + 1
    return job


@inner
def next_of_shape(waiting: Waiting, shape: int, slot: int, most: int) -> int:
    """Return the first job of a shape at or behind a slot whose plan is at most `most`, or -1."""
    plans, end = waiting.plans, waiting.shapes[FIRST_SLOT, shape + 1]
    leaves = len(plans) // 2
    at = slot + leaves
    if at >= 2 * leaves:
        return -1
    while True:
        if plans[at] <= most:
            if at >= leaves:
                return int(waiting.jobs[JOB_IN, at - leaves]) if at - leaves < end else -1
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
    if waiting.shapes[STATE, shape] != SHUT:
        waiting.shapes[STATE, shape] = SHUT
        _append(waiting.shapes[SHUT_LIST], shape)


@inner
def reopen(waiting: Waiting, tree: Ints, node: int) -> None:
    """Note that something was given back on a node."""
    state, members, shapes = waiting.shapes[STATE], waiting.shapes[MEMBERS], waiting.shapes[SHUT_LIST]
    leaf = len(tree) // 2 + node
    kept = 0
    for at in range(1, shapes[0] + 1):
        shape = shapes[at]
        if members[shape] == 0:
            state[shape] = IDLE
        elif may_hold(tree, leaf, waiting.wants, shape):
            _open(waiting, shape)
        else:
            kept += 1
            shapes[kept] = shape
    shapes[0] = kept


@inner
def tidy(waiting: Waiting) -> int:
    """Take off the list of open shapes those that are not, or that nobody waits with; return how many are left."""
    state, members, shapes = waiting.shapes[STATE], waiting.shapes[MEMBERS], waiting.shapes[OPEN_LIST]
    kept = 0
    for at in range(1, shapes[0] + 1):
        shape = shapes[at]
        if state[shape] == OPEN and members[shape] == 0:
            state[shape] = IDLE
        if state[shape] == OPEN:
            kept += 1
            shapes[kept] = shape
        else:
            waiting.shapes[LISTED, shape] = 0
    shapes[0] = kept
    return kept


@inner
def _open(waiting: Waiting, shape: int) -> None:
    waiting.shapes[STATE, shape] = OPEN
    if not waiting.shapes[LISTED, shape]:
        waiting.shapes[LISTED, shape] = 1
        _append(waiting.shapes[OPEN_LIST], shape)


@inner
def unbox(waiting: Waiting, tree: Ints, node: int) -> None:
    """Note that there may be more room on a node beside the reservation."""
    boxed, shapes = waiting.shapes[BOXED], waiting.shapes[OPEN_LIST]
    leaf = len(tree) // 2 + node
    for at in range(1, shapes[0] + 1):
        shape = shapes[at]
        if boxed[shape] and may_hold(tree, leaf, waiting.wants, shape):
            boxed[shape] = 0


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
