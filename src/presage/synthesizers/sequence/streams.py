"""A trace as streams: the jobs of each user, one after the other, and how many of them on which day.

What counts as a day is a part of the week: a quarter of a day where the log is laid out anew, so that users' work
does not cluster within the day; a whole one where counts are made private, of which few are worth more. The
calendar says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers._clock import HOUR_MS, hours_of_week

if TYPE_CHECKING:
    from presage.synthesizers.columns import FloatArray, IntArray

DAYS = 7
DAY_S = 86_400
WEEK_S = DAYS * DAY_S
QUARTER_S = DAY_S // 4
LONGEST = 3000


@dataclass(frozen=True)
class Calendar:
    """The weeks of a trace, counted from the Monday before it, midnight where the machine stands.

    Times are seconds since then. Where clocks are changed in between, the rest of the trace is an hour off.
    """

    monday_ms: int
    first_s: float
    """When the trace begins."""
    last_s: float
    """When it ends, or at least not before."""
    part_s: int = DAY_S
    """How long what counts as a day is; weeks are made of whole ones."""

    @property
    def weeks(self) -> int:
        """How many weeks the trace touches."""
        return int(self.last_s // WEEK_S) + 1

    @property
    def parts(self) -> int:
        """How many of what counts as a day make a week."""
        return WEEK_S // self.part_s

    def open_days(self) -> FloatArray:
        """Return how much of each day lies within the trace: (weeks, parts)."""
        edges = np.arange(self.weeks * self.parts + 1) * float(self.part_s)
        return np.diff(np.clip(edges, self.first_s, self.last_s)).reshape(self.weeks, self.parts) / self.part_s

    def since_monday_s(self, times_ms: IntArray) -> FloatArray:
        """Return times in seconds since the first Monday."""
        return (times_ms - self.monday_ms) / 1000


def calendar_from(first_ms: int, last_ms: int, time_zone: str | None, part_s: int = DAY_S) -> Calendar:
    """Return the calendar of a trace from `first_ms` to `last_ms`."""
    hour = int(hours_of_week(np.array([first_ms]), time_zone)[0])
    # Zones are off by whole quarters of an hour; what is within the hour is that of UTC but for a few of them.
    monday_ms = first_ms - hour * HOUR_MS - first_ms % HOUR_MS
    return Calendar(monday_ms, (first_ms - monday_ms) / 1000, (last_ms - monday_ms) / 1000 + 1, part_s)


@dataclass(frozen=True)
class Streams:
    """Jobs by user, or by user and week or day.

    Jobs of stream s are `order[first[s]:first[s + 1]]`, in the order of arrival.
    """

    order: IntArray
    first: IntArray
    user: IntArray
    day: IntArray
    """Of each job in `order`, counted from the first Monday."""
    span_days: int
    """How many days a stream has at most."""

    @property
    def jobs(self) -> IntArray:
        """How many jobs each stream has."""
        return np.diff(self.first)

    def of_rows(self) -> tuple[IntArray, IntArray]:
        """Return for each place in `order` its stream, and how many jobs of the stream came before it."""
        stream = np.repeat(np.arange(len(self.user)), self.jobs)
        return stream, np.arange(len(self.order)) - self.first[stream]

    def jobs_by_day(self, days: int, weights: FloatArray | None = None) -> FloatArray:
        """Return how many jobs each stream has on each of `days` days, or the sum of their weights."""
        stream, _ = self.of_rows()
        counts = np.bincount(stream * days + self.day, weights, minlength=len(self.user) * days)
        return counts.reshape(len(self.user), days).astype(np.float64)


def cut(submit_ms: IntArray, users: IntArray, calendar: Calendar) -> Streams:
    """Return the streams of jobs that are ordered by time.

    Where somebody has more than `LONGEST` jobs, or where all jobs are one stream because nobody knows whose they
    are, every week is a stream of its own, or every day if a week has too many, so that they can be drawn side by
    side.
    """
    day = (calendar.since_monday_s(submit_ms) // calendar.part_s).astype(np.int64)
    span_days = calendar.weeks * calendar.parts
    if _longest(users) > min(LONGEST, max(len(users) // 2, 1)):
        span_days = calendar.parts if _longest(stream_keys(users, day, calendar.parts)) <= LONGEST else 1
    return streams_of(users, day, span_days)


def streams_of(users: IntArray, day: IntArray, span_days: int) -> Streams:
    """Return the streams of jobs that are ordered by time, in which users begin anew after so many days."""
    keys = stream_keys(users, day, span_days)
    order = np.argsort(keys, kind="stable")
    first = np.concatenate([[0], np.flatnonzero(np.diff(keys[order])) + 1, [len(order)]])
    return Streams(order, first, users[order][first[:-1]], day[order], span_days)


def stream_keys(user: IntArray, day: IntArray, span_days: int) -> IntArray:
    """Return a number for each stream: users begin anew after so many days."""
    return user * (int(day.max()) // span_days + 1) + day // span_days


def _longest(keys: IntArray) -> int:
    return int(np.unique(keys, return_counts=True)[1].max())
