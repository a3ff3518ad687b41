"""What a forecast looks at: one row of scale-free numbers per origin and horizon.

Everything is a share of the capacity, a logarithm, or a difference of such, so that rows of a cluster of 100
processors and of one of 100,000 look alike. `RowMaker.rows` of an origin depends on nothing that happens after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.load.fluid import Flow, pour
from presage.foundation.load.levels import CLASSES, TARGETS, work_level

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.foundation.load.levels import Levels
    from presage.foundation.load.present import Present

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

LONGEST_H = 24
DAY, WEEK = 24, 168
_DAYS, _WEEKS = 7, 4
_HOURS = np.arange(1, LONGEST_H + 1)
_MIDDLES = _HOURS - np.float64(0.5)
_OWN = (
    "bin", "bin2", "bin3", "mean6", "mean24", "mean168", "deviation24", "day", "week", "lag_day", "lag_week",
    "day_step", "fluid",
)  # fmt: skip
"""Columns that every target has for its own series, all but `deviation24` relative to its level now."""
_SHARED = (
    "now_utilisation", "now_queue", "now_work", "log_hour", "hour", "drain_request", "drain_history", "held_share",
    "waiting_share", "smallest_waiting", "largest_waiting", "first_waiting", "waiting_age", "oldest_age",
    "waiting_run", "arrivals_1", "arrivals_6", "arrivals_24", "arrivals_168", "arrivals_day", "share_1", "share_6",
    "share_24", "share_168", "work_1", "work_6", "work_24", "work_168", "running_jobs", "running_left", "ceiling",
    "history",
)  # fmt: skip
_PER_CLASS = ("recent_wait", "class_waiting", "class_age")
COLUMNS = (
    *_SHARED,
    *(f"{target}_{name}" for target in TARGETS for name in _OWN),
    *(f"{name}_{size}" for size in CLASSES for name in _PER_CLASS),
)
INDEX = {name: place for place, name in enumerate(COLUMNS)}


def own_columns(target: str) -> list[int]:
    """Return the places of the columns of a target's own series."""
    return [INDEX[f"{target}_{name}"] for name in _OWN]


def make_rows(levels: Levels, origin: int, present: Present, horizons: Ints) -> Floats:
    """Return (horizons, columns) for one origin; horizons are whole hours from 1 to 24."""
    begin = max(0, origin + 1 - (_WEEKS + 1) * WEEK)
    past = _Past(np.stack([levels.of(name)[begin : origin + 1] for name in _SEEN]))
    now = _levels_now(present)
    fluid = _fluid_levels(present, past)
    table = np.empty((len(horizons), len(COLUMNS)))
    for column, value in enumerate((*_shared(present, now, past, horizons), *_own(past, now, fluid, horizons))):
        table[:, column] = value
    table[:, len(COLUMNS) - len(_PER_CLASS) * len(CLASSES) :] = _per_class(present)
    return table


def recent_waits(present: Present) -> Floats:
    """Return log(1 + wait in s) to expect of each size class by what was waited for lately.

    A class of which nothing is known takes that of the nearest one, and 0 if there is none.
    """
    known = present.recent_wait
    filled = np.zeros(len(known))
    there = np.flatnonzero(~np.isnan(known))
    if len(there):
        places = np.arange(len(known))
        filled = known[there[np.abs(there[None, :] - places[:, None]).argmin(1)]]
    return filled


_SEEN = (*TARGETS, "arrivals", "arriving_share", "arriving_work")
_BACK_H = (1, 6, DAY, WEEK)


class _Past:
    """The last weeks of all series, (series, hours), with the means that rows need."""

    def __init__(self, series: Floats) -> None:
        self.series = series
        self.hours = series.shape[1]
        self.tails = {hours: series[:, -hours:].mean(1) for hours in _BACK_H}
        self.mean = series.mean(1)
        self.day = self.profile(_HOURS, DAY, _DAYS)
        self.ceiling = self._ceiling()

    def profile(self, horizons: Ints, period: int, times: int) -> Floats:
        """Return (series, horizons): the mean at the same hour of earlier days or weeks.

        Where the series do not reach back a period, their mean.
        """
        places = self.hours - 1 + horizons[:, None] - period * np.arange(1, times + 1)
        there = (places >= 0) & (places < self.hours)
        values = (self.series[:, np.where(there, places, 0)] * there).sum(-1)
        count = there.sum(1)
        means: Floats = np.where(count > 0, values / np.maximum(count, 1), self.mean[:, None])
        return means

    def _ceiling(self) -> float:
        """Return how full the machine was in hours in which jobs waited."""
        held, queue = self.series[0], self.series[1]
        busy = held[queue > np.log1p(0.5)]
        full = float(np.quantile(busy, 0.8)) if len(busy) >= DAY else max(float(held.max()), 0.9)
        return max(full, float(held[-1]))


def _levels_now(present: Present) -> tuple[float, float, float]:
    work = (present.waiting * present.waiting_plan_h).sum()
    return float(present.running.sum()), float(np.log1p(len(present.waiting))), float(work_level(work))


def _fluid_levels(present: Present, past: _Past) -> Floats:
    """Return (3, 24): the tank's levels on the scales of the targets."""
    share = float(present.waiting.sum())
    expected_h = float((present.waiting * present.waiting_expected_h).sum()) / share if share > 0 else 1.0
    arriving = past.tails[WEEK][4]
    arriving_run_h = float(past.tails[WEEK][5] / arriving) if arriving > 0 else 1.0
    flow = Flow(float(len(present.waiting)), share, expected_h, past.ceiling)
    drain = present.drain_by_history(_MIDDLES)
    expected = 0.5 * (past.day[3:5] + past.tails[DAY][3:5, None])
    held, jobs, waiting = pour(flow, drain, expected[0], expected[1], arriving_run_h).T
    plan_h = float((present.waiting * present.waiting_plan_h).sum()) / share if share > 0 else arriving_run_h
    return np.stack([held, np.log1p(jobs), work_level(waiting * plan_h)])


def _shared(
    present: Present, now: tuple[float, float, float], past: _Past, horizons: Ints
) -> list[Floats | float]:
    middle = _MIDDLES[horizons - 1]
    waiting, age = present.waiting, present.waiting_age_h
    some = len(waiting) > 0
    left = np.maximum(present.running_expected_h - present.running_age_h, 0.25)
    rates = np.log1p(np.stack([past.tails[hours][3:] for hours in _BACK_H], 1))  # (series, hours back)
    return [
        *now,
        np.log(horizons),
        horizons / LONGEST_H,
        present.drain_by_request(middle) - now[0],
        present.drain_by_history(middle) - now[0],
        now[0] - past.ceiling,
        float(np.log1p(waiting.sum())),
        *((float(waiting.min()), float(waiting.max()), float(waiting[0])) if some else (0.0, 0.0, 0.0)),
        *((float(np.log1p(age.mean())), float(np.log1p(age.max()))) if some else (0.0, 0.0)),
        float(np.log1p((waiting * present.waiting_expected_h).sum())),
        *rates[0].tolist(),
        np.log1p(past.day[3, horizons - 1]) - rates[0, 2],
        *rates[1].tolist(),
        *rates[2].tolist(),
        float(np.log1p(len(present.running))),
        float(np.log1p((present.running * left).sum())),
        past.ceiling,
        float(np.log1p(past.hours / WEEK)),
    ]


def _own(past: _Past, now: tuple[float, float, float], fluid: Floats, horizons: Ints) -> list[Floats | float]:
    week = past.profile(horizons, WEEK, _WEEKS)
    lag_day, lag_week = (past.profile(horizons, period, 1) for period in (DAY, WEEK))
    deviation = past.series[: len(TARGETS), -DAY:].std(1)
    columns: list[Floats | float] = []
    for target, level in enumerate(now):
        series, day = past.series[target], past.day[target]
        columns += [float(series[-min(hours, past.hours)]) - level for hours in (1, 2, 3)]
        columns += [float(past.tails[hours][target]) - level for hours in _BACK_H[1:]]
        columns += [
            float(deviation[target]),
            day[horizons - 1] - level,
            week[target] - level,
            lag_day[target] - level,
            lag_week[target] - level,
            # A day is a whole turn, so the profile at its end is that of now.
            day[horizons - 1] - day[-1],
            fluid[target, horizons - 1] - level,
        ]
    return columns


def _per_class(present: Present) -> Floats:
    waits = recent_waits(present)
    columns: list[float] = []
    for index, wait in enumerate(waits):
        ages = present.waiting_age_h[present.waiting_class == index]
        columns += [float(wait), float(np.log1p(len(ages))), float(np.log1p(ages.mean())) if len(ages) else 0.0]
    return np.array(columns)
