"""What happens to jobs, as it changes the view: submitted, started, ended, gone without having run."""

from __future__ import annotations

import numpy as np

from presage.foundation.view._compiling import compiled, inner
from presage.foundation.view._records import (
    CAMPAIGNS,
    CLASS_RING,
    DONE,
    LEFT,
    RING,
    RUNNING,
    SHORT_RING,
    STARTED,
    WAITING,
    View,
)

LONGEST_PAUSE_S = 1800.0
"""Between two jobs of a campaign, from submit to submit."""
FORGET = 0.9998
"""What is left, start by start, of the largest share that a user was seen to hold."""


@compiled
def submit(view: View, index: int) -> None:
    """Put a job into the queue; its estimate is the mean of its user's last two run times."""
    job = view.jobs[index]
    job.estimate_s = estimate_s(view, index)
    job.stands = WAITING
    cluster = view.cluster[0]
    job.slot = cluster.waiting
    view.waiting[cluster.waiting] = index
    cluster.waiting += 1
    cluster.jobs = max(cluster.jobs, index + 1)
    _join_campaign(view, index)
    view.users[job.user].last_submit = index


@inner
def _join_campaign(view: View, index: int) -> None:
    job = view.jobs[index]
    user = view.users[job.user]
    job.campaign_place = place_in_campaign(view, index)
    if job.campaign_place:
        job.campaign = view.jobs[user.last_submit].campaign
    else:
        job.campaign = user.campaigns
        user.campaigns += 1


@inner
def place_in_campaign(view: View, index: int) -> int:
    """Return how many jobs of its campaign come before a job that is about to be submitted; 0: it begins one."""
    job = view.jobs[index]
    last_submit = view.users[job.user].last_submit
    if last_submit < 0:
        return 0
    last = view.jobs[last_submit]
    asks_for_the_same = last.size == job.size and last.limit_s == job.limit_s and last.program == job.program
    goes_on = asks_for_the_same and job.submit_s - last.submit_s <= LONGEST_PAUSE_S
    return last.campaign_place + 1 if goes_on else 0


@inner
def estimate_s(view: View, index: int) -> float:
    """Return the mean of the user's last two run times, cut at the limit; the limit if there is none."""
    job = view.jobs[index]
    user = view.users[job.user]
    guess = job.limit_s
    seen = min(user.ends, 2)
    if seen:
        guess = 0.0
        for back in range(seen):
            other = view.jobs[user.finished[(user.ends - 1 - back) % RING]]
            guess += (other.end_s - other.start_s) / seen
    return max(min(guess, job.limit_s), 1.0)


@compiled
def start(view: View, index: int, time_s: float) -> None:
    """Move a waiting job to the running ones, and remember how long it waited."""
    job = view.jobs[index]
    if job.stands != WAITING:
        return
    cluster = view.cluster[0]
    _take_out(view.jobs, view.waiting, job.slot, cluster.waiting)
    cluster.waiting -= 1
    job.stands = RUNNING
    job.start_s = max(time_s, job.submit_s)
    job.log_wait = np.log1p(job.start_s - job.submit_s)
    job.slot = cluster.running
    view.running[cluster.running] = index
    cluster.running += 1
    _occupy(view, index)
    _remember_start(view, index)


@inner
def _occupy(view: View, index: int) -> None:
    job = view.jobs[index]
    cluster = view.cluster[0]
    user = view.users[job.user]
    cluster.used += job.size
    cluster.used_gpus += job.gpus
    cluster.peak = max(cluster.peak, cluster.used)
    cluster.gpus = max(cluster.gpus, cluster.used_gpus)
    if not cluster.size_is_known:
        cluster.size = max(cluster.size, cluster.used)
    user.running_size += job.size
    user.running_jobs += 1
    view.queues[job.queue].running_size += job.size
    cluster.largest_user_size = max(cluster.largest_user_size * FORGET, user.running_size)
    cluster.most_user_jobs = max(cluster.most_user_jobs * FORGET, user.running_jobs)


@inner
def _remember_start(view: View, index: int) -> None:
    job = view.jobs[index]
    cluster = view.cluster[0]
    user = view.users[job.user]
    queue = view.queues[job.queue]
    klass = view.classes[job.klass]
    wait = job.log_wait
    place = cluster.starts % STARTED
    view.started[cluster.starts] = index
    view.started_state[place] = job.state
    view.started_keys[place, 0] = job.user
    view.started_keys[place, 1] = job.queue
    cluster.starts += 1
    cluster.mean_wait = wait if cluster.mean_wait < 0 else 0.98 * cluster.mean_wait + 0.02 * wait
    user.started[user.starts % SHORT_RING] = index
    user.starts += 1
    user.last_wait = wait
    user.mean_wait = wait if user.mean_wait < 0 else 0.7 * user.mean_wait + 0.3 * wait
    queue.start_s[queue.starts % SHORT_RING] = job.start_s
    queue.starts += 1
    queue.last_wait = wait
    queue.mean_wait = wait if queue.mean_wait < 0 else 0.9 * queue.mean_wait + 0.1 * wait
    klass.waits[klass.starts % CLASS_RING] = wait
    klass.starts += 1


@compiled
def end(view: View, index: int, time_s: float, outcome: int) -> None:
    """Take a running job off the machine, and remember how long it ran and how it ended.

    A job that ends while it waits leaves the queue: how long it would have waited stays unknown.
    """
    job = view.jobs[index]
    cluster = view.cluster[0]
    if job.stands == WAITING:
        _take_out(view.jobs, view.waiting, job.slot, cluster.waiting)
        cluster.waiting -= 1
        job.stands = LEFT
        job.end_s = time_s
        return
    if job.stands != RUNNING:
        return
    _take_out(view.jobs, view.running, job.slot, cluster.running)
    cluster.running -= 1
    job.stands = DONE
    job.end_s = max(time_s, job.start_s)
    job.outcome = outcome
    job.log_run = np.log1p(job.end_s - job.start_s)
    user = view.users[job.user]
    cluster.used -= job.size
    cluster.used_gpus -= job.gpus
    user.running_size -= job.size
    user.running_jobs -= 1
    view.queues[job.queue].running_size -= job.size
    cluster.last_end_s = job.end_s
    if job.end_s > job.start_s:
        _remember_end(view, index)


@inner
def _remember_end(view: View, index: int) -> None:
    job = view.jobs[index]
    cluster = view.cluster[0]
    user = view.users[job.user]
    place = cluster.ends % STARTED
    view.finished[cluster.ends] = index
    view.finished_state[place] = job.habit_state
    view.finished_keys[place, 0] = job.user
    view.finished_keys[place, 1] = job.group
    view.finished_keys[place, 2] = job.queue
    view.finished_keys[place, 3] = job.program
    cluster.ends += 1
    user.finished[user.ends % RING] = index
    user.ends += 1
    _remember_campaign(view, index)
    user.last_end_s = job.end_s
    failed = 1.0 if job.outcome > 0 else 0.0
    user.ends_since_failure = 0 if failed else user.ends_since_failure + 1
    user.failures = _mean_after(user.failures, failed, 0.2)
    user.failures_slow = _mean_after(user.failures_slow, failed, 0.02)
    queue = view.queues[job.queue]
    queue.failures = _mean_after(queue.failures, failed, 0.02)
    cluster.failures = _mean_after(cluster.failures, failed, 0.005)
    if job.work_anchor > 0:  # else it was never asked about
        error = abs(job.log_run - job.work_anchor)
        user.work_error = _mean_after(user.work_error, error, 0.1)
        cluster.work_error = _mean_after(cluster.work_error, error, 0.005)
        error = abs(job.log_run - job.run_anchor)
        user.run_error = _mean_after(user.run_error, error, 0.1)
        cluster.run_error = _mean_after(cluster.run_error, error, 0.005)


@inner
def _remember_campaign(view: View, index: int) -> None:
    """Let one job stand for its campaign: any that ended, each with the same chance, not the last and longest."""
    job = view.jobs[index]
    user = view.users[job.user]
    place = job.campaign % CAMPAIGNS
    held = user.campaign_jobs[place]
    if held >= 0 and view.jobs[held].campaign > job.campaign:
        return
    if held < 0 or view.jobs[held].campaign < job.campaign or _lot(index) < _lot(held):
        user.campaign_jobs[place] = index


@inner
def _lot(index: int) -> int:
    """Return a number as good as random, always the same for a job."""
    return (index * 2654435761) % 4294967296


@inner
def _mean_after(mean: float, value: float, memory: float) -> float:
    """Return the mean of what was seen lately, after one more value; below 0 there was none yet."""
    return value if mean < 0 else (1 - memory) * mean + memory * value


@inner
def _take_out(jobs: np.ndarray, members: np.ndarray, slot: int, count: int) -> None:
    """Fill the place of a member with the last one."""
    last = members[count - 1]
    members[slot] = last
    jobs[last].slot = slot
