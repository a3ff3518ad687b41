"""Drawing jobs: all streams of a plan side by side, one job of each at a time."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers.columns import GAP, RUN, SIZE, JobTable
from presage.synthesizers.sequence.bins import draw_between
from presage.synthesizers.sequence.continuing import go_on
from presage.synthesizers.sequence.features import (
    LAST_GAPS,
    SESSION_S,
    Moment,
    after_gap,
    before_gap,
    next_usual,
    work_of,
)
from presage.synthesizers.sequence.fields import LIMIT
from presage.synthesizers.sequence.forward import draw_words
from presage.synthesizers.sequence.memory import Memory
from presage.synthesizers.sequence.rare import RareJobs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers._base import Drawing
    from presage.synthesizers.columns import Columns, FloatArray, IntArray
    from presage.synthesizers.sequence.fields import Fields
    from presage.synthesizers.sequence.forward import Weights
    from presage.synthesizers.sequence.plans import Plan

CALM_GAP_S = 3600.0
"""From this gap on, when in the week the next job comes matters more than how long it has been."""
WEEK_H = 168


@dataclass(frozen=True)
class Drawer:
    """What is needed to draw: the network, the fields, and how likely sessions begin at each hour of the week."""

    columns: Columns
    fields: Fields
    weights: Weights
    week: FloatArray
    """(168,): of mean 1, never 0."""
    hours: FloatArray
    """(168,): what makes gaps that end in an hour of the week likelier, as a logarithm."""
    rare: RareJobs = field(default_factory=RareJobs.none)
    """Jobs of the log that are not to be drawn again."""

    def draw(self, plan: Plan, rng: np.random.Generator, drawing: Drawing) -> JobTable:
        """Return the jobs of all streams in the order of their arrival, with times."""
        words, run_s, submit_ms = self.draw_streams(plan, rng, drawing)
        return self._table(np.repeat(plan.user, plan.jobs), words, run_s, submit_ms)

    def draw_streams(
        self, plan: Plan, rng: np.random.Generator, drawing: Drawing
    ) -> tuple[IntArray, FloatArray, IntArray]:
        """Return words, run times and submit times of all jobs, stream by stream."""
        jobs = int(plan.jobs.sum())
        first = np.concatenate([[0], np.cumsum(plan.jobs)[:-1]])
        words = np.empty((jobs, len(self.fields.names)), np.int64)
        run_s, time_s = np.empty(jobs), np.empty(jobs)
        moment = _begin(len(plan.jobs))
        width = self.weights.arrays["words.0.weight"].shape[1]
        memory = Memory.empty(len(plan.jobs), np.array(self.fields.sizes), width, self.fields.sort)
        if drawing.history is not None:
            go_on(drawing.history, plan, moment, memory, self.columns, self.fields, self.weights)
        active = len(plan.jobs)
        now, held = moment, memory
        for step in range(int(plan.jobs[0])):
            if plan.jobs[active - 1] <= step:
                active = int((plan.jobs > step).sum())
                now, held = _first(moment, active), memory.of(slice(active))
            places = first[:active] + step
            _turn_day(now, plan, places, begins=step == 0)
            drawn, gap_s, ran_s = self._next_jobs(now, held, plan.user[:active], rng)
            words[places], run_s[places], time_s[places] = drawn, ran_s, now.now_s + gap_s
            self._advance(now, gap_s, drawn, ran_s)
            held.add(drawn, *self.weights.remember(drawn), ran_s)
            drawing.tell(active)
        submit_ms = plan.calendar.monday_ms + np.rint(time_s).astype(np.int64) * 1000
        return words, run_s, submit_ms

    def _next_jobs(
        self, moment: Moment, memory: Memory, user: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return words, gap and run time of the next job of each stream."""
        last = len(self.fields.names) - 1
        words = np.empty((len(user), last + 1), np.int64)
        who = self.weights.who(user)
        sum_of_drawn = np.zeros((len(user), self.weights.arrays["words.0.weight"].shape[1]), np.float32)
        numbers = before_gap(moment)
        gap_s, fresh = np.zeros(len(user)), moment.done_today == 0
        for place in range(last + 1):
            possible = None
            if place == 0:
                possible = self.fields.possible_gaps(fresh)
            elif place == last:
                possible = self.fields.possible_runs(words)
            told = np.concatenate([numbers, who, sum_of_drawn], axis=1)
            words[:, place] = draw_words(
                self.weights, place, told, memory, words[:, :place], user, possible, rng, near=place in (0, last),
                fresh=fresh if place == 0 else None, favour=self._favour(moment) if place == 0 else None,
            )  # fmt: skip
            if place == 0:
                gap_s = self._gaps_s(words[:, 0], moment, rng)
                numbers = after_gap(moment, gap_s, numbers)
            sum_of_drawn += self.weights.arrays[f"words.{place}.weight"][words[:, place]]
        run_s, most_s = self._runs_s(words, memory.run_of_same_sort_s(words), rng)
        self.rare.avoid(user, words, run_s, most_s, rng)
        return words, gap_s, run_s

    def _favour(self, moment: Moment) -> NDArray[np.float32]:
        """Return how much likelier each word of the gap is for the hour in which it would end: (streams, V)."""
        ends_h = (moment.now_s[:, None] + self._middle_gaps_s) / 3600
        return self.hours[ends_h.astype(np.int64) % WEEK_H].astype(np.float32)

    @cached_property
    def _middle_gaps_s(self) -> FloatArray:
        """What each word of the gap stands for in the middle."""
        low, high = self.fields.gap_ranges(np.arange(self.fields.sizes[0]))
        return (low + high) / 2

    def _gaps_s(self, words: IntArray, moment: Moment, rng: np.random.Generator) -> FloatArray:
        """Return a gap in each range, at a time of the week at which people come where the gap is long."""
        low, high = self.fields.gap_ranges(words)
        places = rng.random(len(words))
        gap_s = draw_between(low, high, places)
        calm = (high - low) * 2 >= CALM_GAP_S
        if calm.any():
            from_h = moment.now_s[calm] / 3600
            at_h = self._calm_hours(from_h + low[calm] / 3600, from_h + high[calm] / 3600, places[calm])
            gap_s[calm] = np.rint((at_h - from_h) * 3600).clip(low[calm], high[calm])
        return gap_s

    def _calm_hours(self, low_h: FloatArray, high_h: FloatArray, places: FloatArray) -> FloatArray:
        """Return a time between two, counted in hours of the week, as likely as the week has sessions begin."""
        sums = np.concatenate([[0.0], np.cumsum(self.week)])
        hours = np.arange(WEEK_H + 1.0)
        low, high = (
            sums[-1] * (each // WEEK_H) + np.interp(each % WEEK_H, hours, sums) for each in (low_h, high_h)
        )
        at = low + (high - low) * places
        return at // sums[-1] * WEEK_H + np.interp(at % sums[-1], sums, hours)

    def _runs_s(
        self, words: IntArray, before_s: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Return run times of these words, near `before_s` where that is known, and how long they may be."""
        fields = self.fields
        bound_s = fields.run_bound_s(words)
        places = rng.random(len(words))
        code = words[:, -1]
        inner = np.minimum(code, len(fields.run) - 1)
        run_s = fields.run.draw(inner, places, bound_s)
        steps = np.linspace(0, 1, len(fields.echo))
        again_s = np.rint((before_s + 1) * np.exp(np.interp(places, steps, fields.echo)) - 1)
        again_s = np.clip(again_s, fields.run.low[inner], np.minimum(fields.run.high[inner], bound_s))
        run_s = np.where(np.isnan(before_s), run_s, np.maximum(again_s, 0.0))
        if fields.has_limits:
            ended = code == len(fields.run)
            over_s = np.interp(places[ended], np.linspace(0, 1, len(fields.rest_s)), fields.rest_s)
            run_s[ended] = np.maximum(np.rint(bound_s[ended] + over_s), 0.0)
            bound_s = np.maximum(bound_s, run_s)
        return run_s, bound_s

    def _advance(self, moment: Moment, gap_s: FloatArray, words: IntArray, run_s: FloatArray) -> None:
        """Let the jobs just drawn be the last ones of their streams."""
        since_s = gap_s + np.nan_to_num(moment.away_s)
        new = ~(gap_s + moment.away_s <= SESSION_S)
        moment.gaps_s[:, 1:] = moment.gaps_s[:, :-1]
        moment.gaps_s[:, 0] = np.where(moment.done == 0, np.nan, since_s)
        moment.session_s[:] = np.where(new, 0.0, moment.session_s + since_s)
        moment.session_jobs[:] = np.where(new, 1.0, moment.session_jobs + 1)
        moment.now_s += gap_s
        moment.away_s[:] = 0.0
        moment.done += 1
        moment.done_week += 1
        moment.done_today += 1
        moment.left_week -= 1
        moment.left_today -= 1
        moment.last_run_s[:] = run_s
        moment.last_limit_s[:] = self._numbers(LIMIT, words)
        moment.last_size[:] = self._numbers(SIZE, words)
        moment.usual_run[:] = next_usual(moment.usual_run, run_s)
        moment.usual_size[:] = next_usual(moment.usual_size, moment.last_size)
        work = work_of(moment.last_size, run_s)
        moment.work_today += work
        moment.work_left[:] = np.maximum(moment.work_left - work, 0.0)

    def _numbers(self, name: str, words: IntArray) -> FloatArray:
        place, numbers = self._known_numbers[name]
        return numbers[words[:, place]]

    @cached_property
    def _known_numbers(self) -> dict[str, tuple[int, FloatArray]]:
        """Where limit and size stand, and the numbers of their words; NaN at any place where there are none."""
        known = {}
        for name in (LIMIT, SIZE):
            category, place = self.columns.category(name), self.fields.place(name)
            if category is None or place is None:
                known[name] = (0, np.full(self.fields.sizes[0], np.nan))
            else:
                known[name] = (place, category.numbers())
        return known

    def _table(self, user: IntArray, words: IntArray, run_s: FloatArray, submit_ms: IntArray) -> JobTable:
        order = np.argsort(submit_ms, kind="stable")
        codes = {
            name: words[order, place]
            for place, name in enumerate(self.fields.names)
            if 0 < place < words.shape[1] - 1
        }
        if self.columns.category("user") is not None:
            codes["user"] = user[order]
        submit_ms = submit_ms[order]
        gap_s = np.diff(submit_ms, prepend=submit_ms[:1]) / 1000
        return JobTable(codes, {GAP: gap_s, RUN: run_s[order]}, submit_ms)


def _turn_day(moment: Moment, plan: Plan, places: IntArray, *, begins: bool) -> None:
    """Put streams whose next job, at `places` of the plan, comes on a later day than the last where it begins.

    A user who has not come to the end of a day's jobs when it ends goes on into the next.
    """
    day, last_day = plan.day[places], plan.day[places - 1]
    new_day = begins | (day > last_day)
    new_week = begins | (day // plan.calendar.parts > last_day // plan.calendar.parts)
    begin_s = np.maximum(day * float(plan.calendar.part_s), plan.calendar.first_s)
    now_s = np.where(new_day, np.maximum(begin_s, moment.now_s), moment.now_s)
    moment.away_s += now_s - moment.now_s
    moment.now_s[:] = now_s
    moment.left_today[new_day] = plan.of_day[places[new_day]]
    moment.left_week[new_week] = plan.of_week[places[new_week]]
    moment.work_left[new_day] = plan.work[places[new_day]]
    moment.done_today[new_day] = 0.0
    moment.work_today[new_day] = 0.0
    moment.done_week[new_week] = 0.0


def _begin(streams: int) -> Moment:
    """Return streams before their first job."""
    unknown = ("away_s", "last_run_s", "last_limit_s", "last_size", "usual_run", "usual_size")
    names = [each.name for each in fields(Moment) if each.name != "gaps_s"]
    return Moment(
        gaps_s=np.full((streams, LAST_GAPS), np.nan),
        **{name: np.full(streams, np.nan if name in unknown else 0.0) for name in names},
    )


def _first(moment: Moment, streams: int) -> Moment:
    """Return the first `streams` of a moment, not a copy."""
    return Moment(**{name: values[:streams] for name, values in vars(moment).items()})
