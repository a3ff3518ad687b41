"""The event loop for learned orders: EASY backfilling, a guard against starvation, and overrides of an operator.

Jobs are scored anew for every pass, by a rule or by a `QueueScorer`. Times are integer milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._compiling import compiled, inner
from presage.simulator._listed import reserve_behind
from presage.simulator._pooled import UNICEP, WFP3
from presage.simulator._structures import begin_running, close_ranks, end_first, renew_plans, smallest_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

# What scores a job: its rank, one of the dynamic rules of `_pooled` (0 to 2), or a learned scorer.
BY_RANK, LEARNED = -1, 3
EXPECTED, TYPICAL, REQUESTED, SIZE, SHARE, WAITED, SLOWDOWN, USER, FITS = range(9)
OF_THE_JOB, OF_THE_QUEUE = 9, 3
HALF_LIFE_MS = 7 * 86_400_000.0
AGEING_MS = 4 * 3_600_000.0
HOUR_MS = 3_600_000.0
_TINY = 1e-15
FIRST_OF_ALL, OVERDUE = -np.inf, -1e300


class Work(NamedTuple):
    """The jobs by submit, and what decisions know of them; some of it from several sources."""

    submit: Ints
    run: Ints
    plan: Ints
    limit: Ints
    size: Ints
    user: Ints
    urgent: NDArray[np.bool_]
    """An operator wants these before all others."""
    estimate_s: Floats
    """(sources, jobs): for rules."""
    rank: Ints
    """(sources, jobs): for orders that never change."""
    known: Floats
    """(sources, jobs, 5): the first five of what a scorer reads of a job."""
    inverse: Floats
    """(sources, jobs): the mean of 1 / max(run, 10 s), in 1/s."""


class Rules(NamedTuple):
    """Who scores, and how long nobody waits."""

    rule: int
    weights: Floats
    hidden: Floats
    out: Floats
    attention: Floats
    guard_ms: float
    """0: no guard."""
    guard_backlog: float
    since_ms: Ints
    """Instants from which on another source of knowledge is used, in order."""
    source: Ints


@compiled
def run_guided(work: Work, rules: Rules, capacity: int, start: Ints) -> None:
    """Fill `start` with EASY backfilling by plans, which nobody but the oldest job that waited too long passes."""
    count = len(work.submit)
    ends, ending = np.empty(count + 1, np.int64), np.empty(count + 1, np.int64)
    planned, holding = np.empty(count + 1, np.int64), np.empty(count + 1, np.int64)
    planned_end = np.empty(count, np.int64)
    queue = np.empty(count, np.int64)
    queued = np.ones(count, np.bool_)
    usage = np.zeros(work.user.max() + 1)
    used_at = np.zeros(len(usage), np.int64)
    total = np.zeros(2)
    epoch = -1
    running = waiting = arrived = 0
    free = capacity
    while arrived < count or running > 0:
        next_is_end = running > 0 and (arrived >= count or ends[0] <= work.submit[arrived])
        now = ends[0] if next_is_end else work.submit[arrived]
        while running > 0 and ends[0] <= now:
            running -= 1
            job = end_first(ends, ending, planned, holding, planned_end, running)
            free += work.size[job]
            count_use(usage, used_at, total, work.user[job], float(work.run[job]) * work.size[job], now)
        renew_plans(planned, holding, planned_end, running, now, start, work.limit)
        while arrived < count and work.submit[arrived] <= now:
            queue[waiting] = arrived
            waiting += 1
            arrived += 1
        while epoch + 1 < len(rules.since_ms) and rules.since_ms[epoch + 1] <= now:
            epoch += 1
        if smallest_of(queue, waiting, work.size) > free:
            continue
        source = rules.source[epoch] if epoch >= 0 else 0
        scores = score_queue(work, rules, queue[:waiting], now, free, capacity, source, usage, used_at, total)
        put_first(work, rules, queue[:waiting], now, capacity, scores)
        starts = start_best(queue[:waiting], scores, now, work, planned, holding, running, free)
        for at in starts:
            job = queue[at]
            start[job] = now
            free -= work.size[job]
            end, planned_for = now + work.run[job], now + work.plan[job]
            begin_running(ends, ending, planned, holding, planned_end, running, job, end, planned_for)
            running += 1
            queued[job] = False
        waiting = close_ranks(queue, queued, waiting)


@compiled
def start_best(
    queue: Ints, scores: Floats, now: int, work: Work, planned: Ints, holding: Ints, running: int, free: int
) -> Ints:
    """Return the places in the queue of the jobs that start now, with EASY.

    The same as sorting by score and `start_easily`, without sorting: few jobs start, and of those behind the first
    that does not fit few may. Ties go by place.
    """
    taken = np.zeros(len(queue), np.bool_)
    starts = np.empty(len(queue), np.int64)
    count = 0
    while True:
        head = -1
        for at in range(len(queue)):
            if not taken[at] and (head < 0 or scores[at] < scores[head]):
                head = at
        if head < 0 or work.size[queue[head]] > free:
            break
        taken[head] = True
        starts[count] = head
        count += 1
        free -= work.size[queue[head]]
    if head < 0 or free == 0:
        return starts[:count]
    shadow, extra = reserve_behind(
        queue[starts[:count]], now, work.plan, work.size, planned, holding, running, free, work.size[queue[head]]
    )
    taken[head] = True
    tries = np.empty(len(queue), np.int64)
    found = 0
    for at in range(len(queue)):
        job = queue[at]
        if (
            not taken[at]
            and work.size[job] <= free
            and (now + work.plan[job] <= shadow or work.size[job] <= extra)
        ):
            tries[found] = at
            found += 1
    for at in tries[:found][np.argsort(scores[tries[:found]], kind="mergesort")]:
        job = queue[at]
        if work.size[job] > free:
            continue
        if now + work.plan[job] > shadow:
            if work.size[job] > extra:
                continue
            extra -= work.size[job]
        starts[count] = at
        count += 1
        free -= work.size[job]
    return starts[:count]


@inner
def count_use(usage: Floats, used_at: Ints, total: Floats, user: int, amount: float, now: int) -> None:
    """Add to what a user has used, and all together; `total` holds the sum and when it was true."""
    usage[user] = usage[user] * np.exp2((used_at[user] - now) / HALF_LIFE_MS) + amount
    used_at[user] = now
    total[0] = total[0] * np.exp2((total[1] - now) / HALF_LIFE_MS) + amount
    total[1] = now


@inner
def put_first(work: Work, rules: Rules, queue: Ints, now: int, capacity: int, scores: Floats) -> None:
    """Give the oldest job the lowest score if it has waited too long; an operator's wishes go before that."""
    if rules.guard_ms > 0:
        longest = rules.guard_ms
        if rules.guard_backlog > 0:
            longest += rules.guard_backlog * _backlog(work, queue) / capacity
        # The queue stays in submit order.
        if now - work.submit[queue[0]] > longest:
            scores[0] = OVERDUE
    for at in range(len(queue)):
        if work.urgent[queue[at]]:
            scores[at] = FIRST_OF_ALL


@inner
def _backlog(work: Work, queue: Ints) -> float:
    amount = 0.0
    for at in range(len(queue)):
        amount += float(work.limit[queue[at]]) * work.size[queue[at]]
    return amount


@compiled
def score_queue(
    work: Work,
    rules: Rules,
    queue: Ints,
    now: int,
    free: int,
    capacity: int,
    source: int,
    usage: Floats,
    used_at: Ints,
    total: Floats,
) -> Floats:
    """Return the score of every waiting job."""
    scores = np.empty(len(queue), np.float64)
    if rules.rule != LEARNED:
        for at in range(len(queue)):
            scores[at] = _by_rule(work, rules.rule, queue[at], now, source)
        return scores
    used = total[0] * np.exp2((total[1] - now) / HALF_LIFE_MS)
    units = len(rules.out)
    if units == 0:
        for at in range(len(queue)):
            scores[at] = _weighed(work, rules.weights, queue[at], now, free, source, usage, used_at, used)
        return scores
    reads = np.empty((len(queue), OF_THE_JOB))
    for at in range(len(queue)):
        _read_job(work, queue[at], now, free, source, usage, used_at, used, reads[at])
    _by_units(rules, reads, _read_queue(work, queue, free, capacity), scores)
    return scores


@inner
def _by_rule(work: Work, rule: int, job: int, now: int, source: int) -> float:
    if rule == BY_RANK:
        return float(work.rank[source, job])
    waited_s = (now - work.submit[job]) / 1000.0
    run_s = max(work.estimate_s[source, job], 1.0)
    if rule == WFP3:
        ratio = waited_s / run_s
        return float(-(ratio * ratio * ratio) * work.size[job])
    if rule == UNICEP:
        return float(-(waited_s + _TINY) / (np.log2(work.size[job] + _TINY) * run_s))
    return float(-(waited_s + run_s) / run_s)


@inner
def _weighed(
    work: Work,
    weights: Floats,
    job: int,
    now: int,
    free: int,
    source: int,
    usage: Floats,
    used_at: Ints,
    used: float,
) -> float:
    """Return the weighted sum of what `_read_job` writes, without what has no weight: logarithms take the time."""
    score = 0.0
    for k in range(WAITED):
        score += weights[k] * work.known[source, job, k]
    waited = float(now - work.submit[job])
    if weights[WAITED] != 0.0:
        score += weights[WAITED] * np.log(1.0 + waited / AGEING_MS)
    if weights[SLOWDOWN] != 0.0:
        score += weights[SLOWDOWN] * np.log(1.0 + waited / 1000.0 * work.inverse[source, job])
    if weights[USER] != 0.0 and used > 0:
        user = work.user[job]
        score += weights[USER] * usage[user] * np.exp2((used_at[user] - now) / HALF_LIFE_MS) / used
    if work.size[job] <= free:
        score += weights[FITS]
    return score


@inner
def _read_job(
    work: Work,
    job: int,
    now: int,
    free: int,
    source: int,
    usage: Floats,
    used_at: Ints,
    used: float,
    read: Floats,
) -> None:
    """Write what a scorer reads of a job."""
    for k in range(WAITED):
        read[k] = work.known[source, job, k]
    waited = float(now - work.submit[job])
    read[WAITED] = np.log(1.0 + waited / AGEING_MS)
    read[SLOWDOWN] = np.log(1.0 + waited / 1000.0 * work.inverse[source, job])
    user = work.user[job]
    read[USER] = usage[user] * np.exp2((used_at[user] - now) / HALF_LIFE_MS) / used if used > 0 else 0.0
    read[FITS] = 1.0 if work.size[job] <= free else 0.0


@compiled
def _read_queue(work: Work, queue: Ints, free: int, capacity: int) -> Floats:
    read = np.empty(OF_THE_QUEUE)
    read[0] = np.log(1.0 + len(queue))
    read[1] = free / capacity
    read[2] = np.log(1.0 + _backlog(work, queue) / capacity / HOUR_MS)
    return read


@compiled
def _by_units(rules: Rules, reads: Floats, of_queue: Floats, scores: Floats) -> None:
    """Write the scores of a scorer with hidden units; see `presage.policies.queue_scorer`."""
    mean = _attended(rules.attention, reads)
    units = len(rules.out)
    same = np.empty(units)
    for unit in range(units):
        row = rules.hidden[unit]
        value = row[OF_THE_JOB + OF_THE_QUEUE + OF_THE_JOB]
        for k in range(OF_THE_QUEUE):
            value += row[OF_THE_JOB + k] * of_queue[k]
        for k in range(OF_THE_JOB):
            value += row[OF_THE_JOB + OF_THE_QUEUE + k] * mean[k]
        same[unit] = value
    for at in range(len(reads)):
        score = 0.0
        for k in range(OF_THE_JOB):
            score += rules.weights[k] * reads[at, k]
        for unit in range(units):
            value = same[unit]
            for k in range(OF_THE_JOB):
                value += rules.hidden[unit, k] * reads[at, k]
            score += rules.out[unit] * np.tanh(value)
        scores[at] = score


@compiled
def _attended(attention: Floats, reads: Floats) -> Floats:
    """Return the mean of what was read, each job counting by the softmax of its attention."""
    powers = np.zeros(len(reads))
    for at in range(len(reads)):
        for k in range(OF_THE_JOB):
            powers[at] += attention[k] * reads[at, k]
    most = powers.max()
    mean = np.zeros(OF_THE_JOB)
    total = 0.0
    for at in range(len(reads)):
        share = np.exp(powers[at] - most)
        total += share
        for k in range(OF_THE_JOB):
            mean[k] += share * reads[at, k]
    return mean / total
