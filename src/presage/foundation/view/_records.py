"""What is known of a cluster at one instant: its jobs, users, queues, and the lists of who waits and runs.

A job's start and end are written here only when they happen. Nothing else is ever read by the kernels that make
the model's input, so that no forecast can depend on what was not known yet.

Tables are arrays of records: handing many single arrays from function to function takes minutes to compile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.foundation.view import numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Records = NDArray[np.void]
    Ints = NDArray[np.int32]
    Floats = NDArray[np.float32]

AHEAD, WAITING, RUNNING, DONE, LEFT = 0, 1, 2, 3, 4
"""How a job stands; LEFT went away without having run."""
UNKNOWN_OUTCOME = -1
RING = 128
"""Finished and started jobs remembered per user."""
CAMPAIGNS = 64
"""Campaigns remembered per user: what was submitted in one go, jobs that ask for the same."""
SHORT_RING = 64
STARTED = 5000
"""Started jobs among which neighbours are looked for, and finished ones."""
SUBMITS = 512
RANKED = 9
CLASS_RING = 50

JOB = np.dtype(
    [
        ("submit_s", np.float64),
        ("start_s", np.float64),
        ("end_s", np.float64),
        ("size", np.float64),
        ("limit_s", np.float64),
        ("gpus", np.float64),
        ("estimate_s", np.float64),
        ("name_bits", np.uint64),  # which fragments of the name occur, see `signatures`
        ("hour", np.float32),
        ("weekend", np.float32),
        ("has_limit", np.int32),
        ("has_memory", np.int32),
        ("user", np.int32),
        ("queue", np.int32),
        ("group", np.int32),
        ("program", np.int32),
        ("name", np.int32),
        ("klass", np.int32),  # queue, size class and limit class as one number
        ("stands", np.int32),
        ("campaign", np.int32),  # which of its user's, and how many of it came before
        ("campaign_place", np.int32),
        ("slot", np.int32),  # its place among those that wait or run
        ("outcome", np.int32),
        ("log_size", np.float32),
        ("log_limit", np.float32),
        ("log_memory", np.float32),
        ("log_gpus", np.float32),
        ("log_wait", np.float32),
        ("log_run", np.float32),
        ("wait_anchor", np.float32),  # as it was at the submit, like `state`
        ("run_anchor", np.float32),
        ("work_anchor", np.float32),
        ("state", np.float32, (len(numbers.STATE),)),
        ("habit_state", np.float32, (len(numbers.HABIT_STATE),)),
    ]
)
USER = np.dtype(
    [
        ("started", np.int32, (SHORT_RING,)),
        ("finished", np.int32, (RING,)),
        ("campaign_jobs", np.int32, (CAMPAIGNS,)),  # of each of the last ones a job that ended, -1: none did
        ("starts", np.int64),
        ("ends", np.int64),
        ("campaigns", np.int64),
        ("last_submit", np.int32),
        ("last_end_s", np.float64),
        ("running_size", np.float64),
        ("running_jobs", np.float64),
        ("last_wait", np.float32),
        ("mean_wait", np.float32),
        ("failures", np.float32),  # shares of the last few that did not complete, -1: none ended yet
        ("failures_slow", np.float32),
        ("ends_since_failure", np.int64),
        ("work_error", np.float32),  # how far the anchors of run times were off lately, -1: not known yet
        ("run_error", np.float32),
    ]
)
QUEUE = np.dtype(
    [
        ("start_s", np.float64, (SHORT_RING,)),
        ("starts", np.int64),
        ("running_size", np.float64),
        ("last_wait", np.float32),
        ("mean_wait", np.float32),
        ("failures", np.float32),
    ]
)
CLASS = np.dtype([("waits", np.float32, (CLASS_RING,)), ("starts", np.int64)])
CLUSTER = np.dtype(
    [
        ("size", np.float64),  # of the machine; where it is not known, the most that was ever in use
        ("gpus", np.float64),
        ("size_is_known", np.int32),
        ("used", np.float64),
        ("used_gpus", np.float64),
        ("peak", np.float64),
        ("largest_user_size", np.float64),
        ("most_user_jobs", np.float64),
        ("jobs", np.int64),
        ("waiting", np.int64),
        ("running", np.int64),
        ("starts", np.int64),
        ("ends", np.int64),
        ("last_end_s", np.float64),
        ("mean_wait", np.float32),
        ("failures", np.float32),
        ("work_error", np.float32),
        ("run_error", np.float32),
        ("submits_10min", np.int64),  # the first job not older than that
        ("submits_60min", np.int64),
        ("starts_10min", np.int64),
        ("starts_60min", np.int64),
        ("starts_6h", np.int64),
        ("ranked", np.int64),
        ("recent", np.float32, (SUBMITS, RANKED)),
    ]
)


class View(NamedTuple):
    """The whole of it."""

    jobs: Records
    users: Records
    queues: Records
    classes: Records
    cluster: Records  # one
    waiting: Ints
    running: Ints
    started: Ints
    """All jobs that started and ran, in that order."""
    finished: Ints
    started_state: Floats
    """The states of the last STARTED of them at their submits, as a ring."""
    started_keys: Ints
    """Their users and queues."""
    finished_state: Floats
    """The habits of the last STARTED that finished, at their submits, as a ring."""
    finished_keys: Ints
    """Their users, groups, queues and programs."""


def new_view(jobs: int, users: int, queues: int, classes: int) -> View:
    """Return the view of an empty cluster with room for so many jobs, users, queues and classes."""
    view = View(
        np.zeros(jobs, JOB),
        np.zeros(users, USER),
        np.zeros(queues, QUEUE),
        np.zeros(classes, CLASS),
        np.zeros(1, CLUSTER),
        np.zeros(jobs, np.int32),
        np.zeros(jobs, np.int32),
        np.zeros(jobs, np.int32),
        np.zeros(jobs, np.int32),
        np.zeros((STARTED, len(numbers.STATE)), np.float32),
        np.zeros((STARTED, 2), np.int32),
        np.zeros((STARTED, len(numbers.HABIT_STATE)), np.float32),
        np.zeros((STARTED, 4), np.int32),
    )
    view.users["last_submit"] = -1
    view.users["campaign_jobs"] = -1
    for name in ("last_end_s", "last_wait", "mean_wait", "failures", "failures_slow", "work_error", "run_error"):
        view.users[name] = -1
    for name in ("last_wait", "mean_wait", "failures"):
        view.queues[name] = -1
    for name in ("peak", "largest_user_size", "most_user_jobs", "size", "gpus"):
        view.cluster[name] = 1
    for name in ("mean_wait", "last_end_s", "failures", "work_error", "run_error"):
        view.cluster[name] = -1
    return view
