"""A log as users' weeks, and what is counted over them, so that none counts for more than a length of 1.

A unit is all that one user submitted in one week of the calendar. Every table here is a vector, and with one unit
more or less it moves by at most 1 (as the length of the difference): that is what noise is measured by. Nothing of
a unit depends on another one: streams begin anew every Monday.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers._clock import KINDS_OF_HOURS, kind_of_hour
from presage.synthesizers.sequence.streams import DAY_S, DAYS, Calendar, calendar_from, streams_of

if TYPE_CHECKING:
    from presage.synthesizers.columns import FloatArray, IntArray
    from presage.synthesizers.sequence.examples import Examples
    from presage.synthesizers.sequence.fields import Fields, Flags
    from presage.synthesizers.sequence.streams import Streams

MOST_COUNTED = 16.0
"""Jobs of a unit that count fully in a table of jobs: those of a unit with more weigh less each."""
MOST_STARTS = 4.0
MOST_LABELS = 16
"""Labels of a column that a unit can speak for: those that it uses most."""
JOB_EDGES = np.unique(np.rint(2 ** np.arange(0, 12.01, 0.5)))
"""Where ranges of numbers of jobs begin: 1, 2, 3, 4, 6, 8 … 4,096."""
CLASS_EDGES = np.array([4, 12, 40])
"""Where classes of units by jobs begin, after the first."""
CLASSES = len(CLASS_EDGES) + 1
WORK_EDGES = 4.0 ** np.arange(1, 14)
"""Processor seconds of a job."""
RATIO_EDGES = np.arange(-3.75, 4, 0.5)
"""Logarithms, to the base 2, of how a day differs from the unit's other days."""
RATIOS = len(RATIO_EDGES) + 1
ECHO_EDGES = np.array([-0.5, -0.3, -0.2, -0.1, -0.05, -0.02, -0.005, 0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5])
"""Logarithms of a run time over an earlier one of the same sort and range."""


@dataclass(frozen=True)
class Units:
    """The weeks of users, each a stream."""

    calendar: Calendar
    streams: Streams

    def __len__(self) -> int:
        return len(self.streams.user)

    @property
    def unit(self) -> IntArray:
        """The unit of each job, in the order of the streams."""
        return self.streams.of_rows()[0]

    def of_jobs(self) -> IntArray:
        """Return the unit of each job, in the order of their arrival."""
        unit = np.empty(len(self.streams.order), np.int64)
        unit[self.streams.order] = self.unit
        return unit

    @property
    def week(self) -> IntArray:
        """Of each unit."""
        week: IntArray = self.streams.day[self.streams.first[:-1]] // DAYS
        return week


def units_of(submit_ms: IntArray, users: IntArray, calendar: Calendar) -> Units:
    """Return the users' weeks of jobs that are ordered by time."""
    day = (calendar.since_monday_s(submit_ms) // DAY_S).astype(np.int64)
    return Units(calendar, streams_of(users, day, DAYS))


def whole_days(first_ms: int, last_ms: int, time_zone: str | None) -> Calendar:
    """Return the calendar of the days that a log touches: at which second it began is somebody's job."""
    calendar = calendar_from(first_ms, last_ms, time_zone)
    first_s = calendar.first_s // DAY_S * DAY_S
    return Calendar(calendar.monday_ms, first_s, (calendar.last_s // DAY_S + 1) * DAY_S - 1)


def bounded(
    unit: IntArray, cell: IntArray, cells: int, most: float, weight: FloatArray | None = None
) -> FloatArray:
    """Return how much there is in each cell, as `most`-ths, where no unit's part is longer than `most`."""
    pairs, place = np.unique(unit * cells + cell, return_inverse=True)
    amount = np.bincount(place, weight, minlength=len(pairs))
    owner = pairs // cells
    length = np.sqrt(np.bincount(owner, amount**2))
    part = amount / np.maximum(length, most)[owner]
    return np.bincount(pairs % cells, part, minlength=cells).astype(np.float64)


def label_table(unit: IntArray, codes: IntArray, labels: int) -> FloatArray:
    """Return how many units use each label; a unit with several divides itself among those that it uses most."""
    pairs, jobs = np.unique(unit * labels + codes, return_counts=True)
    owner = pairs // labels
    order = np.lexsort((pairs, -jobs, owner))
    rank = np.arange(len(order)) - np.searchsorted(owner[order], owner[order])
    kept = order[rank < MOST_LABELS]
    return bounded(owner[kept], pairs[kept] % labels, labels, 1.0)


def limit_table(unit: IntArray, over: Flags) -> FloatArray:
    """Return units whose jobs kept to their limits, and units whose jobs did not; some are a little of both."""
    return bounded(unit, over.astype(np.int64), 2, 1.0)


def plan_tables(units: Units, work: FloatArray) -> dict[str, FloatArray]:
    """Return what is known of who comes when, and how much they submit; `work` is of each job, by stream."""
    count = len(units)
    weeks = units.calendar.weeks
    each = np.arange(count)
    jobs = units.streams.jobs
    kind = class_of(jobs)
    day, day_jobs, day_work, unit = _days(units, work)
    active = np.bincount(unit, minlength=count)
    per_job = np.bincount(unit, day_work, minlength=count) / jobs
    evenness = ratio_of(np.log2(day_jobs * active[unit] / jobs[unit]))
    change = ratio_of(np.log2((day_work / day_jobs + 1) / (per_job[unit] + 1)))
    several = active[unit] > 1  # one day alone is like itself, which says nothing
    owner, share = unit[several], 1 / active[unit[several]]
    return {
        "weeks": bounded(each, units.week, weeks, 1.0),
        "users": _users_by_weeks(units.streams.user, weeks),
        "jobs": bounded(each, np.searchsorted(JOB_EDGES, jobs, "right") - 1, len(JOB_EDGES), 1.0),
        "days": bounded(each, kind * DAYS + active - 1, CLASSES * DAYS, 1.0),
        "weekdays": bounded(unit, day % DAYS, DAYS, float(np.sqrt(DAYS))),
        "evenness": bounded(owner, kind[owner] * RATIOS + evenness[several], CLASSES * RATIOS, 1.0, share),
        "work": bounded(
            each, kind * (len(WORK_EDGES) + 1) + np.searchsorted(WORK_EDGES, per_job, "right"),
            CLASSES * (len(WORK_EDGES) + 1), 1.0,
        ),
        "changes": bounded(owner, change[several], RATIOS, 1.0, share),
    }  # fmt: skip


def word_tables(
    units: Units,
    examples: Examples,
    fields: Fields,
    hours: FloatArray,
    calm: Flags,
    echo: tuple[IntArray, FloatArray],
) -> dict[str, FloatArray]:
    """Return what is known of jobs: how often each word comes, how often it comes again, and at which hours.

    `calm` jobs begin a session. `echo` are jobs that have an earlier one like them, and how their run times
    differ.
    """
    unit = units.unit
    kind = kind_of_hour(hours)
    tables = {
        f"words {name}": bounded(unit, examples.words[:, place], int(examples.nothing[place]), MOST_COUNTED)
        for place, name in enumerate(fields.names)
    }
    rows, ratios = echo
    return {
        **tables,
        "hours": bounded(unit, kind, KINDS_OF_HOURS, MOST_COUNTED),
        "starts": bounded(unit[calm], kind[calm], KINDS_OF_HOURS, MOST_STARTS),
        "again": _again(units, examples, fields),
        "echo": bounded(unit[rows], np.searchsorted(ECHO_EDGES, ratios), len(ECHO_EDGES) + 1, MOST_STARTS),
    }


def class_of(jobs: IntArray) -> IntArray:
    """Return the class of units of so many jobs."""
    return np.searchsorted(CLASS_EDGES, jobs, "right")


def ratio_of(logs: FloatArray) -> IntArray:
    """Return the range of a logarithm to the base 2."""
    return np.searchsorted(RATIO_EDGES, logs)


def _days(units: Units, work: FloatArray) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
    """Return day, jobs, work and unit of each day on which a unit has jobs."""
    span = units.calendar.weeks * DAYS
    keys, place, jobs = np.unique(units.unit * span + units.streams.day, return_inverse=True, return_counts=True)
    done: FloatArray = np.bincount(place, work, minlength=len(keys)).astype(np.float64)
    return keys % span, jobs, done, keys // span


def _users_by_weeks(user: IntArray, weeks: int) -> FloatArray:
    """Return how many users have at least 1, 2, … weeks: a week less takes one away from one of these numbers."""
    active = np.unique(user, return_counts=True)[1]
    exactly = np.bincount(active - 1, minlength=weeks)
    return np.cumsum(exactly[::-1])[::-1].astype(np.float64)


def _again(units: Units, examples: Examples, fields: Fields) -> FloatArray:
    """Return for each field how many jobs could repeat it, and how many of these do."""
    words = examples.words
    follows = np.flatnonzero(units.streams.of_rows()[1] > 0)
    here, before = words[follows], words[follows - 1]
    owners, cells = [], []
    for place in range(words.shape[1]):
        counted, same = fields.repetitions(place, here, before)
        for cell, chosen in ((2 * place, counted), (2 * place + 1, same)):
            owners.append(units.unit[follows[chosen]])
            cells.append(np.full(int(chosen.sum()), cell))
    # Each job is in up to two cells of every field.
    count = 2 * words.shape[1]
    return bounded(np.concatenate(owners), np.concatenate(cells), count, MOST_COUNTED * float(np.sqrt(count)))
