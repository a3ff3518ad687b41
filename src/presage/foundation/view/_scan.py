"""Sums over those that wait and those that run, as one job asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.view import numbers
from presage.foundation.view._compiling import inner

if TYPE_CHECKING:
    from presage.foundation.view._records import View

AT_WAITING = numbers.PLACE["waiting_jobs"]
AT_RUNNING = numbers.PLACE["remaining_by_limit"]
AT_ELAPSED_OF_USER = numbers.PLACE["elapsed_of_user"]

LONGEST_SCAN = 4096
"""Of longer lists every second, third, … member is looked at and counts for as many."""
BUCKETS = 144
BUCKETS_PER_UNIT = 8.0
"""Releases of processors are sorted into buckets of log time, eight to the unit."""


@inner
def stride_for(count: int) -> int:
    """Return the step in which a list of `count` members is read."""
    return max(1, (count + LONGEST_SCAN - 1) // LONGEST_SCAN)


@inner
def write_waiting(x: np.ndarray, view: View, index: int, time_s: float, machine: float) -> int:
    """Write the numbers of WAITING, for which the job itself does not count.

    Returns the latest waiting job that the same user asked for with the same size and limit; -1 if there is none.
    """
    me = view.jobs[index]
    count = view.cluster[0].waiting
    step = stride_for(count)
    jobs = size = area = estimated = oldest = ages = 0.0
    queue_jobs = queue_area = queue_oldest = user_jobs = user_area = 0.0
    user_oldest = user_newest = -1.0
    twin = -1
    smaller_area = smaller_jobs = larger_jobs = 0.0
    for k in range(0, count, step):
        other = view.waiting[k]
        if other == index:
            continue
        job = view.jobs[other]
        its_area = job.size * job.limit_s
        age = time_s - job.submit_s
        jobs += 1
        size += job.size
        area += its_area
        estimated += job.size * job.estimate_s
        ages += age
        oldest = max(oldest, age)
        if job.queue == me.queue:
            queue_jobs += 1
            queue_area += its_area
            queue_oldest = max(queue_oldest, age)
        if job.user == me.user:
            user_jobs += 1
            user_area += its_area
            user_oldest = max(user_oldest, age)
            user_newest = age if user_newest < 0 else min(user_newest, age)
            if job.size == me.size and job.limit_s == me.limit_s:
                twin = max(twin, other)
        if job.size <= me.size and job.limit_s <= me.limit_s:
            smaller_area += its_area
            smaller_jobs += 1
        if job.size > me.size:
            larger_jobs += 1
    at = AT_WAITING
    x[at] = np.log1p(jobs * step)
    x[at + 1] = np.log1p(size * step / machine)
    x[at + 2] = np.log1p(area * step / machine)
    x[at + 3] = np.log1p(estimated * step / machine)
    x[at + 4] = np.log1p(oldest)
    x[at + 5] = np.log1p(ages / max(jobs, 1.0))
    x[at + 6] = np.log1p(queue_jobs * step)
    x[at + 7] = np.log1p(queue_area * step / machine)
    x[at + 8] = np.log1p(queue_oldest)
    x[at + 9] = np.log1p(user_jobs * step)
    x[at + 10] = np.log1p(user_area * step / machine)
    x[at + 11] = np.log1p(user_oldest) if user_oldest >= 0 else -1.0
    x[at + 12] = np.log1p(user_newest) if user_newest >= 0 else -1.0
    x[at + 13] = np.log1p(smaller_area * step / machine)
    x[at + 14] = np.log1p(smaller_jobs * step)
    x[at + 15] = np.log1p(larger_jobs * step)
    x[at + 16] = user_jobs / max(jobs, 1.0)
    return twin


@inner
def write_running(x: np.ndarray, view: View, index: int, time_s: float, machine: float, free: float) -> None:
    """Write the numbers of RUNNING and how long the user's running jobs have been running."""
    me = view.jobs[index]
    cluster = view.cluster[0]
    user = view.users[me.user]
    count = cluster.running
    step = stride_for(count)
    by_limit = by_estimate = elapsed_area = user_jobs = 0.0
    of_user = identical = -1.0
    released_by_limit = np.zeros(BUCKETS)
    released_by_estimate = np.zeros(BUCKETS)
    for k in range(0, count, step):
        other = view.running[k]
        if other == index:
            continue
        job = view.jobs[other]
        elapsed = time_s - job.start_s
        by_request_s = max(job.limit_s - elapsed, 0.0)
        expected_s = max(job.estimate_s - elapsed, 0.05 * elapsed + 1.0)
        if by_request_s > 0:
            expected_s = min(expected_s, by_request_s)
        by_limit += by_request_s * job.size
        by_estimate += expected_s * job.size
        elapsed_area += elapsed * job.size
        released_by_limit[_bucket(by_request_s)] += job.size * step
        released_by_estimate[_bucket(expected_s)] += job.size * step
        if job.user == me.user:
            user_jobs += 1
            of_user = max(of_user, elapsed)
            if job.size == me.size and job.limit_s == me.limit_s:
                identical = max(identical, elapsed)
    at = AT_RUNNING
    x[at] = np.log1p(by_limit * step / machine)
    x[at + 1] = np.log1p(by_estimate * step / machine)
    x[at + 2] = np.log1p(elapsed_area * step / machine)
    x[at + 3] = np.log1p(user_jobs * step)
    x[at + 4] = user.running_size / machine
    x[at + 5] = (user.running_size + me.size) / cluster.largest_user_size
    x[at + 6] = (user.running_jobs + 1) / cluster.most_user_jobs
    x[at + 7] = view.queues[me.queue].running_size / machine
    x[at + 8] = _fit(released_by_limit, free, me.size)
    x[at + 9] = _fit(released_by_estimate, free, me.size)
    x[AT_ELAPSED_OF_USER] = np.log1p(of_user) if of_user >= 0 else -1.0
    x[AT_ELAPSED_OF_USER + 1] = np.log1p(identical) if identical >= 0 else -1.0


@inner
def _bucket(seconds: float) -> int:
    return min(int(np.log1p(seconds) * BUCKETS_PER_UNIT), BUCKETS - 1)


@inner
def _fit(released: np.ndarray, free: float, size: float) -> float:
    """Return the log of the time until `size` processors are free if nothing else starts; the last end at most."""
    if free >= size:
        return 0.0
    last = 0.0
    for k in range(BUCKETS):
        if released[k] > 0:
            free += released[k]
            last = (k + 1) / BUCKETS_PER_UNIT
            if free >= size:
                break
    return last
