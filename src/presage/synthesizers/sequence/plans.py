"""Who submits how many jobs on which day: what a log did, laid out anew."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers.sequence.streams import DAYS, WEEK_S, stream_keys

if TYPE_CHECKING:
    from presage.synthesizers.columns import FloatArray, IntArray
    from presage.synthesizers.sequence.fields import Flags
    from presage.synthesizers.sequence.streams import Calendar, Streams

    Part = tuple[IntArray, IntArray, IntArray, FloatArray]

ALIKE = 8
"""Weeks of other people with about as many jobs that may lend their days."""
LIKENESS = 0.5
"""How much fewer or more jobs, as a power of e, make another week less likely to lend its days."""
ENOUGH = 1.3
"""How much more time is planned than the log's jobs would need."""
LEAST_SHARE, WHOLE = 0.15, 0.99
"""Weeks of which the log has less are not laid out anew, but for its first; with that much, they are whole."""


@dataclass(frozen=True)
class Activity:
    """How many jobs each user submitted on each day of each week of a log."""

    open_days: FloatArray
    """(weeks, parts of the week): how much of each the log has."""
    week: IntArray
    """One entry here and below for each user and week with jobs."""
    user: IntArray
    days: IntArray
    """(entries, parts of the week): jobs."""
    work: FloatArray
    """(entries, parts of the week): their processor seconds."""
    span_days: int
    """After how many days a user begins anew: see `cut`."""

    def moved(self, parts: int) -> Activity:
        """Return what had been if all came so many parts of the week later, the last of them at its beginning."""
        return replace(
            self,
            open_days=np.roll(self.open_days, parts, axis=1),
            days=np.roll(self.days, parts, axis=1),
            work=np.roll(self.work, parts, axis=1),
        )

    @property
    def share(self) -> FloatArray:
        """How much of each week the log has."""
        share: FloatArray = self.open_days.mean(axis=1)
        return share

    @property
    def jobs(self) -> IntArray:
        """Jobs of each entry."""
        jobs: IntArray = self.days.sum(axis=1)
        return jobs


@dataclass(frozen=True)
class Varying:
    """How a plan differs from what the log did."""

    spread: float
    """How much a user's jobs in a week vary, as a power of e; and half as much as the work of a day."""
    borrowed: float
    """Share of weeks of users whose jobs are spread over the days, and whose work is, as in another week."""


def activity_of(streams: Streams, calendar: Calendar, work: FloatArray) -> Activity:
    """Return what the streams of a log did; `work` is of each job, in the order of the streams."""
    shape = (len(streams.user), calendar.weeks, calendar.parts)
    jobs = streams.jobs_by_day(calendar.weeks * calendar.parts).reshape(shape)
    works = streams.jobs_by_day(calendar.weeks * calendar.parts, work).reshape(shape)
    stream, week = np.nonzero(jobs.sum(axis=2))
    return Activity(
        calendar.open_days(),
        week,
        streams.user[stream],
        jobs[stream, week].astype(np.int64),
        works[stream, week],
        streams.span_days,
    )


@dataclass(frozen=True)
class Plan:
    """Streams to draw, the longest first, and when each of their jobs is due."""

    calendar: Calendar
    user: IntArray
    jobs: IntArray
    """Of each stream."""
    day: IntArray
    """Of each job, stream by stream, counted from the first Monday."""
    of_day: IntArray
    """How many jobs the stream has on that day, and in that week."""
    of_week: IntArray
    work: FloatArray
    """How many processor seconds the jobs of that day should make together."""

    def ends_of_days(self) -> Flags:
        """Return which jobs are the last of their stream on their day."""
        stream = np.repeat(np.arange(len(self.jobs)), self.jobs)
        goes_on = (np.diff(stream) == 0) & (np.diff(self.day) == 0)
        return ~np.append(goes_on, False)


def make_plan(
    activity: Activity, count: int, calendar: Calendar, varying: Varying, rng: np.random.Generator, *, again: bool
) -> Plan:
    """Return streams of at least `count` jobs from the beginning of the calendar on.

    The weeks of the log lend what their users did on which day one after the other, and once they are used up in
    any order. `again`: the trace begins when the log began, and so with the same part of a week.
    """
    pace = float(activity.jobs.sum() / (activity.share.sum() * WEEK_S))
    span_s = count / max(pace, 1e-9)
    parts: list[Part] = []
    while sum(int(part[2].sum()) for part in parts) < count:
        # A little more than is needed on average, and twice as much again if these were quiet weeks.
        calendar = replace(calendar, last_s=calendar.first_s + ENOUGH * span_s)
        parts = _parts(activity, count, calendar, varying, rng, again=again)
        span_s *= 2
    user, day, jobs, work = (np.concatenate(each) for each in zip(*parts, strict=True))
    # A trace longer than the log has streams no longer than the log's, so that they can be drawn side by side.
    log_days = activity.open_days.size
    span_days = activity.span_days if activity.span_days < log_days else log_days + calendar.parts
    return _laid_out(calendar, user, day, jobs, work, span_days)


def _parts(
    activity: Activity, count: int, calendar: Calendar, varying: Varying, rng: np.random.Generator, *, again: bool
) -> list[Part]:
    """Return user, day, jobs and work of days with jobs, week by week, until there are `count` jobs."""
    open_days = calendar.open_days()
    parts: list[Part] = []
    drawn = 0
    for week, lender in enumerate(_lenders(activity, calendar.weeks, rng, again=again)):
        for lending, lent, days in _lent(activity, int(lender), open_days[week], rng):
            user, day, jobs, work = _part(lending, lent, days, varying, rng)
            parts.append((user, day + week * calendar.parts, jobs, work))
            drawn += int(jobs.sum())
        if drawn >= count:
            break
    return parts


def _lent(
    activity: Activity, lender: int, open_days: FloatArray, rng: np.random.Generator
) -> list[tuple[Activity, int, FloatArray]]:
    """Return what makes a week: `lender` lends the days that the log has of it, and other weeks the rest.

    Each is what the log did, perhaps moved within the week, which of its weeks it is, and the days that it lends.
    """
    lent = [(activity, lender, open_days)]
    missing = np.where(activity.open_days[lender] == 0, open_days, 0.0)
    while missing.any():
        moved, week = _stand_in(activity, missing > 0, rng)
        there = moved.open_days[week] > 0
        lent.append((moved, week, np.where(there, missing, 0.0)))
        missing = np.where(there, 0.0, missing)
    return lent


def _stand_in(activity: Activity, missing: Flags, rng: np.random.Generator) -> tuple[Activity, int]:
    """Return a week that has some of what is missing: a whole one, else one moved by days, or by parts of days.

    A log of two days has no Thursday: its Tuesday stands for it.
    """
    parts = len(missing)
    every_week = np.arange(len(activity.open_days))
    for weeks, moves in (
        (_whole_weeks(activity), range(1)),
        (every_week, range(0, parts, parts // DAYS)),
        (every_week, range(parts)),
    ):
        found = [
            (moved, week)
            for moved in map(activity.moved, moves)
            for week in weeks.tolist()
            if moved.open_days[week][missing].any()
        ]
        if found:
            return found[int(rng.integers(len(found)))]
    raise ValueError("a log lasts for some time")


def _part(
    activity: Activity, lender: int, open_days: FloatArray, varying: Varying, rng: np.random.Generator
) -> Part:
    """Return user, day of the week, jobs and work of days with jobs, as in a week of the log."""
    members = np.flatnonzero(activity.week == lender)
    known = activity.open_days[lender]
    kept = np.divide(np.minimum(open_days, known), known, out=np.zeros(len(known)), where=known > 0)
    jobs = _varied((activity.days[members] * kept).sum(axis=1), varying.spread, rng)
    members, jobs = members[jobs > 0], jobs[jobs > 0]
    days, work = _days(activity, members, jobs, kept, varying.borrowed, rng)
    entry, day = np.nonzero(days)
    varied = work[entry, day] * _noise(entry.shape, 2 * varying.spread, rng)
    return activity.user[members][entry], day, days[entry, day], varied


def _laid_out(
    calendar: Calendar, user: IntArray, day: IntArray, jobs: IntArray, work: FloatArray, span_days: int
) -> Plan:
    """Return the plan of these days of users, each with its jobs and their work; a stream spans so many days."""
    week = day // calendar.parts
    stream = stream_keys(user, day, span_days)
    sizes = np.bincount(stream, weights=jobs).astype(np.int64)
    order = np.lexsort((day, stream, -sizes[stream]))
    entries = np.repeat(order, jobs[order])  # one for each job
    in_week = np.unique(stream * (int(week.max()) + 1) + week, return_inverse=True)[1]
    names, first = np.unique(stream[order], return_index=True)
    longest_first = np.argsort(first)
    return Plan(
        calendar=calendar,
        user=user[order][first[longest_first]],
        jobs=sizes[names[longest_first]],
        day=day[entries],
        of_day=jobs[entries],
        of_week=np.bincount(in_week, weights=jobs).astype(np.int64)[in_week[entries]],
        work=work[entries],
    )


def _lenders(activity: Activity, weeks: int, rng: np.random.Generator, *, again: bool) -> IntArray:
    """Return for each week of the plan the week of the log that lends its users."""
    whole = _whole_weeks(activity)
    first = np.union1d([0], _useful_weeks(activity)) if again else whole
    return np.concatenate([first[:weeks], rng.choice(whole, max(weeks - len(first), 0))])


def _whole_weeks(activity: Activity) -> IntArray:
    """Return the weeks that the log has from beginning to end, or those it has most of if there is none."""
    useful = _useful_weeks(activity)
    whole = useful[activity.share[useful] > WHOLE]
    return whole if len(whole) else useful


def _useful_weeks(activity: Activity) -> IntArray:
    useful = np.flatnonzero(activity.share >= LEAST_SHARE)
    return useful if len(useful) else np.arange(len(activity.open_days))


def _days(
    activity: Activity,
    members: IntArray,
    jobs: IntArray,
    open_days: FloatArray,
    borrowed: float,
    rng: np.random.Generator,
) -> tuple[IntArray, FloatArray]:
    """Return how `jobs` of the entries `members`, and their work, are spread: (members, days) each."""
    days = np.zeros((len(members), len(open_days)), np.int64)
    work = np.zeros(days.shape)
    for place, (member, count) in enumerate(zip(members.tolist(), jobs.tolist(), strict=True)):
        lender = _lender_of_days(activity, member, rng) if rng.random() < borrowed else member
        shares = next(
            each for each in (activity.days[lender] * open_days, activity.days[member] * open_days, open_days)
            if each.sum() > 0
        )  # fmt: skip
        days[place] = _apportion(count, shares / shares.sum(), rng)
        each_s = activity.work[member].sum() / activity.jobs[member]
        if activity.user[lender] == activity.user[member]:
            lent = activity.work[lender] / np.maximum(activity.days[lender], 1)
            work[place] = days[place] * np.where(activity.days[lender] > 0, lent, each_s)
        else:
            work[place] = days[place] * each_s
    return days, work


def _apportion(jobs: int, shares: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return whole numbers of these shares; only what is left of them is drawn."""
    sure = np.floor(jobs * shares + 1e-9)
    rest = jobs * shares - sure
    left = jobs - int(sure.sum())
    if left and rest.sum() > 0:
        sure += rng.multinomial(left, np.maximum(rest, 0) / np.maximum(rest, 0).sum())
    elif left:
        sure[int(np.argmax(shares))] += left
    return sure.astype(np.int64)


def _lender_of_days(activity: Activity, member: int, rng: np.random.Generator) -> int:
    """Return another week with about as many jobs, of the same user if there is one."""
    logs = np.log(activity.jobs)
    distance = np.abs(logs - logs[member])
    others = np.flatnonzero((activity.user == activity.user[member]) & (activity.week != activity.week[member]))
    if not len(others):
        distance[member] = np.inf
        others = np.argsort(distance)[:ALIKE]
    weight = np.exp(-distance[others] / LIKENESS) + 1e-9
    return int(rng.choice(others, p=weight / weight.sum()))


def _varied(jobs: FloatArray, spread: float, rng: np.random.Generator) -> IntArray:
    """Return whole numbers around `jobs`, with the same mean."""
    scaled = jobs * _noise(jobs.shape, spread, rng)
    return np.floor(scaled + rng.random(len(jobs))).astype(np.int64)


def _noise(shape: tuple[int, ...], spread: float, rng: np.random.Generator) -> FloatArray:
    """Return factors of mean 1."""
    return np.exp(spread * rng.standard_normal(shape) - spread**2 / 2)
