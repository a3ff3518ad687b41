"""Whole runs of machines that keep to a choice, each made by a scorer which learns from the jobs that have ended.

What is expected of a run comes from runs of its kind (same user and request) that have ended here, what is
expected of its kind from runs of its user, and that of its user from the request; each of these counts as one run
more.

Before a choice the best few may be rehearsed: the coming day is played through with each of them, once for each of
the last days, as if who came in the same hours of that day came again. Times are integer milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._compiling import compiled, inner
from presage.simulator._moments import (
    ARRIVED,
    COMMIT,
    FREE,
    NOW,
    PROCESSORS,
    RUNNING,
    WAITING,
    Machines,
)
from presage.simulator._rehearsing import (
    DAY_MS,
    Outlook,
    Scene,
    Stage,
    fitting,
    late,
    new_outlook,
    new_scene,
    new_stage,
    rehearse,
)
from presage.simulator.choices import begin, choose
from presage.simulator.metrics import TAU_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

# Weights; those of what has to do with what is free follow.
EXPECTED, TYPICAL, REQUESTED, SIZE, SHARE, WAITED, SLOWDOWN = range(7)
AGEING_S = 4 * 3600.0
# Columns of what has ended: sums of run / requested and of 1 / max(run, 10 s), and how many runs.
USED, INVERSE, COUNT = 0, 1, 2


class Work(NamedTuple):
    """What is known of the jobs when they come."""

    requested_s: Floats
    user: Ints
    kind: Ints
    """Jobs of one kind have the same user and request."""


class Memory(NamedTuple):
    """What a scorer has learned since the run began."""

    of_users: Floats
    of_kinds: Floats
    news: Ints
    """How many runs of each user have ended."""
    read: Ints
    """Per job: the news of its user when it was last forecast."""
    expected_s: Floats
    """Per job: the run that is expected."""
    inverse: Floats
    """Per job: the mean of 1 / max(run, 10 s) that is expected."""
    lasting: Floats
    """Per job: the part of its score that stays until there is news."""
    pending: Ints
    """Jobs that have come and are not known to have ended, in front."""
    counts: Ints
    """How many are pending, and how many have been seen coming."""


@compiled
def run_committed(
    m: Machines,
    jobs: int,
    processors: int,
    backfilling: int,
    work: Work,
    weights: Floats,
    candidates: int,
    days: int,
) -> None:
    """Run the first machine, whose jobs are written already, to its end; without days nothing is rehearsed."""
    memory = _new_memory(jobs, work)
    outlook = new_outlook(jobs)
    scene, stage = new_scene(jobs, candidates), new_stage(jobs)
    more = begin(m, 0, jobs, processors, jobs, 0, COMMIT, backfilling)
    while more:
        _remember(m, work, memory)
        _look_ahead(m, weights, outlook)
        known = min(days, (m.facts[0, NOW] - m.submit[0, 0]) // DAY_MS)
        if known > 0:
            place = _rehearsed(m, work, weights, memory, outlook, scene, stage, known)
        else:
            place = _best(m, work, weights, memory, outlook)
        more = choose(m, 0, place, COMMIT, backfilling)


@compiled
def _new_memory(jobs: int, work: Work) -> Memory:
    users, kinds = work.user.max() + 1, work.kind.max() + 1
    return Memory(
        of_users=np.zeros((users, 3)),
        of_kinds=np.zeros((kinds, 3)),
        news=np.zeros(users, np.int64),
        read=np.full(jobs, -1, np.int64),
        expected_s=np.empty(jobs),
        inverse=np.empty(jobs),
        lasting=np.empty(jobs),
        pending=np.empty(jobs, np.int64),
        counts=np.zeros(2, np.int64),
    )


@inner
def _remember(m: Machines, work: Work, memory: Memory) -> None:
    """Count the runs that have ended since the last choice."""
    now, pending = m.facts[0, NOW], memory.pending
    count, seen = memory.counts
    while seen < m.facts[0, ARRIVED]:
        pending[count] = seen
        count += 1
        seen += 1
    gone = 0
    for at in range(count):
        job = pending[at]
        if m.start[0, job] >= 0 and m.start[0, job] + m.run[0, job] <= now:
            _count(memory, work, job, m.run[0, job] / 1000.0)
            gone += 1
        else:
            pending[at - gone] = job
    memory.counts[0] = count - gone
    memory.counts[1] = seen


@inner
def _count(memory: Memory, work: Work, job: int, run_s: float) -> None:
    user = work.user[job]
    memory.news[user] += 1
    used, inverse = min(run_s / work.requested_s[job], 1.0), 1.0 / max(run_s, TAU_S)
    memory.of_users[user, USED] += used
    memory.of_users[user, INVERSE] += inverse
    memory.of_users[user, COUNT] += 1.0
    kind = work.kind[job]
    memory.of_kinds[kind, USED] += used
    memory.of_kinds[kind, INVERSE] += inverse
    memory.of_kinds[kind, COUNT] += 1.0


@inner
def _look_ahead(m: Machines, weights: Floats, outlook: Outlook) -> None:
    free, now = m.facts[0, FREE], m.facts[0, NOW]
    for at in range(m.facts[0, RUNNING]):
        free += m.size[0, m.holding[0, at]]
        outlook.free[at] = free
        outlook.late[at] = late(weights, m.planned[0, at] - now)


@inner
def _best(m: Machines, work: Work, weights: Floats, memory: Memory, outlook: Outlook) -> int:
    """Return the place of the waiting job with the lowest score; the first of equals."""
    facts = m.facts[0]
    best, lowest = 0, np.inf
    for place in range(facts[WAITING]):
        job = m.queue[0, place]
        score = _standing(m, work, weights, memory, job)
        score += fitting(weights, outlook, 0, facts[FREE], m.size[0, job], facts[PROCESSORS])
        if score < lowest:
            best, lowest = place, score
    return best


@inner
def _standing(m: Machines, work: Work, weights: Floats, memory: Memory, job: int) -> float:
    """Return the part of a job's score that has nothing to do with what is free."""
    if memory.read[job] != memory.news[work.user[job]]:
        _forecast(m, work, weights, memory, job)
    waited_s = (m.facts[0, NOW] - m.submit[0, job]) / 1000.0
    score = memory.lasting[job]
    score += weights[WAITED] * np.log(1.0 + waited_s / AGEING_S)
    score += weights[SLOWDOWN] * np.log(1.0 + waited_s * memory.inverse[job])
    return float(score)


@inner
def _forecast(m: Machines, work: Work, weights: Floats, memory: Memory, job: int) -> None:
    """Write what is expected of a job by now."""
    user, kind, requested_s = work.user[job], work.kind[job], work.requested_s[job]
    of_user, of_kind = memory.of_users[user], memory.of_kinds[kind]
    used = (of_user[USED] + 1.0) / (of_user[COUNT] + 1.0)
    used = (of_kind[USED] + used) / (of_kind[COUNT] + 1.0)
    inverse = (of_user[INVERSE] + 1.0 / max(requested_s, TAU_S)) / (of_user[COUNT] + 1.0)
    inverse = (of_kind[INVERSE] + inverse) / (of_kind[COUNT] + 1.0)
    memory.read[job] = memory.news[user]
    memory.expected_s[job] = requested_s * used
    memory.inverse[job] = inverse
    memory.lasting[job] = (
        weights[EXPECTED] * np.log(memory.expected_s[job])
        - weights[TYPICAL] * np.log(inverse)
        + weights[REQUESTED] * np.log(requested_s)
        + weights[SIZE] * np.log(m.size[0, job])
        + weights[SHARE] * m.size[0, job] / m.facts[0, PROCESSORS]
    )


@inner
def _rehearsed(
    m: Machines,
    work: Work,
    weights: Floats,
    memory: Memory,
    outlook: Outlook,
    scene: Scene,
    stage: Stage,
    days: int,
) -> int:
    """Return the place of the job with which the coming day costs least, on the average of earlier days."""
    count = _cast(m, work, weights, memory, outlook, scene)
    scene.costs[:count] = 0.0
    for day in range(1, days + 1):
        _announce(m, work, weights, memory, scene, day)
        for at in range(count):
            scene.costs[at] += rehearse(m, weights, scene, stage, scene.best[at])
    return int(scene.best[np.argmin(scene.costs[:count])])


@inner
def _cast(m: Machines, work: Work, weights: Floats, memory: Memory, outlook: Outlook, scene: Scene) -> int:
    """Write those that wait, and the places of the best, the first of equals first; return how many these are."""
    facts = m.facts[0]
    waiting = facts[WAITING]
    for place in range(waiting):
        job = m.queue[0, place]
        scene.comes[place] = 0
        standing = _standing(m, work, weights, memory, job)
        _enter(m, memory, scene, place, job, standing)
        scene.scores[place] = standing + fitting(
            weights, outlook, 0, facts[FREE], m.size[0, job], facts[PROCESSORS]
        )
    scene.counts[0] = waiting
    count = min(len(scene.best), waiting)
    for at in range(count):
        scene.best[at] = np.argmin(scene.scores[:waiting])
        scene.scores[scene.best[at]] = np.inf
    return int(count)


@inner
def _enter(m: Machines, memory: Memory, scene: Scene, place: int, job: int, standing: float) -> None:
    scene.standing[place] = standing
    scene.inverse[place] = memory.inverse[job]
    scene.run[place] = int(memory.expected_s[job] * 1000.0)
    scene.size[place] = m.size[0, job]


@inner
def _announce(m: Machines, work: Work, weights: Floats, memory: Memory, scene: Scene, day: int) -> None:
    """Write who will come within a day: jobs like those that came so many days before."""
    then = m.facts[0, NOW] - day * DAY_MS
    count = scene.counts[0]
    job = np.searchsorted(m.submit[0, : m.facts[0, ARRIVED]], then, side="right")
    while job < m.facts[0, ARRIVED] and m.submit[0, job] < then + DAY_MS:
        if memory.read[job] != memory.news[work.user[job]]:
            _forecast(m, work, weights, memory, job)
        scene.comes[count] = m.submit[0, job] - then
        _enter(m, memory, scene, count, job, memory.lasting[job])
        count += 1
        job += 1
    scene.counts[1] = count
