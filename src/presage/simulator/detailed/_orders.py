"""The orders of presage.policies.cluster_orders and its kin, compiled; the lowest score goes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.simulator._structures import NEVER
from presage.simulator.detailed._compiling import compiled, lean
from presage.simulator.detailed._state import FULL, NOW, RUNNING, WAITERS, Cluster, Rules

if TYPE_CHECKING:
    from presage.simulator.detailed._state import Floats, Ints, Records

# Codes of presage.policies.
STATIC = -1
WFP3, UNICEP, LXF = 0, 1, 2
SRTF, LAS, MULTIFACTOR, DRF, QSSF, VOLCANO, PRIORITY, SCORER = 10, 11, 12, 13, 14, 15, 16, 17
# Places of the settings of MULTIFACTOR in Rules.numbers.
AGE, SIZE, FAIR_SHARE, QOS, MAX_AGE_S, HALF_LIFE_S, SMALL_FIRST, CAPACITY = 0, 1, 2, 3, 4, 5, 6, 7
FEATURES = 8
_TINY = 1e-15


@compiled
def in_order(cluster: Cluster, queue: Ints) -> Ints:
    """Return the jobs of `queue` with the first to go in front; equal ones keep their order, boosted ones lead."""
    rules, jobs = cluster.rules, cluster.jobs
    if rules.order == STATIC:
        return queue  # it is kept in order
    if rules.order == MULTIFACTOR:
        cluster.usage[0] = 0.0
        for user in range(len(cluster.users)):
            settle_usage(cluster.users, user, cluster.clock[NOW], rules)
            cluster.usage[0] += cluster.users[user].usage
    scores = np.empty(len(queue), np.float64)
    boosts = np.empty(len(queue), np.int64)
    for at in range(len(queue)):
        scores[at] = score(cluster, queue[at])
        boosts[at] = jobs[queue[at]].boost
    line = np.argsort(scores, kind="mergesort")
    if boosts.any():
        line = line[np.argsort(-boosts[line], kind="mergesort")]
    return queue[line]


@lean
def score(cluster: Cluster, job: int) -> float:
    """Return the score of a waiting or running job at this instant."""
    jobs, rule, now = cluster.jobs, cluster.rules.order, cluster.clock[NOW]
    one = jobs[job]
    waited_s = (now - one.submit) / 1000.0
    run_s = max(one.estimate / 1000.0, 1.0)
    value = 0.0
    if rule == STATIC:
        value = float(one.rank)
    elif rule == WFP3:
        ratio = waited_s / run_s
        value = -(ratio * ratio * ratio) * one.size
    elif rule == UNICEP:
        value = -(waited_s + _TINY) / (np.log2(one.size + _TINY) * run_s)
    elif rule == LXF:
        value = -(waited_s + run_s) / run_s
    elif rule == SRTF:
        value = remaining_ms(jobs, job, now)
    elif rule == LAS:
        value = float(_service_level(cluster.rules.numbers, attained_s(jobs, job, now)))
    elif rule == MULTIFACTOR:
        value = -_multifactor(cluster, job, waited_s)
    elif rule in (DRF, VOLCANO):
        value = dominant_share(cluster, one.user)
    elif rule == QSSF:
        value = one.score
    elif rule == SCORER:
        _describe(cluster, job, waited_s, run_s)
        value = _network(cluster.rules.numbers, cluster.features)
    return value


@lean
def remaining_ms(jobs: Records, job: int, now: int) -> float:
    """Return how much longer a job is believed to run: its estimate, less what it is known to have done."""
    left = jobs[job].left
    if jobs[job].status == RUNNING:
        left = max(0, left - (now - jobs[job].since) * jobs[job].rate)
    return float(max(0.0, jobs[job].estimate - (jobs[job].work - left) / FULL))


@lean
def attained_s(jobs: Records, job: int, now: int) -> float:
    """Return the processor seconds that a job has held so far."""
    held = jobs[job].attained
    if jobs[job].status == RUNNING:
        held += (now - jobs[job].since) * jobs[job].size
    return float(held / 1000.0)


@lean
def _service_level(thresholds_s: Floats, held_s: float) -> int:
    level = 0
    for threshold_s in thresholds_s:
        if held_s >= threshold_s:
            level += 1
    return level


@lean
def next_level_at(cluster: Cluster) -> int:
    """Return when a running job passes the next threshold of service, or NEVER."""
    jobs, ends, now, thresholds_s = cluster.jobs, cluster.ends, cluster.clock[NOW], cluster.rules.numbers
    earliest = NEVER
    for at in range(ends.length[0]):
        job = ends.jobs[at]
        held_s = attained_s(jobs, job, now)
        for threshold_s in thresholds_s:
            if held_s < threshold_s:
                wait_ms = np.ceil((threshold_s - held_s) * 1000.0 / jobs[job].size)
                earliest = min(earliest, now + max(1, int(wait_ms)))
                break
    return earliest


@lean
def dominant_share(cluster: Cluster, user: int) -> float:
    """Return the largest share of any resource of the whole cluster that a user holds."""
    holder, totals = cluster.users[user], cluster.totals
    return float(max(holder.cpu / totals[0], holder.mem / totals[1], holder.gpu / totals[2]))


@lean
def settle_usage(users: Records, user: int, now: int, rules: Rules) -> None:
    """Bring the decayed usage of a user up to date, if the order counts it."""
    if rules.order != MULTIFACTOR:
        return
    half_life_s = rules.numbers[HALF_LIFE_S]
    decay = 2.0 ** (-(now - users[user].usage_at) / 1000.0 / half_life_s)
    gained = users[user].size * half_life_s / np.log(2.0) * (1.0 - decay)
    users[user].usage = users[user].usage * decay + gained
    users[user].usage_at = now


@lean
def _multifactor(cluster: Cluster, job: int, waited_s: float) -> float:
    numbers, users, one = cluster.rules.numbers, cluster.users, cluster.jobs[job]
    size = one.size / numbers[CAPACITY]
    if numbers[SMALL_FIRST] > 0:
        size = 1.0 - size
    used = cluster.usage[0]
    share = users[one.user].usage / used if used > 0 else 0.0
    fair = 2.0 ** (-share * len(users))
    return float(
        numbers[AGE] * min(1.0, waited_s / numbers[MAX_AGE_S])
        + numbers[SIZE] * size
        + numbers[FAIR_SHARE] * fair
        + numbers[QOS] * one.score
    )


@lean
def arrival_score(jobs: Records, users: Records, job: int) -> float:
    """Return size times the run time that the user's past jobs foretell; the request where there are none."""
    user = users[jobs[job].user]
    run_s = user.past_run_s / user.past_jobs if user.past_jobs > 0 else jobs[job].estimate / 1000.0
    return float(run_s * jobs[job].size)


@lean
def _describe(cluster: Cluster, job: int, waited_s: float, run_s: float) -> None:
    """Fill in the features of a job; their names are those of presage.policies.scorer.FEATURES."""
    features, one = cluster.features, cluster.jobs[job]
    features[0] = np.log1p(run_s)
    features[1] = np.log1p(one.size)
    features[2] = np.log1p(waited_s)
    features[3] = np.log1p(waited_s / run_s)
    features[4] = np.log1p(run_s * one.size)
    features[5] = np.log1p(cluster.clock[WAITERS])
    features[6] = np.log1p(cluster.users[one.user].size)
    features[7] = np.log1p(cluster.ends.length[0])


@lean
def _network(numbers: Floats, features: Floats) -> float:
    """Return what a small network makes of features; its layout is that of presage.policies.scorer.Scorer."""
    hidden = int(numbers[0])
    width = FEATURES + 1
    if hidden == 0:
        return float(_weighted(numbers, 1, features))
    out = 1 + hidden * width
    total = numbers[out + hidden]
    for unit in range(hidden):
        total += numbers[out + unit] * np.tanh(_weighted(numbers, 1 + unit * width, features))
    return float(total)


@lean
def _weighted(numbers: Floats, first: int, features: Floats) -> float:
    total = numbers[first + FEATURES]
    for feature in range(FEATURES):
        total += numbers[first + feature] * features[feature]
    return float(total)
