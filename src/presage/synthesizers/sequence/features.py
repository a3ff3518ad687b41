"""What the network is told in numbers before it draws a field: the same for training and for drawing.

What takes a moment takes that of many streams, as arrays, or of one, as numbers: the kernels compile it as it is.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.synthesizers.sequence.streams import WEEK_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers.columns import FloatArray, IntArray
    from presage.synthesizers.sequence.streams import Calendar, Streams

    Flags = NDArray[np.bool_]
    Float32 = NDArray[np.float32]
    Floats = NDArray[np.floating]

SESSION_S = 1200.0
"""A user who stays away longer begins a new session."""
RECENT, HABITS = 8, 8
"""Jobs that the next one may look back to: the last ones, and the last one of each sort that the user had."""
HISTORY = RECENT + HABITS
REACH = 8
"""How many ranges a number that is like an earlier one may lie away from it."""
CLOCK = 9
BEFORE = 26 + CLOCK
"""How many numbers are known before the gap is drawn."""
AFTER = BEFORE + 3
"""And how many once it is."""
UNKNOWN = -0.2
"""What stands for a logarithm that is not known; those that are known are not negative."""
HABIT = 0.1
"""How much a job counts in what is usual for a user."""


class Moment(NamedTuple):
    """Where each of several streams stands just before its next job; times are seconds since the first Monday."""

    now_s: FloatArray
    """When its last job came, or when the day of the next one begins, whichever is later."""
    away_s: FloatArray
    """How long ago the last job came by `now_s`; NaN before the first, as are the next ones."""
    gap_1_s: FloatArray
    """The last gaps between jobs, the latest first."""
    gap_2_s: FloatArray
    gap_3_s: FloatArray
    last_run_s: FloatArray
    last_limit_s: FloatArray
    last_size: FloatArray
    usual_run: FloatArray
    """Logarithms that are usual for the user."""
    usual_size: FloatArray
    done: FloatArray
    """Jobs so far, so far this week, and so far today."""
    done_week: FloatArray
    done_today: FloatArray
    left_week: FloatArray
    """Jobs still to come this week and today, this one included."""
    left_today: FloatArray
    session_jobs: FloatArray
    session_s: FloatArray
    """How long the session has lasted when the last job came."""
    work_today: FloatArray
    """Processor seconds of the jobs that came today, and of those still to come."""
    work_left: FloatArray

    @classmethod
    def begin(cls, streams: int) -> Moment:
        """Return streams before their first job."""
        known = {
            "now_s", "done", "done_week", "done_today", "left_week", "left_today", "session_jobs", "session_s",
            "work_today", "work_left",
        }  # fmt: skip
        return cls(*(np.full(streams, 0.0 if name in known else np.nan) for name in cls._fields))

    def of(self, streams: slice | IntArray) -> Moment:
        """Return some of the streams; a slice of them is not a copy."""
        return Moment(*(values[streams] for values in self))

    def copy(self, source: IntArray, target: IntArray) -> None:
        """Let the streams at `target` stand where those at `source` do."""
        for values in self:
            values[target] = values[source]


def before_gap(moment: Moment) -> Float32:
    """Return what is known before the next job comes: (streams, BEFORE)."""
    return np.column_stack(numbers_before(moment)).astype(np.float32)


def after_gap(moment: Moment, gap_s: FloatArray, before: Float32) -> Float32:
    """Return what is known once the next job has come, `gap_s` after `now_s`: (streams, AFTER).

    `before` is what was known before; only the clock has gone on.
    """
    columns = np.column_stack(numbers_after(moment, gap_s)).astype(np.float32)
    return np.concatenate([before[:, : BEFORE - CLOCK], columns], axis=1)


def numbers_before(moment: Moment) -> tuple[Floats, ...]:
    """Return the numbers that are known before the next job comes, as many as `BEFORE` says, the clock last."""
    numbers = (
        1.0 * (moment.done == 0),
        1.0 * (moment.done_week == 0),
        1.0 * (moment.done_today == 0),
        np.log1p(moment.done) / 4,
        np.log1p(moment.done_week) / 3,
        np.log1p(moment.done_today) / 3,
        np.log1p(moment.left_week) / 3,
        np.log1p(moment.left_today) / 3,
        np.log1p(moment.done_week + moment.left_week) / 3,
        np.log1p(moment.done_today + moment.left_today) / 3,
        np.log1p(moment.session_jobs) / 2,
        np.log1p(moment.session_s) / 6,
        np.log1p(moment.work_today) / 10,
        np.log1p(moment.work_today / np.maximum(moment.done_today, 1.0)) / 10,
        np.log1p(moment.work_left) / 10,
        np.log1p(moment.work_left / np.maximum(moment.left_today, 1.0)) / 10,
        known_log(moment.away_s),
        1.0 * np.isnan(moment.gap_2_s),
        known_log(moment.gap_1_s),
        known_log(moment.gap_2_s),
        known_log(moment.gap_3_s),
        known_log(moment.last_run_s),
        known_log(moment.last_limit_s),
        known_log(moment.last_size),
        filled(moment.usual_run / 6, UNKNOWN),
        filled(moment.usual_size / 6, UNKNOWN),
    )
    return numbers + clock(moment.now_s / 3600)


def numbers_after(moment: Moment, gap_s: FloatArray) -> tuple[Floats, ...]:
    """Return the clock `gap_s` later, and the numbers that are known only then."""
    since_s = gap_s + filled(moment.away_s, float(WEEK_S))
    return (
        *clock((moment.now_s + gap_s) / 3600),
        np.log1p(since_s) / 6,
        1.0 * (since_s > SESSION_S),
        np.log((since_s + 10) / (filled(moment.last_run_s, 0.0) + 10)) / 4,
    )


def after_job(
    moment: Moment, gap_s: FloatArray, run_s: FloatArray, limit_s: FloatArray, size: FloatArray
) -> Moment:
    """Return where streams stand after their next jobs, as if the next ones came on the same day."""
    since_s = gap_s + filled(moment.away_s, 0.0)
    goes_on = gap_s + moment.away_s <= SESSION_S  # never where it is not known
    work = work_of(size, run_s)
    return Moment(
        now_s=moment.now_s + gap_s,
        away_s=0.0 * gap_s,
        gap_1_s=where(moment.done == 0, np.nan, since_s),
        gap_2_s=moment.gap_1_s,
        gap_3_s=moment.gap_2_s,
        last_run_s=run_s,
        last_limit_s=limit_s,
        last_size=size,
        usual_run=next_usual(moment.usual_run, run_s),
        usual_size=next_usual(moment.usual_size, size),
        done=moment.done + 1,
        done_week=moment.done_week + 1,
        done_today=moment.done_today + 1,
        left_week=moment.left_week - 1,
        left_today=moment.left_today - 1,
        session_jobs=where(goes_on, moment.session_jobs + 1, 1.0),
        session_s=where(goes_on, moment.session_s + since_s, 0.0),
        work_today=moment.work_today + work,
        work_left=np.maximum(moment.work_left - work, 0.0),
    )


def clock(hour_of_week: FloatArray) -> tuple[Floats, ...]:
    """Return numbers that say what time it is, as many as `CLOCK` says."""
    day = hour_of_week * (2 * np.pi / 24)
    week = hour_of_week * (2 * np.pi / 168)
    return (
        np.sin(day), np.cos(day), np.sin(2 * day), np.cos(2 * day), np.sin(3 * day), np.cos(3 * day),
        np.sin(week), np.cos(week), 1.0 * (hour_of_week % 168 >= 120),
    )  # fmt: skip


def moments_of(
    submit_ms: IntArray, streams: Streams, calendar: Calendar, known: dict[str, FloatArray]
) -> tuple[Moment, FloatArray]:
    """Return where each job's stream stood before it came, and how long after that it came.

    All are in the order of the streams. `known` has `run_s`, `limit_s` and `cpus` of each job, NaN where missing.
    """
    stream, place = streams.of_rows()
    at_s = calendar.since_monday_s(submit_ms[streams.order])
    rows = np.arange(len(at_s))
    today, today_jobs = _since(stream * (calendar.weeks * calendar.parts) + streams.day)
    week, week_jobs = _since(stream * calendar.weeks + streams.day // calendar.parts)
    last_s = _earlier(at_s, place, 1)
    now_s = np.fmax(last_s, np.maximum(streams.day * float(calendar.part_s), calendar.first_s))
    head = np.maximum.accumulate(np.where(~(at_s - last_s <= SESSION_S), rows, 0))  # first job of the session
    work = work_of(known["cpus"], known["run_s"])
    so_far = np.concatenate([[0.0], np.cumsum(work)])
    moment = Moment(
        now_s=now_s,
        away_s=now_s - last_s,
        gap_1_s=_earlier(at_s - last_s, place, 1),
        gap_2_s=_earlier(at_s - last_s, place, 2),
        gap_3_s=_earlier(at_s - last_s, place, 3),
        last_run_s=_earlier(known["run_s"], place, 1),
        last_limit_s=_earlier(known["limit_s"], place, 1),
        last_size=_earlier(known["cpus"], place, 1),
        usual_run=_earlier(_usual(known["run_s"], place), place, 1),
        usual_size=_earlier(_usual(known["cpus"], place), place, 1),
        done=place.astype(np.float64),
        done_week=(rows - week).astype(np.float64),
        done_today=(rows - today).astype(np.float64),
        left_week=(week_jobs - (rows - week)).astype(np.float64),
        left_today=(today_jobs - (rows - today)).astype(np.float64),
        session_jobs=filled(_earlier((rows - head + 1).astype(np.float64), place, 1), 0.0),
        session_s=filled(_earlier(at_s - at_s[head], place, 1), 0.0),
        work_today=so_far[rows] - so_far[today],
        work_left=so_far[today + today_jobs] - so_far[rows],
    )
    return moment, at_s - now_s


def work_of(size: FloatArray, run_s: FloatArray) -> FloatArray:
    """Return processor seconds; where the size is unknown it counts as one."""
    return filled(size, 1.0) * run_s


def next_usual(usual: FloatArray, values: FloatArray) -> FloatArray:
    """Return what is usual after one more value; the first value is usual by itself."""
    logs = np.log1p(np.maximum(filled(values, 1.0), 0.0))
    return where(np.isnan(usual), logs, (1 - HABIT) * usual + HABIT * logs)


def _usual(values: FloatArray, place: IntArray) -> FloatArray:
    """Return what is usual after each job."""
    usual = np.empty(len(values))
    by_step = np.argsort(place, kind="stable")  # one job of every stream at a time, as when they are drawn
    steps = np.searchsorted(place[by_step], np.arange(int(place.max(initial=0)) + 2))
    for step, (low, high) in enumerate(itertools.pairwise(steps)):
        rows = by_step[low:high]
        before = np.full(len(rows), np.nan) if step == 0 else usual[rows - 1]
        usual[rows] = next_usual(before, values[rows])
    return usual


def _since(group: IntArray) -> tuple[IntArray, IntArray]:
    """Return for each row the first row of its group, and the size of the group; groups are contiguous."""
    begins = np.concatenate([[True], group[1:] != group[:-1]])
    first = np.flatnonzero(begins)
    member = np.cumsum(begins) - 1
    return first[member], np.diff(np.append(first, len(group)))[member]


def _earlier(values: FloatArray, place: IntArray, back: int) -> FloatArray:
    """Return the value of the job `back` places earlier in the same stream; NaN where there is none."""
    return np.where(place >= back, np.roll(values, back), np.nan)


def known_log(values: FloatArray) -> FloatArray:
    """Return a sixth of the logarithms; `UNKNOWN` where they are not known."""
    return filled(np.log1p(np.maximum(values, 0.0)) / 6, UNKNOWN)


def filled(values: FloatArray, missing: float) -> FloatArray:
    """Return the values with `missing` in place of NaN."""
    return where(np.isnan(values), missing, values)


def where(condition: Flags, true: FloatArray | float, false: FloatArray | float) -> FloatArray:
    """Return `true` where the condition holds and `false` elsewhere; kernels have their own for single numbers."""
    return np.where(condition, true, false)
