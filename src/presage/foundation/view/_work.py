"""What is known of a job as work: how long jobs like it ran, and how they ended."""

from __future__ import annotations

import numpy as np

from presage.foundation.view import numbers
from presage.foundation.view._compiling import inner
from presage.foundation.view._events import estimate_s, place_in_campaign
from presage.foundation.view._records import AHEAD, RING, View
from presage.foundation.view._retrieval import (
    closeness,
    fill_run_context,
    find_alike,
    find_others,
    find_similar,
    is_identical,
)
from presage.foundation.view._summaries import write_quartiles, write_spread

P = numbers.PLACE
AT_RUNS, AT_HABITS, AT_ALIKE = P["run_last"], P["limit_use"], P["alike_p10"]
AT_ALIKE_MEAN, AT_ALIKE_DISTANCE, AT_FAILURES = P["alike_mean"], P["alike_distance"], P["alike_failures"]
SIMILAR_P10, OTHERS_P50, LIMIT_AGAIN = (
    numbers.RUNS.index(name) for name in ("similar_p10", "others_p50", "limit_again")
)
HABIT_PLACES = np.array([P[name] for name in numbers.HABIT_STATE])
SIMILAR, OTHERS, ALIKE = numbers.SIMILAR, numbers.OTHERS, numbers.ALIKE
AT_TRUST, AT_CAMPAIGN = P["user_work_error"], P["campaign_place"]
RARE, UNKNOWN = 0.001, -3.0
USUAL_ERROR = 1.0
"""Of an anchor in log seconds, where none is known yet."""


@inner
def write_work(x: np.ndarray, view: View, index: int, time_s: float, context: np.ndarray) -> None:
    """Write what is known of jobs like this one as work, how long they ran and how they ended."""
    far = np.empty(SIMILAR)
    similar = np.empty(SIMILAR, np.int64)
    found = find_similar(view, index, far, similar)
    others = np.empty(OTHERS, np.int64)
    found_others = find_others(view, index, np.empty(OTHERS), others)
    _write_runs(x, view, index, time_s, similar, found, others, found_others)
    _write_campaign(x, view, index)
    habits = np.empty(len(HABIT_PLACES), np.float32)
    for k in range(len(HABIT_PLACES)):
        habits[k] = x[HABIT_PLACES[k]]
    far_alike = np.empty(ALIKE)
    alike = np.empty(ALIKE, np.int64)
    found_alike = find_alike(view, index, habits, far_alike, alike)
    _write_alike(x, view, far_alike, alike, found_alike)
    _write_failures(x, view, index, similar, found)
    _write_trust(x, view, index)
    fill_run_context(view, index, time_s, similar, found, others, found_others, alike, found_alike, context)


@inner
def _write_alike(x: np.ndarray, view: View, far: np.ndarray, who: np.ndarray, found: int) -> None:
    runs = np.empty(ALIKE)
    weight = weighted = failed = 0.0
    for k in range(found):
        other = view.jobs[who[k]]
        runs[k] = other.log_run
        close = closeness(far[k], far[0])
        weight += close
        weighted += close * other.log_run
        if other.outcome > 0:
            failed += close
    write_spread(x, AT_ALIKE, runs, found)
    x[AT_ALIKE_MEAN] = weighted / weight if found else -1.0
    x[AT_ALIKE_DISTANCE] = far[0] if found else 9.0
    x[AT_FAILURES] = _log_share(failed / weight if found else -1.0)


@inner
def _write_failures(x: np.ndarray, view: View, index: int, similar: np.ndarray, found: int) -> None:
    """Write how often jobs fail, as logarithms: failures are rare, and a rate of 1 % is not one of 0.1 %."""
    job = view.jobs[index]
    user = view.users[job.user]
    failed = 0
    for k in range(found):
        if view.jobs[similar[k]].outcome > 0:
            failed += 1
    at = AT_FAILURES
    x[at + 1] = _log_share(failed / found if found else -1.0)
    x[at + 2] = -1.0
    for back in range(min(user.ends, RING)):
        other = user.finished[(user.ends - 1 - back) % RING]
        if is_identical(view, index, other):
            x[at + 2] = 1.0 if view.jobs[other].outcome > 0 else 0.0
            break
    x[at + 3] = _log_share(user.failures)
    x[at + 4] = _log_share(user.failures_slow)
    x[at + 5] = np.log1p(user.ends_since_failure)
    x[at + 6] = _log_share(view.queues[job.queue].failures)
    x[at + 7] = _log_share(view.cluster[0].failures)


@inner
def _write_trust(x: np.ndarray, view: View, index: int) -> None:
    """Write how far the two anchors of run times were off lately, for jobs of the user and for all."""
    user = view.users[view.jobs[index].user]
    cluster = view.cluster[0]
    x[AT_TRUST] = _known_error(user.work_error)
    x[AT_TRUST + 1] = _known_error(user.run_error)
    x[AT_TRUST + 2] = _known_error(cluster.work_error)
    x[AT_TRUST + 3] = _known_error(cluster.run_error)


@inner
def _write_campaign(x: np.ndarray, view: View, index: int) -> None:
    """Write how many jobs of its campaign came before: the more of the same, the shorter they mostly are."""
    job = view.jobs[index]
    place = place_in_campaign(view, index) if job.stands == AHEAD else job.campaign_place
    x[AT_CAMPAIGN] = np.log1p(place)


@inner
def _known_error(error: float) -> float:
    return error if error >= 0 else USUAL_ERROR


@inner
def _log_share(share: float) -> float:
    """Return the logarithm of a share, with a floor; where nothing is known (below 0), that of one in twenty."""
    return np.log(share + RARE) if share >= 0 else UNKNOWN


@inner
def _write_runs(
    x: np.ndarray, view: View, index: int, time_s: float, similar: np.ndarray, found: int, others: np.ndarray,
    found_others: int,
) -> None:  # fmt: skip
    job = view.jobs[index]
    user = view.users[job.user]
    seen = user.ends
    at = AT_RUNS
    x[at] = view.jobs[user.finished[(seen - 1) % RING]].log_run if seen >= 1 else -1.0
    x[at + 1] = view.jobs[user.finished[(seen - 2) % RING]].log_run if seen >= 2 else -1.0
    total = use = longest = 0.0
    few = min(seen, 8)
    for back in range(few):
        other = view.jobs[user.finished[(seen - 1 - back) % RING]]
        total += other.log_run
        use += (other.end_s - other.start_s) / max(other.limit_s, 1.0)
        longest = max(longest, other.log_run)
    x[at + 2] = total / few if few else -1.0
    x[at + 3] = -1.0
    for back in range(min(seen, RING)):
        other = user.finished[(seen - 1 - back) % RING]
        if is_identical(view, index, other):
            x[at + 3] = view.jobs[other].log_run
            break
    x[at + 4] = longest if few else -1.0
    x[at + 5] = np.log1p(estimate_s(view, index))
    values = np.empty(SIMILAR)
    close = min(found, 12)
    for k in range(close):
        values[k] = view.jobs[similar[k]].log_run
    write_spread(x, at + SIMILAR_P10, values, close)
    for k in range(min(found_others, 8)):
        values[k] = view.jobs[others[k]].log_run
    values[: min(found_others, 8)].sort()
    x[at + OTHERS_P50] = values[min(found_others, 8) // 2] if found_others else -1.0
    x[at + LIMIT_AGAIN] = job.log_limit
    at = AT_HABITS
    x[at] = use / few if few else -1.0
    x[at + 1] = np.log1p(seen)
    x[at + 2] = np.log1p(time_s - user.last_end_s) if user.last_end_s >= 0 else -1.0
    x[at + 3] = np.log1p(time_s - view.jobs[user.last_submit].submit_s) if user.last_submit >= 0 else -1.0
    for k in range(close):
        other = view.jobs[similar[k]]
        values[k] = other.log_run - other.log_limit
    write_quartiles(x, at + 4, values, close, -9.0)
    x[at + 7] = np.log1p(close)
    x[at + 8] = user.failures
