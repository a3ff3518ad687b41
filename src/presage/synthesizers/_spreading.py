"""Another load for drawn jobs: days of users come closer together or further apart, by whole weeks.

What a user does on a day stays as it is, and so does the hour of the week at which it is done. Time that is
stretched does neither: gaps are other gaps then, and the bursts of a quiet hour fall on a busy one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from presage.synthesizers.columns import FloatArray, IntArray

DAY_MS, WEEK_MS = 86_400_000, 604_800_000
PERIODS = (WEEK_MS, DAY_MS)
"""By what days of users move: where the trace is too short for weeks, by days."""
FEWEST_PERIODS = 2
NIGHT_HOUR = 5
"""When a user's day begins."""


def stretches_of(jobs: pl.DataFrame, submit_ms: IntArray, time_zone: str | None) -> IntArray:
    """Return a number for each job, which those have that move together: a user's on one day.

    Without users all are one person's, whose days would be too much at once: then those of an hour.
    """
    times = pl.from_epoch(pl.Series("submit_ms", submit_ms), "ms").dt.replace_time_zone("UTC")
    local = times.dt.convert_time_zone(time_zone or "UTC")
    if "user" not in jobs.columns or jobs["user"].null_count() == len(jobs):
        return _numbered(pl.DataFrame({"hour": local.dt.truncate("1h")}))
    return _numbered(pl.DataFrame({"user": jobs["user"], "day": local.dt.offset_by(f"-{NIGHT_HOUR}h").dt.date()}))


def can_spread(now_ms: int, span_ms: float) -> bool:
    """Return whether jobs that come within `now_ms` can come within `span_ms` instead; not if either is short."""
    return min(now_ms, span_ms) >= FEWEST_PERIODS * PERIODS[-1]


def spread(submit_ms: IntArray, stretches: IntArray, span_ms: float, rng: np.random.Generator) -> IntArray:
    """Return when jobs come if all come within `span_ms`, not in order any more; the first one stays."""
    first, last = int(submit_ms[0]), int(submit_ms[-1])
    period = next(each for each in PERIODS if min(last - first, span_ms) >= FEWEST_PERIODS * each)
    begin, end = _bounds(submit_ms, stretches)
    most = np.floor((first + span_ms - end) / period)
    if span_ms < last - first:
        least = -((begin - first) // period)
        moved = end > first + span_ms
    else:
        least = -((begin - last) // period)
        # As many as leave all weeks equally full, those that there were and those that come to them.
        room = np.maximum(most - least + 1, 0)
        moved = rng.random(len(room)) < room / ((last - first) / period + room)
        moved[stretches[0]] = False
    steps = np.where(moved, least + np.floor(rng.random(len(least)) * np.maximum(most - least + 1, 1)), 0)
    return submit_ms + period * steps.astype(np.int64)[stretches]


def _numbered(frame: pl.DataFrame) -> IntArray:
    """Return a number for each row that others have only if they are equal, from 0."""
    return frame.select(pl.struct(pl.all()).rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()


def _bounds(submit_ms: IntArray, stretches: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return when the first and the last job of each stretch come."""
    count = int(stretches.max()) + 1
    begin, end = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(begin, stretches, submit_ms)
    np.maximum.at(end, stretches, submit_ms)
    return begin, end
