"""Whole runs of machines that keep to a choice, each made by a scorer which learns from the jobs that have ended.

What is expected of a run comes from runs of its kind (same user and request) that have ended here, what is
expected of its kind from runs of its user, and that of its user from the request; each of these counts as one run
more. Times are integer milliseconds.
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
from presage.simulator.choices import begin, choose
from presage.simulator.metrics import TAU_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

EXPECTED, TYPICAL, REQUESTED, SIZE, SHARE, WAITED, SLOWDOWN, FITS, UNTIL, LEFT = range(10)
AGEING_S = 4 * 3600.0
MINUTE_MS = 60_000.0
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
    inverse: Floats
    """Per job: the mean of 1 / max(run, 10 s) that is expected."""
    lasting: Floats
    """Per job: the part of its score that stays until there is news."""
    pending: Ints
    """Jobs that have come and are not known to have ended, in front."""
    counts: Ints
    """How many are pending, and how many have been seen coming."""


class Outlook(NamedTuple):
    """When how much will be free, by the plans of those that run."""

    after_ms: Ints
    free: Ints


@compiled
def run_committed(m: Machines, jobs: int, processors: int, backfilling: int, work: Work, weights: Floats) -> None:
    """Run the first machine, whose jobs are written already, to its end."""
    memory = _new_memory(jobs, work)
    outlook = Outlook(np.empty(jobs + 1, np.int64), np.empty(jobs + 1, np.int64))
    more = begin(m, 0, jobs, processors, jobs, 0, COMMIT, backfilling)
    while more:
        _remember(m, work, memory)
        _look_ahead(m, outlook)
        more = choose(m, 0, _best(m, work, weights, memory, outlook), COMMIT, backfilling)


@compiled
def _new_memory(jobs: int, work: Work) -> Memory:
    users, kinds = work.user.max() + 1, work.kind.max() + 1
    return Memory(
        of_users=np.zeros((users, 3)),
        of_kinds=np.zeros((kinds, 3)),
        news=np.zeros(users, np.int64),
        read=np.full(jobs, -1, np.int64),
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
def _look_ahead(m: Machines, outlook: Outlook) -> None:
    free, now = m.facts[0, FREE], m.facts[0, NOW]
    for at in range(m.facts[0, RUNNING]):
        free += m.size[0, m.holding[0, at]]
        outlook.after_ms[at] = m.planned[0, at] - now
        outlook.free[at] = free


@inner
def _best(m: Machines, work: Work, weights: Floats, memory: Memory, outlook: Outlook) -> int:
    """Return the place of the waiting job with the lowest score; the first of equals."""
    facts = m.facts[0]
    best, lowest = 0, np.inf
    for place in range(facts[WAITING]):
        job = m.queue[0, place]
        if memory.read[job] != memory.news[work.user[job]]:
            _forecast(m, work, weights, memory, job)
        waited_s = (facts[NOW] - m.submit[0, job]) / 1000.0
        score = memory.lasting[job]
        score += weights[WAITED] * np.log(1.0 + waited_s / AGEING_S)
        score += weights[SLOWDOWN] * np.log(1.0 + waited_s * memory.inverse[job])
        left = facts[FREE] - m.size[0, job]
        if left >= 0:
            score += weights[FITS] + weights[LEFT] * left / facts[PROCESSORS]
        else:
            at = 0
            while outlook.free[at] < m.size[0, job]:
                at += 1
            score += weights[UNTIL] * np.log(1.0 + outlook.after_ms[at] / MINUTE_MS)
        if score < lowest:
            best, lowest = place, score
    return best


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
    memory.inverse[job] = inverse
    memory.lasting[job] = (
        weights[EXPECTED] * np.log(requested_s * used)
        - weights[TYPICAL] * np.log(inverse)
        + weights[REQUESTED] * np.log(requested_s)
        + weights[SIZE] * np.log(m.size[0, job])
        + weights[SHARE] * m.size[0, job] / m.facts[0, PROCESSORS]
    )
