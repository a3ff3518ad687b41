"""When jobs arrive: a stream of gaps, stretched and squeezed by the hours of the week."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

SLOT_S = 1800
SLOTS_PER_DAY = 48
SLOTS_PER_WEEK = 7 * SLOTS_PER_DAY
DAY_S = 86_400
MAX_SPAN_DAYS = 366_000
"""About a thousand years: calendars end somewhere, and so does memory."""


class WeeklyRhythm:
    """The pace of arrivals over the week, on the clock of a time zone.

    `weights` are 336 half hours from Monday midnight, of mean 1. A job's place in the stream of gaps is
    counted in points; a half hour of weight w takes in w * 1800 points, so that with weights of mean 1 a
    point is a second on average. Times are seconds since `start_ms`.
    """

    def __init__(self, weights: FloatArray, start_ms: int, time_zone: str) -> None:
        self._weights = weights
        self._zone = time_zone
        self._lead_s = (start_ms // 1000) % SLOT_S
        self._first_slot_ms = (start_ms // 1000 - self._lead_s) * 1000
        self._points = np.zeros(1)  # points at the beginning of each half hour since the first

    def times_s(self, points: FloatArray) -> FloatArray:
        """Return when these points are reached; they count from the start and must not be negative."""
        self._reach(points=float(points.max(initial=0.0)) + self._lead_points())
        edges_s = np.arange(len(self._points), dtype=np.float64) * SLOT_S - self._lead_s
        return np.interp(points + self._lead_points(), self._points, edges_s)

    def points_of(self, times_s: FloatArray) -> FloatArray:
        """Return how many points have gone by each of these times, which must not be negative."""
        self._reach(time_s=float(times_s.max(initial=0.0)) + self._lead_s)
        edges_s = np.arange(len(self._points), dtype=np.float64) * SLOT_S - self._lead_s
        return np.interp(times_s, edges_s, self._points) - self._lead_points()

    def points_at(self, time_s: float) -> float:
        """Return how many points have gone by `time_s`."""
        self._reach(time_s=time_s + self._lead_s)
        return self._points_within(time_s + self._lead_s) - self._lead_points()

    def _lead_points(self) -> float:
        self._reach(time_s=self._lead_s)
        return self._points_within(self._lead_s)

    def _points_within(self, time_s: float) -> float:
        slot = int(time_s // SLOT_S)
        part = (time_s - slot * SLOT_S) / SLOT_S
        return float(self._points[slot] * (1 - part) + self._points[slot + 1] * part)

    def _reach(self, *, points: float = 0.0, time_s: float = 0.0) -> None:
        """Make the table long enough."""
        while self._points[-1] <= points or (len(self._points) - 1) * SLOT_S <= time_s:
            check_span(max(points, time_s) / DAY_S)
            slots = max(int(max(points, time_s) // SLOT_S), len(self._points)) + SLOTS_PER_WEEK
            self._points = np.concatenate([[0.0], np.cumsum(self._weights[self._slots_of_week(slots)])])
            self._points *= SLOT_S

    def _slots_of_week(self, slots: int) -> NDArray[np.int64]:
        """Return the place in the local week of each of the first `slots` half hours."""
        moments = pl.select(
            (pl.int_range(slots, dtype=pl.Int64) * (SLOT_S * 1000) + self._first_slot_ms)
            .cast(pl.Datetime("ms", "UTC"))
            .dt.convert_time_zone(self._zone)
            .alias("moment")
        )["moment"]
        days = moments.dt.weekday().to_numpy().astype(np.int64) - 1
        hours = moments.dt.hour().to_numpy().astype(np.int64)
        halves = moments.dt.minute().to_numpy().astype(np.int64) * 60 // SLOT_S
        slots_of_week: NDArray[np.int64] = days * SLOTS_PER_DAY + hours * 2 + halves
        return slots_of_week


def check_span(days: float) -> None:
    """Raise UsageError if a trace would span more time than there are calendars for."""
    if days > MAX_SPAN_DAYS:
        raise UsageError(
            f"The jobs would arrive over {days / 365.25:,.0f} years",
            expected=f"at most {MAX_SPAN_DAYS / 365.25:,.0f}",
            remedy="Ask for fewer jobs or days, a larger machine or a higher load",
        )


def stretch_to_span(points: FloatArray, rhythm: WeeklyRhythm, span_s: float) -> None:
    """Rescale ascending `points` in place so that the first and the last job arrive `span_s` apart.

    Gaps are stretched before the rhythm is laid over them, so a busy hour stays the same hour of the day
    whatever the load. The first job stays where it is.
    """
    first_s = float(rhythm.times_s(points[:1])[0])
    check_span((first_s + span_s) / DAY_S)
    last = rhythm.points_at(first_s + span_s)
    first = float(points[0])
    points -= first
    points *= (last - first) / points[-1]
    points += first
