"""All numbers of one question, and the earlier jobs that go with it."""

from __future__ import annotations

import numpy as np

from presage.foundation.view import numbers
from presage.foundation.view._compiling import compiled, inner
from presage.foundation.view._records import (
    AHEAD,
    CLASS_RING,
    DONE,
    RANKED,
    RUNNING,
    SHORT_RING,
    SUBMITS,
    WAITING,
    View,
)
from presage.foundation.view._retrieval import closeness, fill_wait_context, find_neighbours, is_identical
from presage.foundation.view._scan import write_running, write_waiting
from presage.foundation.view._summaries import write_quartiles, write_spread
from presage.foundation.view._work import write_work

P = numbers.PLACE
AT_REQUEST, AT_RANKS, AT_MACHINE, AT_RATES, AT_PREVIOUS = (
    P["size"], P["rank_size"], P["free"], P["submits_10min"], P["identical_state"],
)  # fmt: skip
AT_WAITS, AT_DISTANCES, AT_RUNS = P["queue_last"], P["class_jobs"], P["run_last"]
AT_CALENDAR, AT_WAITS_RELATIVE, AT_RUNS_RELATIVE, AT_ANCHORS, AT_ALIKE = (
    P["hour_sin"], P["queue_last_relative"], P["run_last_relative"], P["wait_anchor"], P["alike_p10"],
)  # fmt: skip
WAITING_JOBS, WAITING_ESTIMATED, USER_JOBS, QUEUE_JOBS = (
    P["waiting_jobs"], P["waiting_estimated"], P["user_jobs"], P["queue_jobs"],
)  # fmt: skip
LENGTH_WAITS, LENGTH_RUNS, LENGTH_ALIKE = len(numbers.WAITS), len(numbers.RUNS), len(numbers.ALIKE_RUNS)
IN_CLASS, OF_USER, NEIGHBOUR, NEIGHBOUR_MEAN, LATELY = (
    numbers.WAITS.index(name)
    for name in ("class_p10", "user_p25", "neighbour_p10", "neighbour_mean", "recent_p10")
)
SIMILAR_P50, OTHERS_P50 = numbers.RUNS.index("similar_p50"), numbers.RUNS.index("others_p50")
RANKED_PLACES = np.array(
    [P[name] for name in ("size", "limit", "area_share", "waiting_area", "waiting_jobs", "remaining_by_estimate",
                          "smaller_area", "free", "user_area")]
)  # fmt: skip
STATE_PLACES = np.array([P[name] for name in numbers.STATE])
HABIT_PLACES = np.array([P[name] for name in numbers.HABIT_STATE])
AT_WORK_ANCHOR, AT_ALIKE_P50 = P["work_anchor"], P["alike_p50"]
NEIGHBOURS = numbers.NEIGHBOURS
NEVER = np.float32(-30)
"""What a relative number says where there is nothing to compare with."""
HOUR_S, SIX_HOURS_S = 3600.0, 21600.0


@compiled
def ask(view: View, index: int, time_s: float, x: np.ndarray, waits: np.ndarray, runs: np.ndarray) -> None:
    """Write the numbers and contexts of job `index` as seen at `time_s`.

    The job may be about to be submitted, or wait, or run. Everything before that time must have been told.
    """
    job = view.jobs[index]
    cluster = view.cluster[0]
    machine = max(cluster.size, 1.0)
    free = max(machine - cluster.used, 0.0)
    _write_request(x, view, index, time_s, machine, free)
    waiting_twin = write_waiting(x, view, index, time_s, machine)
    write_running(x, view, index, time_s, machine, free)
    _write_rates(x, view, index, time_s, machine)
    _write_previous(x, view, index, time_s, waiting_twin)
    _write_calendar(x, view, index, time_s)
    _write_recent_waits(x, view, index)
    _write_ranks(x, view)
    far = np.empty(NEIGHBOURS)
    who = np.empty(NEIGHBOURS, np.int64)
    state = np.empty(len(STATE_PLACES), np.float32)
    for k in range(len(STATE_PLACES)):
        state[k] = x[STATE_PLACES[k]]
    found = find_neighbours(view, state, job.user, job.queue, far, who)
    _write_neighbours(x, view, far, who, found)
    fill_wait_context(view, index, time_s, who, found, waits)
    write_work(x, view, index, time_s, runs)
    _write_relative(x, view, index)
    if job.stands == AHEAD:
        for k in range(len(STATE_PLACES)):
            job.state[k] = x[STATE_PLACES[k]]
        for k in range(len(HABIT_PLACES)):
            job.habit_state[k] = x[HABIT_PLACES[k]]


@inner
def _write_request(x: np.ndarray, view: View, index: int, time_s: float, machine: float, free: float) -> None:
    job = view.jobs[index]
    cluster = view.cluster[0]
    at = AT_REQUEST
    x[at] = job.log_size
    x[at + 1] = np.log(job.size / machine)
    x[at + 2] = job.log_limit
    x[at + 3] = np.log1p(job.size * job.limit_s / machine)
    x[at + 4] = 1.0 if job.size == 1 else 0.0
    x[at + 5] = job.has_limit
    x[at + 6] = job.log_gpus
    x[at + 7] = job.gpus / cluster.gpus
    x[at + 8] = job.log_memory
    x[at + 9] = job.has_memory
    x[at + 10] = np.log1p(time_s - job.submit_s) if job.stands == WAITING else 0.0
    x[at + 11] = np.log1p(time_s - job.start_s) if job.stands == RUNNING else 0.0
    at = AT_MACHINE
    x[at] = free / machine
    x[at + 1] = cluster.used / cluster.peak
    x[at + 2] = (free - job.size) / machine
    x[at + 3] = 1.0 if free >= job.size else 0.0
    free_gpus = max(cluster.gpus - cluster.used_gpus, 0.0)
    x[at + 4] = free_gpus / cluster.gpus
    x[at + 5] = (free_gpus - job.gpus) / cluster.gpus if job.gpus > 0 else 0.0
    x[at + 6] = 1.0 if job.gpus > 0 and free_gpus >= job.gpus else 0.0
    x[at + 7] = np.log1p(cluster.running)


@inner
def _write_rates(x: np.ndarray, view: View, index: int, time_s: float, machine: float) -> None:
    """Write how fast jobs come and start, and how long queues last at the rate at which they drain."""
    job = view.jobs[index]
    cluster = view.cluster[0]
    _advance_windows(view, time_s)
    at = AT_RATES
    x[at] = np.log1p(cluster.jobs - cluster.submits_10min)
    x[at + 1] = np.log1p(cluster.jobs - cluster.submits_60min)
    x[at + 2] = np.log1p(cluster.starts - cluster.starts_10min)
    x[at + 3] = np.log1p(cluster.starts - cluster.starts_60min)
    started = view.jobs[view.started[max(cluster.starts - 1, 0)]]
    x[at + 4] = np.log1p(time_s - started.start_s) if cluster.starts else -1.0
    x[at + 5] = np.log1p(time_s - cluster.last_end_s) if cluster.last_end_s >= 0 else -1.0
    area = 0.0
    for k in range(max(cluster.starts_6h, cluster.starts - 400), cluster.starts):
        other = view.jobs[view.started[k]]
        area += other.size * other.estimate_s
    waiting = np.expm1(x[WAITING_ESTIMATED]) * machine
    x[at + 6] = np.log1p(area / machine)
    x[at + 7] = np.log1p(waiting / max(area, 1.0))
    user = view.users[job.user]
    queue = view.queues[job.queue]
    x[at + 8] = x[at + 9] = x[at + 10] = -1.0
    seen = min(user.starts, 16)
    if seen >= 2:
        first = view.jobs[user.started[(user.starts - seen) % SHORT_RING]].start_s
        x[at + 8] = _drain(np.expm1(x[USER_JOBS]), time_s - first, seen)
    seen = min(queue.starts, SHORT_RING)
    if seen >= 4:
        first = queue.start_s[(queue.starts - seen) % SHORT_RING]
        x[at + 9] = _drain(np.expm1(x[QUEUE_JOBS]), time_s - first, seen)
    seen = min(cluster.starts, SHORT_RING)
    if seen >= 4:
        first = view.jobs[view.started[cluster.starts - seen]].start_s
        x[at + 10] = _drain(np.expm1(x[WAITING_JOBS]), time_s - first, seen)


@inner
def _drain(waiting: float, span_s: float, starts: int) -> float:
    return np.log1p((waiting + 1) * max(span_s, 1.0) / starts)


@inner
def _advance_windows(view: View, time_s: float) -> None:
    cluster = view.cluster[0]
    while cluster.submits_10min < cluster.jobs and view.jobs[cluster.submits_10min].submit_s < time_s - 600:
        cluster.submits_10min += 1
    while cluster.submits_60min < cluster.jobs and view.jobs[cluster.submits_60min].submit_s < time_s - HOUR_S:
        cluster.submits_60min += 1
    starts = cluster.starts
    while cluster.starts_10min < starts and _started_s(view, cluster.starts_10min) < time_s - 600:
        cluster.starts_10min += 1
    while cluster.starts_60min < starts and _started_s(view, cluster.starts_60min) < time_s - HOUR_S:
        cluster.starts_60min += 1
    while cluster.starts_6h < starts and _started_s(view, cluster.starts_6h) < time_s - SIX_HOURS_S:
        cluster.starts_6h += 1


@inner
def _started_s(view: View, order: int) -> float:
    return view.jobs[view.started[order]].start_s


@inner
def _write_previous(x: np.ndarray, view: View, index: int, time_s: float, waiting_twin: int) -> None:
    """Write how the user's last identical job stands, and how the last one of any kind does."""
    me = view.jobs[index]
    user = view.users[me.user]
    identical = waiting_twin
    for back in range(min(user.starts, SHORT_RING)):
        other = user.started[(user.starts - 1 - back) % SHORT_RING]
        if is_identical(view, index, other) and other > identical:
            identical = other
    last = user.last_submit
    _write_standing(x, AT_PREVIOUS, view, identical, time_s)
    _write_standing(x, AT_PREVIOUS + 3, view, last if last != index else -1, time_s)


@inner
def _write_standing(x: np.ndarray, at: int, view: View, other: int, time_s: float) -> None:
    x[at] = 0.0
    x[at + 1] = x[at + 2] = -1.0
    if other < 0:
        return
    job = view.jobs[other]
    since = np.log1p(time_s - job.submit_s)
    x[at + 1] = since
    if job.stands == RUNNING or job.stands == DONE:
        x[at] = 2.0
        x[at + 2] = job.log_wait
    else:
        x[at] = 1.0
        x[at + 2] = since


@inner
def _write_calendar(x: np.ndarray, view: View, index: int, time_s: float) -> None:
    job = view.jobs[index]
    hour = job.hour + (time_s - job.submit_s) / HOUR_S
    x[AT_CALENDAR] = np.sin(hour / 24 * 2 * np.pi)
    x[AT_CALENDAR + 1] = np.cos(hour / 24 * 2 * np.pi)
    x[AT_CALENDAR + 2] = job.weekend


@inner
def _write_recent_waits(x: np.ndarray, view: View, index: int) -> None:
    job = view.jobs[index]
    cluster = view.cluster[0]
    user = view.users[job.user]
    queue = view.queues[job.queue]
    klass = view.classes[job.klass]
    values = np.empty(SHORT_RING)
    at = AT_WAITS
    x[at] = queue.last_wait
    x[at + 1] = queue.mean_wait
    x[at + 2] = user.last_wait
    x[at + 3] = user.mean_wait
    x[at + 4] = cluster.mean_wait
    count = min(cluster.starts, 64)
    total = total_of_8 = 0.0
    for back in range(count):
        wait = view.jobs[view.started[cluster.starts - 1 - back]].log_wait
        total += wait
        if back < 8:
            total_of_8 += wait
        if back < 32:
            values[back] = wait
    x[at + 5] = total_of_8 / min(count, 8) if count else -1.0
    x[at + 6] = total / count if count else -1.0
    write_spread(x, at + LATELY, values, min(count, 32))
    count = min(klass.starts, CLASS_RING)
    for k in range(count):
        values[k] = klass.waits[k]
    write_spread(x, at + IN_CLASS, values, count if count >= 3 else 0)
    x[AT_DISTANCES] = np.log1p(klass.starts)
    count = min(user.starts, 16)
    for back in range(count):
        values[back] = view.jobs[user.started[(user.starts - 1 - back) % SHORT_RING]].log_wait
    write_quartiles(x, at + OF_USER, values, count, -1.0)


@inner
def _write_neighbours(x: np.ndarray, view: View, far: np.ndarray, who: np.ndarray, found: int) -> None:
    waits = np.empty(NEIGHBOURS)
    weight = weighted = total = 0.0
    for k in range(found):
        waits[k] = view.jobs[who[k]].log_wait
        close = closeness(far[k], far[0])
        weight += close
        weighted += close * waits[k]
        total += far[k]
    write_spread(x, AT_WAITS + NEIGHBOUR, waits, found)
    x[AT_WAITS + NEIGHBOUR_MEAN] = weighted / weight if found else -1.0
    x[AT_DISTANCES + 1] = total / max(found, 1)
    x[AT_DISTANCES + 2] = far[0] if found else 9.0


@inner
def _write_ranks(x: np.ndarray, view: View) -> None:
    """Write where the present numbers stand among those of recent submits, and remember them."""
    cluster = view.cluster[0]
    count = min(cluster.ranked, SUBMITS)
    for k in range(RANKED):
        now = x[RANKED_PLACES[k]]
        below = same = 0
        for row in range(count):
            past = cluster.recent[row, k]
            if past < now - 1e-6:
                below += 1
            elif past <= now + 1e-6:
                same += 1
        x[AT_RANKS + k] = (below + 0.5 * same) / count if count else 0.5
    usual = 0.0
    for row in range(count):
        usual += cluster.recent[row, 1]
    x[AT_RANKS + RANKED] = x[RANKED_PLACES[1]] - usual / count if count else 0.0


@compiled
def remember_submit(view: View, x: np.ndarray) -> None:
    """Keep the numbers of a submit, so that later ones can be ranked among them."""
    cluster = view.cluster[0]
    for k in range(RANKED):
        cluster.recent[cluster.ranked % SUBMITS, k] = x[RANKED_PLACES[k]]
    cluster.ranked += 1


@inner
def _write_relative(x: np.ndarray, view: View, index: int) -> None:
    """Write the anchors, and every duration of the past relative to its anchor."""
    job = view.jobs[index]
    wait_anchor = x[AT_WAITS + NEIGHBOUR_MEAN]
    if wait_anchor < 0:
        wait_anchor = max(view.cluster[0].mean_wait, np.float32(0))
    run_anchor = x[AT_RUNS + SIMILAR_P50]
    if run_anchor < 0:
        run_anchor = x[AT_RUNS + OTHERS_P50]
    if run_anchor < 0:
        run_anchor = max(job.log_limit - 1, np.float32(0))
    for k in range(LENGTH_WAITS):
        past = x[AT_WAITS + k]
        x[AT_WAITS_RELATIVE + k] = past - wait_anchor if past >= 0 else NEVER
    for k in range(LENGTH_RUNS):
        past = x[AT_RUNS + k]
        x[AT_RUNS_RELATIVE + k] = past - run_anchor if past >= 0 else NEVER
    for k in range(LENGTH_ALIKE):
        past = x[AT_ALIKE + k]
        x[AT_ALIKE + LENGTH_ALIKE + k] = past - run_anchor if past >= 0 else NEVER
    work_anchor = x[AT_ALIKE_P50] if x[AT_ALIKE_P50] >= 0 else run_anchor
    x[AT_ANCHORS] = wait_anchor
    x[AT_ANCHORS + 1] = run_anchor
    x[AT_WORK_ANCHOR] = work_anchor
    if job.stands == AHEAD:
        job.wait_anchor = wait_anchor
        job.run_anchor = run_anchor
        job.work_anchor = work_anchor
