"""Places for jobs on numbered nodes: when, and where, as Slurm 22.05 was seen to plan with `DebugFlags=Backfill`.

A place is a start, and nodes that nobody has kept for the whole length of the job. Nodes have numbers, because a
place that fits by count may not fit on the same nodes throughout. Of the nodes that a job could
have it takes neighbours: the smallest run of them that is enough, or else the largest and so on. Ends of running
jobs that lie within `precision` of the first count as one, the last of them; the next group may be wider by as
much, and so on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from presage.simulator._structures import NEVER, insert_running

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

NOBODY = -1


class Pace(NamedTuple):
    """When each scheduler runs and how far it looks; times in milliseconds."""

    interval: int
    depth: int
    window: int
    resolution: int
    precision: int
    main_depth: int
    main_interval: int
    main_gap: int
    poll: int
    release: int
    origin: int
    """An instant at which a tick and a full pass come together."""


@njit(cache=True, nogil=True)
def start_from_the_front(line: Ints, size: Ints, owner: Ints) -> Flags:
    """Return which jobs of `line` start if nobody passes the first that does not fit; `owner` gets their nodes."""
    starts = np.zeros(len(line), np.bool_)
    idle = owner == NOBODY
    chosen = np.empty(len(owner), np.bool_)
    for at in range(len(line)):
        if idle.sum() < size[line[at]]:
            break
        choose_neighbours(idle, size[line[at]], chosen)
        _give(owner, idle, chosen, line[at])
        starts[at] = True
    return starts


@njit(cache=True, nogil=True)
def start_in_places(
    line: Ints,
    now: int,
    plan: Ints,
    size: Ints,
    planned: Ints,
    holding: Ints,
    running: int,
    owner: Ints,
    scratch: Ints,
    pace: Pace,
) -> Flags:
    """Return which jobs of `line` start now if each, in order, takes the earliest place; `owner` gets their nodes.

    `vacant[step]` are the nodes that nobody has kept from `times[step]` to the next. `scratch` is room for two
    numbers per job.
    """
    starts = np.zeros(len(line), np.bool_)
    ends = np.empty(running + len(line), np.int64)
    ending = np.empty(len(ends), np.int64)
    ends[:running] = planned[:running]
    ending[:running] = holding[:running]
    times = np.empty(2 * len(line) + 1, np.int64)
    vacant = np.empty((len(times), len(owner)), np.bool_)
    times[0] = now
    vacant[0] = True
    steps = 1
    chosen = np.empty(len(owner), np.bool_)
    idle = owner == NOBODY
    for at in range(len(line)):
        if not (idle & vacant[0]).any():
            break
        job = line[at]
        begin = find_place(
            size[job], plan[job], times[:steps], vacant, owner, ends[:running], ending, scratch, pace, chosen
        )
        if begin == NEVER:
            continue
        if begin == now:
            starts[at] = True
            _give(owner, idle, chosen, job)
            insert_running(ends, ending, running, now + plan[job], job)
            running += 1
        kept_from = max(_rounded(begin, pace), now)
        kept_until = _rounded(begin + plan[job], pace)
        if kept_until > kept_from:
            steps = keep(times, vacant, steps, kept_from, kept_until, chosen)
    return starts


@njit(inline="always")
def _give(owner: Ints, idle: Flags, chosen: Flags, job: int) -> None:
    for node in range(len(owner)):
        if chosen[node]:
            owner[node] = job
            idle[node] = False


@njit(inline="always")
def _rounded(instant: int, pace: Pace) -> int:
    return instant // pace.resolution * pace.resolution


@njit(cache=True, nogil=True)
def find_place(
    wanted: int,
    plan: int,
    times: Ints,
    vacant: Flags,
    owner: Ints,
    ends: Ints,
    ending: Ints,
    scratch: Ints,
    pace: Pace,
    chosen: Flags,
) -> int:
    """Return the earliest start of a job and write its nodes to `chosen`; NEVER if it lies beyond the window.

    It is tried from now on, then from the end of what stood in the way. `ends` are the planned ends of the running
    jobs `ending`, in order.
    """
    now = times[0]
    start_from = now
    while start_from - now <= pace.window:
        usable, later = _vacant_throughout(start_from, start_from + plan, times, vacant)
        ready = _reduce_to_free(usable, wanted, owner, ends, ending, scratch, now, pace.precision)
        begin = max(ready, start_from)
        if begin > later:
            start_from = later
            continue
        if begin - now > pace.window:
            break
        choose_neighbours(usable, wanted, chosen)
        if begin == start_from:
            return int(begin)
        still, _ = _vacant_throughout(_rounded(begin, pace), _rounded(begin + plan, pace), times, vacant)
        if (still | ~chosen).all():
            return int(begin)
        start_from = begin
    return NEVER


@njit(cache=True, nogil=True)
def _vacant_throughout(begin: int, end: int, times: Ints, vacant: Flags) -> tuple[Flags, int]:
    """Return the nodes that nobody keeps between two instants, and when the first of the others is given back."""
    usable = np.ones(vacant.shape[1], np.bool_)
    later = NEVER
    last = len(times) - 1
    for step in range(len(times)):
        if times[step] >= end:
            break
        if step == last or times[step + 1] > begin:
            if later == NEVER and step < last and (vacant[step + 1] & ~vacant[step]).any():
                later = times[step + 1]
            usable &= vacant[step]
    return usable, later


@njit(cache=True, nogil=True)
def _reduce_to_free(
    usable: Flags, wanted: int, owner: Ints, ends: Ints, ending: Ints, scratch: Ints, now: int, precision: int
) -> int:
    """Return when `wanted` of the usable nodes are free, or NEVER; reduce `usable` to those free then.

    Ends of jobs on usable nodes count in groups. A group goes on while the next end of any job, on whatever nodes,
    is within the precision of the group's first.
    """
    nodes_of, place_of = scratch[0], scratch[1]
    for at in range(len(ends)):
        nodes_of[ending[at]] = 0
        place_of[ending[at]] = at
    have = 0
    for node in range(len(usable)):
        if usable[node]:
            if owner[node] == NOBODY:
                have += 1
            else:
                nodes_of[owner[node]] += 1
    at = 0
    ready = now
    width = precision
    while have < wanted and at < len(ends):
        first = NEVER
        while at < len(ends):
            job = ending[at]
            at += 1
            if nodes_of[job] == 0:
                continue
            ready = ends[at - 1]
            first = min(first, ready)
            have += nodes_of[job]
            if at < len(ends) and ends[at] > max(first + width, ready):
                break
        width += precision
    if have < wanted:
        return NEVER
    for node in range(len(usable)):
        if usable[node] and owner[node] != NOBODY:
            usable[node] = place_of[owner[node]] < at
    return ready


@njit(cache=True, nogil=True)
def choose_neighbours(usable: Flags, wanted: int, chosen: Flags) -> None:
    """Choose `wanted` of the usable nodes: the smallest run that is enough, or else the largest and so on."""
    chosen[:] = False
    while wanted > 0:
        best = 0
        longest = 0
        node = 0
        while node < len(usable):
            first = node
            while node < len(usable) and usable[node] and not chosen[node]:
                node += 1
            length = node - first
            if (wanted <= length < longest) or (longest < wanted and length > longest):
                best = first
                longest = length
            node += 1
        taken = min(wanted, longest)
        chosen[best : best + taken] = True
        wanted -= taken


@njit(cache=True, nogil=True)
def keep(times: Ints, vacant: Flags, steps: int, begin: int, end: int, chosen: Flags) -> int:
    """Take the chosen nodes out of what is vacant between two instants; return the number of steps."""
    steps = _split(times, vacant, _split(times, vacant, steps, begin), end)
    for step in range(steps):
        if begin <= times[step] < end:
            vacant[step] &= ~chosen
    return steps


@njit(inline="always")
def _split(times: Ints, vacant: Flags, steps: int, instant: int) -> int:
    """Make `instant` a step; return the number of steps."""
    at = steps
    while at > 0 and times[at - 1] > instant:
        at -= 1
    if at > 0 and times[at - 1] == instant:
        return steps
    for step in range(steps, at, -1):
        times[step] = times[step - 1]
        vacant[step] = vacant[step - 1]
    times[at] = instant
    vacant[at] = vacant[at - 1]
    return steps + 1
