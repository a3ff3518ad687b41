"""The coming day of a machine that keeps to a choice, played through to see what the choice would cost.

Who comes is given. Runs take as long as is expected, and a scorer chooses: by what is free at the time, and by all
else as it was when the rehearsal began, since waits hardly change an order within a day. Nothing is backfilled.
Times are integer milliseconds from now on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._compiling import inner, nested
from presage.simulator._moments import FREE, NOW, PROCESSORS, RUNNING, Machines

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

DAY_MS = 24 * 3600 * 1000
MINUTE_MS = 60_000.0
# Weights of what has to do with what is free, behind those of `presage.simulator._committing`.
FITS, UNTIL, LEFT = 7, 8, 9
# Facts of a rehearsal: the time, what is free, how many wait, who comes next, and whose ends are still to come.
CLOCK, IDLE, QUEUED, NEXT, FIRST, LAST = range(6)


class Outlook(NamedTuple):
    """When how much will be free, by the plans of those that run, from the first to end on."""

    free: Ints
    late: Floats
    """What is added to the score of a job that has to wait until then."""


class Scene(NamedTuple):
    """What rehearsals begin with: jobs that wait now, behind them those that will come."""

    comes: Ints
    """When, from now on."""
    standing: Floats
    """The part of the score that has nothing to do with what is free, as it is now."""
    inverse: Floats
    run: Ints
    size: Ints
    counts: Ints
    """How many wait, and how many there are in all."""
    scores: Floats
    best: Ints
    """Places in the queue that are rehearsed, and what each has cost."""
    costs: Floats


class Stage(NamedTuple):
    """What changes in a rehearsal. Times are from now on."""

    queue: Ints
    ends: Ints
    """Of those that run, the first in front."""
    held: Ints
    """What each of these holds."""
    outlook: Outlook
    facts: Ints


@nested
def new_outlook(jobs: int) -> Outlook:
    return Outlook(np.empty(jobs + 1, np.int64), np.empty(jobs + 1))


@nested
def new_scene(jobs: int, candidates: int) -> Scene:
    return Scene(
        comes=np.zeros(2 * jobs, np.int64),
        standing=np.empty(2 * jobs),
        inverse=np.empty(2 * jobs),
        run=np.empty(2 * jobs, np.int64),
        size=np.empty(2 * jobs, np.int64),
        counts=np.zeros(2, np.int64),
        scores=np.empty(jobs),
        best=np.empty(candidates, np.int64),
        costs=np.empty(candidates),
    )


@nested
def new_stage(jobs: int) -> Stage:
    return Stage(
        queue=np.empty(2 * jobs, np.int64),
        ends=np.empty(2 * jobs + 1, np.int64),
        held=np.empty(2 * jobs + 1, np.int64),
        outlook=new_outlook(2 * jobs),
        facts=np.zeros(6, np.int64),
    )


@inner
def late(weights: Floats, after_ms: int) -> float:
    """Return what is added to the score of a job that has to wait so long until it fits."""
    return float(weights[UNTIL] * np.log(1.0 + after_ms / MINUTE_MS))


@inner
def fitting(weights: Floats, outlook: Outlook, first: int, free: int, size: int, processors: int) -> float:
    """Return the part that says whether and when a job fits; `first` is who ends next."""
    if size <= free:
        return float(weights[FITS] + weights[LEFT] * (free - size) / processors)
    while outlook.free[first] < size:
        first += 1
    return float(outlook.late[first])


@inner
def rehearse(m: Machines, weights: Floats, scene: Scene, stage: Stage, place: int) -> float:
    """Return the slowdown that jobs gain by waiting within a day if the job in this place goes next."""
    facts = stage.facts
    _open(m, scene, stage)
    cost = 0.0
    while place >= 0:
        job = stage.queue[place]
        facts[QUEUED] -= 1
        for at in range(place, facts[QUEUED]):
            stage.queue[at] = stage.queue[at + 1]
        _start_when_it_fits(scene, stage, job)
        cost += _price(scene, job, facts[CLOCK])
        place = _next_place(m, weights, scene, stage)
    for at in range(facts[QUEUED]):
        cost += _price(scene, stage.queue[at], DAY_MS)
    return cost


@inner
def _price(scene: Scene, job: int, until: int) -> float:
    """Return the slowdown that a job gains by waiting until then, or until the day is over."""
    return float(max(min(until, DAY_MS) - scene.comes[job], 0) / 1000.0 * scene.inverse[job])


@inner
def _open(m: Machines, scene: Scene, stage: Stage) -> None:
    """Bring the stage to the present."""
    facts, running = stage.facts, m.facts[0, RUNNING]
    facts[CLOCK] = facts[FIRST] = 0
    facts[IDLE] = m.facts[0, FREE]
    facts[LAST] = running
    facts[QUEUED] = facts[NEXT] = scene.counts[0]
    for at in range(running):
        stage.ends[at] = m.planned[0, at] - m.facts[0, NOW]
        stage.held[at] = m.size[0, m.holding[0, at]]
    for at in range(scene.counts[0]):
        stage.queue[at] = at


@inner
def _start_when_it_fits(scene: Scene, stage: Stage, job: int) -> None:
    facts = stage.facts
    while facts[IDLE] < scene.size[job]:
        facts[CLOCK] = stage.ends[facts[FIRST]]
        _end_first(stage)
    _welcome(scene, stage)
    end = facts[CLOCK] + scene.run[job]
    at = facts[LAST]
    while at > facts[FIRST] and stage.ends[at - 1] > end:
        stage.ends[at] = stage.ends[at - 1]
        stage.held[at] = stage.held[at - 1]
        at -= 1
    stage.ends[at] = end
    stage.held[at] = scene.size[job]
    facts[LAST] += 1
    facts[IDLE] -= scene.size[job]


@inner
def _end_first(stage: Stage) -> None:
    stage.facts[IDLE] += stage.held[stage.facts[FIRST]]
    stage.facts[FIRST] += 1


@inner
def _welcome(scene: Scene, stage: Stage) -> None:
    """Let those wait that have come by now."""
    facts = stage.facts
    while facts[NEXT] < scene.counts[1] and scene.comes[facts[NEXT]] <= facts[CLOCK]:
        stage.queue[facts[QUEUED]] = facts[NEXT]
        facts[QUEUED] += 1
        facts[NEXT] += 1


@inner
def _next_place(m: Machines, weights: Floats, scene: Scene, stage: Stage) -> int:
    """Return the place in the queue of the job that goes next in a rehearsal; -1 if it is over."""
    facts = stage.facts
    if facts[QUEUED] == 0 and facts[NEXT] < scene.counts[1]:
        facts[CLOCK] = scene.comes[facts[NEXT]]
        while facts[FIRST] < facts[LAST] and stage.ends[facts[FIRST]] <= facts[CLOCK]:
            _end_first(stage)
        _welcome(scene, stage)
    if facts[QUEUED] == 0 or facts[CLOCK] >= DAY_MS:
        return -1
    if facts[QUEUED] == 1:
        return 0
    return _lowest_place(m, weights, scene, stage)


@inner
def _lowest_place(m: Machines, weights: Floats, scene: Scene, stage: Stage) -> int:
    facts, outlook = stage.facts, stage.outlook
    free = facts[IDLE]
    for at in range(facts[FIRST], facts[LAST]):
        free += stage.held[at]
        outlook.free[at] = free
        outlook.late[at] = late(weights, stage.ends[at] - facts[CLOCK])
    best, lowest = 0, np.inf
    for place in range(facts[QUEUED]):
        job = stage.queue[place]
        score = scene.standing[job] + fitting(
            weights, outlook, facts[FIRST], facts[IDLE], scene.size[job], m.facts[0, PROCESSORS]
        )
        if score < lowest:
            best, lowest = place, score
    return best
