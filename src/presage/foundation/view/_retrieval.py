"""Which earlier jobs are shown to the model: by the state of the cluster, by user and request, by time."""

from __future__ import annotations

import numpy as np

from presage.foundation.view import numbers
from presage.foundation.view._compiling import fast, inner
from presage.foundation.view._records import CAMPAIGNS as REMEMBERED_CAMPAIGNS
from presage.foundation.view._records import RING, SHORT_RING, STARTED, View
from presage.foundation.view._scan import stride_for
from presage.foundation.view._summaries import insert, share_in_common

NEIGHBOURS, OF_USER, RECENT, STILL_WAITING = (
    numbers.NEIGHBOURS, numbers.OF_USER, numbers.RECENT, numbers.STILL_WAITING,
)  # fmt: skip
SIMILAR, LATEST, CAMPAIGNS, OTHERS, ALIKE, STILL_RUNNING = (
    numbers.SIMILAR, numbers.LATEST, numbers.CAMPAIGNS, numbers.OTHERS, numbers.ALIKE, numbers.STILL_RUNNING,
)  # fmt: skip
WEIGHTS = np.array(list(numbers.STATE_WEIGHTS.values()), np.float32)
OTHER_USER, OTHER_QUEUE, PER_START = np.float32(0.6), np.float32(1.2), np.float32(0.0004)
HABIT_WEIGHTS = np.array(list(numbers.HABIT_WEIGHTS.values()), np.float32)
UNLIKE = np.array([0.6, 0.3, 0.2, 0.5], np.float32)
"""What another user, group, queue and program add to the distance of two jobs as work."""
PER_END, FURTHEST = np.float32(0.00006), np.float32(5)
CLOSE = 1.5
"""How fast the weight of a neighbour falls with its distance."""
FINISHED = 3000
"""Finished jobs of anyone among which some like the new one are looked for."""


@fast
def _distance(left: np.ndarray, right: np.ndarray) -> np.float32:
    total = np.float32(0)
    for k in range(len(WEIGHTS)):
        total += WEIGHTS[k] * abs(left[k] - right[k])
    return total


@inner
def find_neighbours(view: View, state: np.ndarray, user: int, queue: int, far: np.ndarray, who: np.ndarray) -> int:
    """Write the started jobs whose submits found the cluster in the most similar state, nearest first.

    Returns how many there are.
    """
    starts = view.cluster[0].starts
    found = 0
    for back in range(min(starts, STARTED)):
        order = starts - 1 - back
        place = order % STARTED
        distance = _distance(view.started_state[place], state) + PER_START * np.float32(back)
        if view.started_keys[place, 0] != user:
            distance += OTHER_USER
        if view.started_keys[place, 1] != queue:
            distance += OTHER_QUEUE
        if found == NEIGHBOURS and distance >= far[NEIGHBOURS - 1]:
            continue
        found = insert(distance, view.started[order], far, who, found)
    return found


@inner
def fill_wait_context(
    view: View, index: int, time_s: float, neighbours: np.ndarray, found: int, out: np.ndarray
) -> None:
    """Write which jobs go into the context of a wait; -1 where there are fewer."""
    out[:] = -1
    out[:found] = neighbours[:found]
    me = view.jobs[index]
    user = view.users[me.user]
    scores = np.empty(max(OF_USER, STILL_WAITING))
    items = np.empty(max(OF_USER, STILL_WAITING), np.int64)
    count = 0
    for back in range(min(user.starts, SHORT_RING)):
        other = user.started[(user.starts - 1 - back) % SHORT_RING]
        score = _request_distance(view, index, other, 0.5, 0.5) + 0.04 * back
        count = insert(score, other, scores[:OF_USER], items[:OF_USER], count)
    out[NEIGHBOURS : NEIGHBOURS + count] = items[:count]
    cluster = view.cluster[0]
    at = NEIGHBOURS + OF_USER
    for back in range(min(cluster.starts, RECENT)):
        out[at + back] = view.started[cluster.starts - 1 - back]
    at += RECENT
    count = 0
    for k in range(0, cluster.waiting, stride_for(cluster.waiting)):
        other = view.waiting[k]
        if other == index:
            continue
        score = _request_distance(view, index, other, 0.5, 0.5)
        score += 0.1 * np.log1p(time_s - view.jobs[other].submit_s)
        if view.jobs[other].user != me.user:
            score += 1.5
        if view.jobs[other].queue != me.queue:
            score += 1.5
        count = insert(score, other, scores[:STILL_WAITING], items[:STILL_WAITING], count)
    out[at : at + count] = items[:count]


@inner
def find_similar(view: View, index: int, far: np.ndarray, who: np.ndarray) -> int:
    """Write the finished jobs of the same user that are most like this one, and return how many there are."""
    me = view.jobs[index]
    user = view.users[me.user]
    found = 0
    for back in range(min(user.ends, RING)):
        other = user.finished[(user.ends - 1 - back) % RING]
        score = _likeness(view, index, other) + 0.05 * min(back, 40) + 0.005 * back
        found = insert(score, other, far, who, found)
    return found


@inner
def find_others(view: View, index: int, far: np.ndarray, who: np.ndarray) -> int:
    """Write finished jobs of other users that are most like this one, and return how many there are."""
    me = view.jobs[index]
    ends = view.cluster[0].ends
    found = 0
    for back in range(min(ends, FINISHED)):
        other = view.finished[ends - 1 - back]
        if view.jobs[other].user == me.user:
            continue
        score = 0.001 * back
        if view.jobs[other].group != me.group:
            score += 0.7
        if found == OTHERS and score >= far[OTHERS - 1]:
            continue
        found = insert(score + _likeness(view, index, other), other, far, who, found)
    return found


@inner
def find_alike(view: View, index: int, habits: np.ndarray, far: np.ndarray, who: np.ndarray) -> int:
    """Write the finished jobs of anyone that were submitted in the most similar circumstances, nearest first.

    Returns how many there are.
    """
    me = view.jobs[index]
    ends = view.cluster[0].ends
    found = 0
    for back in range(min(ends, STARTED)):
        order = ends - 1 - back
        place = order % STARTED
        distance = PER_END * np.float32(back)
        if view.finished_keys[place, 0] != me.user:
            distance += UNLIKE[0]
        if view.finished_keys[place, 1] != me.group:
            distance += UNLIKE[1]
        if view.finished_keys[place, 2] != me.queue:
            distance += UNLIKE[2]
        if view.finished_keys[place, 3] != me.program:
            distance += UNLIKE[3]
        if found == ALIKE and distance >= far[ALIKE - 1]:
            continue
        distance += _distance_of_habits(view.finished_state[place], habits)
        if found == ALIKE and distance >= far[ALIKE - 1]:
            continue
        found = insert(distance, view.finished[order], far, who, found)
    return found


@fast
def _distance_of_habits(left: np.ndarray, right: np.ndarray) -> np.float32:
    total = np.float32(0)
    for k in range(len(HABIT_WEIGHTS)):
        total += HABIT_WEIGHTS[k] * min(abs(left[k] - right[k]), FURTHEST)
    return total


@inner
def fill_run_context(
    view: View,
    index: int,
    time_s: float,
    similar: np.ndarray,
    found: int,
    others: np.ndarray,
    found_others: int,
    alike: np.ndarray,
    found_alike: int,
    out: np.ndarray,
) -> None:
    """Write which jobs go into the context of a run time; -1 where there are fewer."""
    out[:] = -1
    out[:found] = similar[:found]
    me = view.jobs[index]
    user = view.users[me.user]
    at = SIMILAR
    for back in range(min(user.ends, LATEST)):
        out[at + back] = user.finished[(user.ends - 1 - back) % RING]
    at += LATEST
    _fill_campaigns(view, index, out[at : at + CAMPAIGNS])
    at += CAMPAIGNS
    out[at : at + found_others] = others[:found_others]
    at += OTHERS
    out[at : at + found_alike] = alike[:found_alike]
    at += ALIKE
    count = 0
    running = view.cluster[0].running
    scores = np.empty(STILL_RUNNING)
    items = np.empty(STILL_RUNNING, np.int64)
    for k in range(0, running, stride_for(running)):
        other = view.running[k]
        if view.jobs[other].user == me.user and other != index:
            # Those that run for long first: the short ones of the same kind are among the finished already.
            score = _request_distance(view, index, other, 0.6, 0.8) - 0.05 * np.log1p(
                time_s - view.jobs[other].start_s
            )
            count = insert(score, other, scores, items, count)
    out[at : at + count] = items[:count]


@inner
def _fill_campaigns(view: View, index: int, out: np.ndarray) -> None:
    """Write one job for each of the user's campaigns that are most like this one, however long ago they were.

    A campaign of a thousand jobs would otherwise leave no trace of those before it.
    """
    user = view.users[view.jobs[index].user]
    scores = np.empty(CAMPAIGNS)
    items = np.empty(CAMPAIGNS, np.int64)
    count = 0
    for back in range(min(user.campaigns, REMEMBERED_CAMPAIGNS)):
        other = user.campaign_jobs[(user.campaigns - 1 - back) % REMEMBERED_CAMPAIGNS]
        if other >= 0:
            count = insert(_likeness(view, index, other) + 0.02 * back, other, scores, items, count)
    out[:count] = items[:count]


@inner
def _request_distance(view: View, index: int, other: int, per_size: float, per_limit: float) -> float:
    me = view.jobs[index]
    job = view.jobs[other]
    return per_size * abs(job.log_size - me.log_size) + per_limit * abs(job.log_limit - me.log_limit)


@inner
def _likeness(view: View, index: int, other: int) -> float:
    """Return how unlike two jobs are as work, whoever submitted them."""
    me = view.jobs[index]
    job = view.jobs[other]
    score = _request_distance(view, index, other, 0.6, 0.8)
    score += 0.3 * abs(job.log_memory - me.log_memory) + 0.6 * abs(job.log_gpus - me.log_gpus)
    if job.program != me.program:
        score += 0.8
    if job.queue != me.queue:
        score += 0.5
    if me.name_bits and job.name != me.name:
        score += 0.8 * (1.0 - share_in_common(me.name_bits, job.name_bits))
    return score


@inner
def is_identical(view: View, index: int, other: int) -> bool:
    """Return whether another job is of the same user and asks for the same."""
    me = view.jobs[index]
    job = view.jobs[other]
    return other != index and job.user == me.user and job.size == me.size and job.limit_s == me.limit_s


@inner
def closeness(distance: float, nearest: float) -> float:
    """Return how much a neighbour counts, against the nearest one."""
    return np.exp(-CLOSE * (distance - nearest))
