"""Users' weeks that nobody had: drawn from noisy tables alone, and so as private as these are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers.sequence.bins import draw_between
from presage.synthesizers.sequence.budget import shares_of
from presage.synthesizers.sequence.plans import Activity
from presage.synthesizers.sequence.streams import DAYS
from presage.synthesizers.sequence.units import CLASSES, JOB_EDGES, RATIO_EDGES, WORK_EDGES, class_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from presage.synthesizers.columns import FloatArray, IntArray
    from presage.synthesizers.sequence.streams import Calendar

LEANING = 5.0
"""For how many units what all classes do counts in each class."""
SURE = 2.5
"""How many standard deviations of its noise a table's end must rise above, to be believed."""


@dataclass(frozen=True)
class Habits:
    """What the tables say, as shares."""

    units: IntArray
    """Of each week."""
    users: FloatArray
    """How often each of the users comes, of mean 1."""
    jobs: FloatArray
    days: FloatArray
    """(classes, 7): how many days a unit of a class has."""
    weekdays: FloatArray
    evenness: FloatArray
    """(classes, ranges)"""
    work: FloatArray
    """(classes, ranges)"""
    changes: FloatArray


def habits_of(tables: Mapping[str, FloatArray], noise: Mapping[str, float]) -> Habits:
    """Return what noisy tables say."""
    units = np.maximum(np.rint(tables["weeks"]), 0).astype(np.int64)
    if not units.any():
        units[:] = 1
    return Habits(
        units=units,
        users=_visits(tables["users"], int(units.max())),
        jobs=_believed(tables["jobs"], noise["jobs"]),
        days=_by_class(tables["days"]),
        weekdays=np.maximum(tables["weekdays"] / tables["weekdays"].max(), 0.02),
        evenness=_by_class(tables["evenness"]),
        work=_by_class(tables["work"]),
        changes=shares_of(tables["changes"]),
    )


def invent(habits: Habits, calendar: Calendar, rng: np.random.Generator) -> Activity:
    """Return weeks of users as the habits have them, for as many weeks as the calendar has."""
    open_days = calendar.open_days()
    week = np.repeat(np.arange(calendar.weeks), habits.units)
    chance = habits.users / habits.users.sum()
    user = np.concatenate([rng.choice(len(chance), count, replace=False, p=chance) for count in habits.units])
    jobs = _jobs(habits, len(week), rng)
    days = np.zeros((len(week), DAYS), np.int64)
    work = np.zeros((len(week), DAYS))
    for place, count in enumerate(jobs.tolist()):
        days[place], work[place] = _week(habits, count, open_days[week[place]], rng)
    return Activity(open_days, week, user, days, work, DAYS)


def quantiles(shares: FloatArray, edges: FloatArray, knots: int) -> FloatArray:
    """Return quantiles of a number of which the shares of ranges are known; beyond the edges it is the edge."""
    return np.interp(np.linspace(0, 1, knots), np.cumsum(shares)[:-1], edges)


def _jobs(habits: Habits, count: int, rng: np.random.Generator) -> IntArray:
    code = rng.choice(len(JOB_EDGES), count, p=habits.jobs)
    ends = np.append(JOB_EDGES[1:], 2 * JOB_EDGES[-1]) - 1
    return draw_between(JOB_EDGES[code], ends[code], rng.random(count)).astype(np.int64)


def _week(
    habits: Habits, jobs: int, open_days: FloatArray, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Return how many jobs a unit has on each day of a week, and their work."""
    kind = int(class_of(np.array([jobs]))[0])
    chance = habits.weekdays * (open_days + 1e-9)
    count = min(int(rng.choice(DAYS, p=habits.days[kind])) + 1, jobs, int((open_days > 0).sum()))
    active = rng.choice(DAYS, count, replace=False, p=chance / chance.sum())
    parts = np.exp2(_ratios(habits.evenness[kind], count, rng))
    days, work = np.zeros(DAYS, np.int64), np.zeros(DAYS)
    days[active] = 1 + rng.multinomial(jobs - count, parts / parts.sum())
    code = int(rng.choice(habits.work.shape[1], p=habits.work[kind]))
    ends = np.concatenate([[1.0], WORK_EDGES, [4 * WORK_EDGES[-1]]])
    per_job = ends[code] * (ends[code + 1] / ends[code]) ** rng.random()
    work[active] = days[active] * per_job * np.exp2(_ratios(habits.changes, count, rng))
    return days, work


def _ratios(shares: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Return logarithms to the base 2, each from the middle of its range."""
    step = RATIO_EDGES[1] - RATIO_EDGES[0]
    middles = np.append(RATIO_EDGES, RATIO_EDGES[-1] + step) - step / 2
    return rng.choice(middles, count, p=shares)


def _visits(users: FloatArray, fewest: int) -> FloatArray:
    """Return how many weeks each of the users has, from how many have so many or more; for `fewest` at least."""
    at_least = np.maximum(np.rint(_falling(users)), 0).astype(np.int64)
    at_least[0] = max(int(at_least[0]), fewest)
    visits: FloatArray = (np.arange(at_least[0])[:, None] < at_least).sum(axis=1).astype(np.float64)
    return visits


def _falling(values: FloatArray) -> FloatArray:
    """Return the numbers nearest to `values` that never rise."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(len(values))
    lengths = np.maximum(places[None, :] - places[:, None] + 1, 1)
    means = (sums[None, 1:] - sums[:-1, None]) / lengths  # from a row's place up to a column's
    return np.array([means[: place + 1, place:].max(axis=1).min() for place in places])


def _by_class(table: FloatArray) -> FloatArray:
    """Return the shares of each class, leaning on those of all; where the noise took all, they are everybody's."""
    known = shares_of(table).reshape(CLASSES, -1) * max(float(table.sum()), 1.0)
    everybody = known.sum(axis=0) / known.sum()
    leaning = known + LEANING * everybody
    shares: FloatArray = leaning / leaning.sum(axis=1, keepdims=True)
    return shares


def _believed(table: FloatArray, noise: float) -> FloatArray:
    """Return shares without the end of the table where it may be noise: few units of thousands of jobs matter.

    What lies beyond the first place where it may be is not believed either: of many ends, one is above its noise
    by chance.
    """
    tails = np.cumsum(table[::-1])[::-1]
    doubtful = np.flatnonzero(tails <= SURE * noise * np.sqrt(np.arange(len(table), 0, -1)))
    last = max(int(doubtful[0]) - 1, 0) if len(doubtful) else len(table) - 1
    return np.pad(shares_of(table[: last + 1]), (0, len(table) - last - 1))
