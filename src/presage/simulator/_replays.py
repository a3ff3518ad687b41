"""What a queue costs in a given order: EASY backfilling from the present on, with forecast run times.

All is local to one decision: jobs are numbered from 0, first those that wait, then arrivals that may come, then
those that run. Times are integer milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._compiling import inner, nested
from presage.simulator._structures import NEVER, begin_running, end_first, reserve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

CUT_OFF = np.inf
_CERTAIN = 1 - 1e-6
"""So much of a sum remains whatever was rounded."""


class Scene(NamedTuple):
    """Who waits, may come, and runs."""

    waiting: int
    coming: int
    running: int
    submit: Ints
    run: Ints
    """As forecast."""
    plan: Ints
    """What reservations count with, at least the run."""
    size: Ints
    inverse: Floats
    """What a second of waiting adds to the slowdown of each."""
    before: Floats
    """What each would cost if it started at once."""
    growth: Floats
    """What each millisecond from now on adds to that at least."""
    ends: Ints
    """The heap of the ends of those that run, with room for all."""
    ending: Ints
    planned: Ints
    """Their planned ends in order, with room for all."""
    holding: Ints
    planned_end: Ints
    """The same by job."""


@nested
def new_scene(waiting: int, coming: int, running: int) -> Scene:
    """Return a scene to be filled: all is 0 but `ends` and `planned`, which are empty."""
    count = waiting + coming + running
    return Scene(
        waiting, coming, running,
        np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64),
        np.zeros(count, np.int64), np.zeros(count), np.zeros(count), np.zeros(count),
        np.empty(count + 1, np.int64), np.empty(count + 1, np.int64),
        np.empty(count + 1, np.int64), np.empty(count + 1, np.int64), np.zeros(count, np.int64),
    )  # fmt: skip


@inner
def cost_of(wait_ms: int, inverse: float, exponent: float) -> float:
    """Return the expected slowdown of a job that waits so long, to the power `exponent`."""
    slowdown = 1.0 + wait_ms * inverse / 1000.0
    if exponent == 1.0:
        return slowdown
    if exponent == 1.5:
        return float(slowdown * np.sqrt(slowdown))
    return float(slowdown**exponent)


@inner
def growth_of(wait_ms: int, inverse: float, exponent: float) -> float:
    """Return what a millisecond more adds to `cost_of` at least, however long the wait becomes."""
    slowdown = 1.0 + wait_ms * inverse / 1000.0
    # Below 1 the cost grows ever more slowly.
    return exponent * slowdown ** (exponent - 1.0) * inverse / 1000.0 if exponent >= 1.0 else 0.0


@nested
def replay(
    scene: Scene, order: Ints, scores: Floats, now: int, free: int, exponent: float, bar: float, most_looks: int
) -> tuple[float, int]:
    """Return what waiting from now on costs if the queue goes in `order`, and how many looks at jobs that took.

    Arrivals take their place by `scores`. As soon as it is certain that the cost will reach `bar`, that is
    returned; CUT_OFF stands for the cost of a replay that took too many looks.
    """
    ends, ending = scene.ends.copy(), scene.ending.copy()
    planned, holding, planned_end = scene.planned.copy(), scene.holding.copy(), scene.planned_end.copy()
    submit, run, plan, size = scene.submit, scene.run, scene.plan, scene.size
    waiting, running, come = scene.waiting, scene.running, scene.waiting
    last = scene.waiting + scene.coming
    line, wants = np.empty(last, np.int64), np.empty(last, np.int64)
    growth = 0.0
    for at in range(waiting):
        line[at], wants[at] = order[at], size[order[at]]
        growth += scene.growth[at]
    smallest, time, looks, cost = 0, now, 0, 0.0
    while True:
        if smallest <= free:
            head_size, shadow, extra = 0, -1, 0
            kept, least, at = 0, NEVER, 0
            while at < waiting and smallest <= free:
                job, wanted = line[at], wants[at]
                at += 1
                goes = wanted <= free
                if goes and head_size > 0:
                    if shadow < 0:
                        shadow, extra = reserve(planned, holding, running, size, free, head_size)
                    if time + plan[job] > shadow:
                        goes = wanted <= extra
                        if goes:
                            extra -= wanted
                elif not goes and head_size == 0:
                    head_size = wanted
                if goes:
                    free -= wanted
                    cost += cost_of(time - submit[job], scene.inverse[job], exponent) - scene.before[job]
                    growth -= scene.growth[job]
                    end, planned_for = time + run[job], time + plan[job]
                    begin_running(ends, ending, planned, holding, planned_end, running, job, end, planned_for)
                    running += 1
                else:
                    line[kept], wants[kept] = job, wanted
                    kept += 1
                    least = min(least, wanted)
            looks += at
            if at == waiting:
                smallest = least
            gone = at - kept
            if gone > 0:
                for behind in range(at, waiting):
                    line[behind - gone], wants[behind - gone] = line[behind], wants[behind]
                waiting -= gone
        if waiting == 0 and come == last:
            return cost, looks
        if looks > most_looks:
            return CUT_OFF, looks
        time = NEVER if running == 0 else ends[0]
        if come < last:
            time = min(time, submit[come])
        # Whoever still waits does so until now at least.
        if (cost + growth * (time - now)) * _CERTAIN >= bar:
            return bar, looks
        while running > 0 and ends[0] <= time:
            running -= 1
            looks += 1
            free += size[end_first(ends, ending, planned, holding, planned_end, running)]
        while come < last and submit[come] <= time:
            at = waiting
            while at > 0 and scores[line[at - 1]] > scores[come]:
                line[at], wants[at] = line[at - 1], wants[at - 1]
                at -= 1
            line[at], wants[at] = come, size[come]
            smallest = min(smallest, size[come])
            waiting += 1
            come += 1
