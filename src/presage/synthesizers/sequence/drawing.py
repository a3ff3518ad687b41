"""Drawing jobs: all streams of a plan side by side, one job of each at a time."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers.columns import GAP, RUN, JobTable
from presage.synthesizers.sequence.continuing import go_on
from presage.synthesizers.sequence.drafts import Drafts
from presage.synthesizers.sequence.features import Moment
from presage.synthesizers.sequence.meanings import Meanings
from presage.synthesizers.sequence.memory import Memory
from presage.synthesizers.sequence.steps import Steps
from presage.synthesizers.sequence.tallies import Tally

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
    drafts: int
    """How often each day of a stream is drawn, to keep the one nearest to the plan and to what is usual."""

    def draw(self, plan: Plan, rng: np.random.Generator, drawing: Drawing) -> JobTable:
        """Return the jobs of all streams in the order of their arrival, with times."""
        words, run_s, submit_ms = self.draw_streams(plan, rng, drawing)
        return self._table(np.repeat(plan.user, plan.jobs), words, run_s, submit_ms)

    def draw_streams(
        self, plan: Plan, rng: np.random.Generator, drawing: Drawing
    ) -> tuple[IntArray, FloatArray, IntArray]:
        """Return words, run times and submit times of all jobs, stream by stream."""
        moment, memory = self._begin(plan, drawing)
        tally = Tally.of(self.weights, self.fields, self.columns)
        drafts = Drafts(plan, len(self.fields.names), self.drafts, tally)
        first = np.concatenate([[0], np.cumsum(plan.jobs)[:-1]])
        user = np.repeat(plan.user, self.drafts)
        steps = self._steps(len(plan.day) * self.drafts)
        active = len(plan.jobs)
        now, held = moment, memory
        for step in range(int(plan.jobs[0])):
            if plan.jobs[active - 1] <= step:
                active = int((plan.jobs > step).sum())
                rows = slice(active * self.drafts)
                now, held = moment.of(rows), memory.of(rows)
            places = first[:active] + step
            _turn_day(now, plan, np.repeat(places, self.drafts), begins=step == 0)
            new = steps.next_jobs(now, held, user[: active * self.drafts], rng)
            drafts.write(places, new, now.now_s + new.gap_s)
            steps.take_up(now, held, new)
            drafts.settle(places, now, held)
            drawing.tell(active)
        words, run_s, time_s = drafts.kept()
        return words, run_s, plan.calendar.monday_ms + np.rint(time_s).astype(np.int64) * 1000

    def _begin(self, plan: Plan, drawing: Drawing) -> tuple[Moment, Memory]:
        """Return where all drafts of all streams stand before their first job, and what they remember."""
        streams = len(plan.jobs)
        moment = Moment.begin(streams)
        memory = Memory.empty(streams, np.array(self.fields.sizes), self.weights.width, self.fields.sort)
        if drawing.history is not None:
            go_on(drawing.history, plan, moment, memory, self.columns, self.fields, self.weights)
        rows = np.repeat(np.arange(streams), self.drafts)
        return moment.of(rows), memory.of(rows)

    def _steps(self, jobs: int) -> Steps:
        """Return what draws the next job of streams that have so many together."""
        meanings = Meanings.of(self.columns, self.fields, self.week)
        if jobs < WORTH_COMPILING or find_spec("numba") is None:
            return Steps(self.fields, self.weights, meanings, self.hours)
        from presage.synthesizers.sequence.compiled import CompiledSteps

        return CompiledSteps(self.fields, self.weights, meanings, self.hours)

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
