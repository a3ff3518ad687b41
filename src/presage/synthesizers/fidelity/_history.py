"""What came before each job: of the same user, and on the whole machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.synthesizers._clock import DAY_MS, HOUR_MS

if TYPE_CHECKING:
    from presage.synthesizers.fidelity._jobs import FloatArray, IntArray

SESSION_MS = 20 * 60_000
"""Jobs of a user that follow each other within less than this belong to one session."""
NOBODY = -1


@dataclass(frozen=True, eq=False)
class UserHistory:
    """The past of each job's user. A job whose user is unknown has none."""

    users: IntArray
    """The user of each job as a number; `NOBODY` where it is unknown."""
    previous: IntArray
    """The place of the user's job before; -1: there is none."""
    earlier: IntArray
    """How many jobs the user had before."""
    session: IntArray
    """Which session the job belongs to; every job of an unknown user is one of its own."""
    place: IntArray
    """How many jobs came before in the same session."""
    last_hour: IntArray
    """Jobs of the user within the hour before."""
    last_day: IntArray

    def before(self, values: FloatArray, steps: int = 1) -> FloatArray:
        """Return for each job the value of its user's job so many before; NaN where there is none."""
        at = np.arange(len(values))
        for _ in range(steps):
            at = np.where(at >= 0, self.previous[at], -1)
        return np.where(at >= 0, values[at], np.nan)


def user_history(jobs: pl.DataFrame) -> UserHistory:
    """Return the past of each job's user."""
    users = jobs["user"].rank("dense").cast(pl.Int64).fill_null(NOBODY).to_numpy()
    submit_ms = jobs["submit_ms"].to_numpy()
    count = len(users)
    order = np.argsort(users, kind="stable")
    sorted_users, sorted_ms = users[order], submit_ms[order]
    follows = np.zeros(count, bool)
    follows[1:] = (sorted_users[1:] == sorted_users[:-1]) & (sorted_users[1:] != NOBODY)
    near = follows.copy()
    near[1:] &= np.diff(sorted_ms) < SESSION_MS
    previous, session = np.full(count, -1), np.empty(count, np.int64)
    previous[order[1:]] = np.where(follows[1:], order[:-1], -1)
    session[order] = np.cumsum(~near) - 1
    return UserHistory(
        users=users,
        previous=previous,
        earlier=_scattered(order, _place_in_stretch(follows)),
        session=session,
        place=_scattered(order, _place_in_stretch(near)),
        last_hour=_within(users, submit_ms, order, HOUR_MS),
        last_day=_within(users, submit_ms, order, DAY_MS),
    )


def jobs_within(submit_ms: IntArray, span_ms: int) -> IntArray:
    """Return how many jobs of all came within so long before each, and before it in the trace."""
    return np.arange(len(submit_ms)) - np.searchsorted(submit_ms, submit_ms - span_ms, "left")


def lagged(values: FloatArray, lag: int) -> FloatArray:
    """Return for each job the value of the job so many before; NaN for the first ones."""
    return np.concatenate([np.full(min(lag, len(values)), np.nan), values[:-lag]])


def _within(users: IntArray, submit_ms: IntArray, order: IntArray, span_ms: int) -> IntArray:
    # One ascending key for all users: their times, moved so far apart that no window reaches across.
    apart = int(submit_ms[-1] - submit_ms[0]) + span_ms + 1
    keys = (users[order] - NOBODY) * apart + (submit_ms[order] - submit_ms[0])
    counts = np.arange(len(keys)) - np.searchsorted(keys, keys - span_ms, "left")
    return _scattered(order, np.where(users[order] == NOBODY, 0, counts))


def _place_in_stretch(goes_on: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> IntArray:
    """Return how many places before each belong to the same stretch; False begins a new one."""
    at = np.arange(len(goes_on))
    return at - np.maximum.accumulate(np.where(goes_on, 0, at))


def _scattered(order: IntArray, values: IntArray) -> IntArray:
    scattered = np.empty(len(order), np.int64)
    scattered[order] = values
    return scattered
