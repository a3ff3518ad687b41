"""Drawing jobs: all streams of a plan side by side, one job of each at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers.columns import GAP, RUN, JobTable
from presage.synthesizers.sequence.continuing import go_on
from presage.synthesizers.sequence.features import Moment
from presage.synthesizers.sequence.meanings import Meanings
from presage.synthesizers.sequence.memory import Memory
from presage.synthesizers.sequence.rare import RareJobs
from presage.synthesizers.sequence.steps import Steps

if TYPE_CHECKING:
    from presage.synthesizers._base import Drawing
    from presage.synthesizers.columns import Columns, FloatArray, IntArray
    from presage.synthesizers.sequence.fields import Fields
    from presage.synthesizers.sequence.forward import Weights
    from presage.synthesizers.sequence.plans import Plan

WORTH_COMPILING = 1000
"""From so many jobs on, kernels save more time than loading them takes: about 0.6 s, once they were compiled."""


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
        memory = Memory.empty(len(plan.jobs), np.array(self.fields.sizes), self.weights.width, self.fields.sort)
        if drawing.history is not None:
            go_on(drawing.history, plan, moment, memory, self.columns, self.fields, self.weights)
        steps = self._steps(jobs)
        active = len(plan.jobs)
        now, held = moment, memory
        for step in range(int(plan.jobs[0])):
            if plan.jobs[active - 1] <= step:
                active = int((plan.jobs > step).sum())
                now, held = _first(moment, active), memory.of(slice(active))
            places = first[:active] + step
            _turn_day(now, plan, places, begins=step == 0)
            new = steps.next_jobs(now, held, plan.user[:active], rng)
            words[places], run_s[places], time_s[places] = new.words, new.run_s, now.now_s + new.gap_s
            steps.take_up(now, held, new)
            drawing.tell(active)
        submit_ms = plan.calendar.monday_ms + np.rint(time_s).astype(np.int64) * 1000
        return words, run_s, submit_ms

    def _steps(self, jobs: int) -> Steps:
        """Return what draws the next job of streams that have so many together."""
        meanings = Meanings.of(self.columns, self.fields, self.week)
        if jobs < WORTH_COMPILING or find_spec("numba") is None:
            return Steps(self.fields, self.weights, meanings, self.hours, self.rare)
        from presage.synthesizers.sequence.compiled import CompiledSteps

        return CompiledSteps(self.fields, self.weights, meanings, self.hours, self.rare)

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
    moment.away_s[:] += now_s - moment.now_s
    moment.now_s[:] = now_s
    moment.left_today[new_day] = plan.of_day[places[new_day]]
    moment.left_week[new_week] = plan.of_week[places[new_week]]
    moment.work_left[new_day] = plan.work[places[new_day]]
    moment.done_today[new_day] = 0.0
    moment.work_today[new_day] = 0.0
    moment.done_week[new_week] = 0.0


def _begin(streams: int) -> Moment:
    """Return streams before their first job."""
    known = {
        "now_s", "done", "done_week", "done_today", "left_week", "left_today", "session_jobs", "session_s",
        "work_today", "work_left",
    }  # fmt: skip
    return Moment(*(np.full(streams, 0.0 if name in known else np.nan) for name in Moment._fields))


def _first(moment: Moment, streams: int) -> Moment:
    """Return the first `streams` of a moment, not a copy."""
    return Moment(*(values[:streams] for values in moment))
