"""The job-sequence model: who comes when is taken from the log's weeks, what they submit from a network."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from presage.synthesizers._base import WEEK_HOURS, Drawing, Synthesizer, Training
from presage.synthesizers._files import drop_checkpoints
from presage.synthesizers.columns import GAP, RUN, SIZE, Columns, JobTable
from presage.synthesizers.known_jobs import KnownJobs
from presage.synthesizers.sequence.bins import Bins
from presage.synthesizers.sequence.calibration import Drawn, calibrate
from presage.synthesizers.sequence.drawing import Drawer
from presage.synthesizers.sequence.fields import Fields, fit_fields, known_numbers
from presage.synthesizers.sequence.forward import Weights
from presage.synthesizers.sequence.meanings import CALM_GAP_S
from presage.synthesizers.sequence.plans import Activity, Plan, Varying, activity_of, make_plan
from presage.synthesizers.sequence.settings import Settings
from presage.synthesizers.sequence.streams import QUARTER_S, WEEK_S, calendar_from, cut

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers.columns import FloatArray, IntArray
    from presage.traces import Trace

FEWEST_CALIBRATED, MOST_CALIBRATED, TIMES_CALIBRATED = 20_000, 50_000, 10
"""How many jobs a round of calibration draws: as many as the log has, but for these bounds.

Of a short log more, up to so many times as many, because chance is no reason to change anything.
"""
JOBS_IN_RANGE, FEWEST_RANGES = 40, 16
"""Ranges of gaps and run times have about so many jobs each, or more, unless there were too few ranges then."""
_PSEUDO_SESSIONS = 20.0
"""How many sessions the average hour of the day counts for where single hours of the week have few."""


class SequenceModel(Synthesizer):
    """Users' jobs one after the other: sessions, repetitions, bursts and the rhythm of day and week."""

    name: ClassVar[str] = "sequence"
    settings_type: ClassVar[type] = Settings
    uses_history: ClassVar[bool] = True

    activity: Activity
    drawer: Drawer

    @classmethod
    def _columns_of(cls, trace: Trace, *, private: bool) -> Columns:
        # Which labels are frequent is not for anybody to know yet.
        return Columns.fit(trace, public_grid=True, most_labels=len(trace)) if private else Columns.fit(trace)

    def _learn(self, table: JobTable, later: JobTable, training: Training) -> dict[str, Any]:
        from presage.synthesizers.sequence.examples import echo_quantiles, make_examples
        from presage.synthesizers.sequence.features import moments_of, work_of
        from presage.synthesizers.sequence.training import train_network

        whole = _with_times(table, later)
        if training.privacy is not None:
            return self._learn_privately(whole, training)
        users = self._users(whole)
        submit_ms = _times(whole)
        calendar = calendar_from(int(submit_ms[0]), int(submit_ms[-1]), self.source.time_zone, QUARTER_S)
        streams = cut(submit_ms, users, calendar)
        known = known_numbers(self.columns, whole.rows(streams.order))
        moment, gap_s = moments_of(submit_ms, streams, calendar, known)
        ranges = min(self.settings.ranges, max(len(whole) // JOBS_IN_RANGE, FEWEST_RANGES))
        fields = fit_fields(self.columns, whole.rows(streams.order), gap_s, moment.done_today == 0, ranges)
        examples = make_examples(fields, whole, streams, moment, gap_s, users)
        is_later = np.flatnonzero(streams.order >= len(table))
        network, record = train_network(examples, is_later, fields, self.columns, self.settings, training)
        self.activity = activity_of(streams, calendar, work_of(known[SIZE], known[RUN]))
        fields = replace(fields, echo=echo_quantiles(examples, whole.numbers[RUN][streams.order]))
        weights = Weights(network.plain_arrays())
        hours = (moment.now_s + gap_s) / 3600
        week = calm_week(hours[gap_s >= CALM_GAP_S])
        self.drawer = Drawer(self.columns, fields, weights, week, np.zeros(WEEK_HOURS), self.settings.drafts)
        log = Drawn(examples.words, streams.of_rows()[1] == 0, hours)
        record["calibration"] = self._calibrate(log, training.seed)
        if training.checkpoint is not None:
            drop_checkpoints(training.checkpoint)
        self.known_jobs = KnownJobs.of(self.columns, whole, fields.run.high)
        return record

    def _learn_privately(self, whole: JobTable, training: Training) -> dict[str, Any]:
        """Learn from jobs of which a user's weeks must not be told; nothing of the log is kept past `learn`."""
        from presage.synthesizers.sequence.private import learn

        found = learn(self.columns, self.source, whole, self.settings, training)
        self.columns, self.source, self.activity = found.columns, found.source, found.activity
        self.drawer = Drawer(
            found.columns, found.fields, found.weights, found.week, np.zeros(WEEK_HOURS), self.settings.drafts
        )
        return {**found.record, "calibration": self._calibrate(found.wanted, training.seed)}

    def _calibrate(self, log: Drawn, seed: int) -> list[float]:
        rng = np.random.default_rng((seed, 1))
        learned = self.source.jobs
        jobs = min(max(learned, FEWEST_CALIBRATED), TIMES_CALIBRATED * learned, MOST_CALIBRATED)

        def draw() -> Drawn:
            plan = self._plan(jobs, self.source.first_ms, rng)
            words, _, submit_ms = self.drawer.draw_streams(plan, rng, Drawing())
            begins = np.concatenate([[0], np.cumsum(plan.jobs)[:-1]])
            hours = plan.calendar.since_monday_s(submit_ms) / 3600
            return Drawn(words, np.isin(np.arange(len(words)), begins), hours)

        return calibrate(self.drawer, log, draw, self.settings.calibration)

    def _draw(self, count: int, start_ms: int, rng: np.random.Generator, drawing: Drawing) -> JobTable:
        drawn = self.drawer.draw(self._plan(count, start_ms, rng), rng, drawing).rows(slice(count))
        drawn.numbers[GAP][0] = (_times(drawn)[0] - start_ms) / 1000
        return drawn

    def _plan(self, count: int, start_ms: int, rng: np.random.Generator) -> Plan:
        part_s = WEEK_S // self.activity.days.shape[1]
        calendar = calendar_from(start_ms, start_ms, self.source.time_zone, part_s)
        again = start_ms == self.source.first_ms
        varying = Varying(self.settings.spread, self.settings.borrowed)
        return make_plan(self.activity, count, calendar, varying, rng, again=again)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        fields, activity = self.drawer.fields, self.activity
        known = {
            "activity.open_days": activity.open_days, "activity.week": activity.week,
            "activity.user": activity.user, "activity.days": activity.days, "activity.work": activity.work,
            "activity.span_days": np.array([activity.span_days]),
            "gap.low": fields.gap.low, "gap.high": fields.gap.high,
            "first.low": fields.first.low, "first.high": fields.first.high,
            "run.low": fields.run.low, "run.high": fields.run.high,
            "rest_s": fields.rest_s, "echo": fields.echo, "limits_s": fields.limits_s,
            "sizes": np.array(fields.sizes),
            "week": self.drawer.week, "hours": self.drawer.hours,
        }  # fmt: skip
        return {**known, **{f"network.{name}": value for name, value in self.drawer.weights.arrays.items()}}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        known = _under("activity.", arrays)
        span_days = int(known.pop("span_days")[0])
        self.activity = Activity(**known, span_days=span_days)
        categories = {each.name: len(each) for each in self.columns.categories if each.name != "user"}
        if tuple(categories.values()) != tuple(arrays["sizes"][1:-1].tolist()):
            raise ValueError("the weights are those of another log")
        gap, first, run = (Bins(arrays[f"{name}.low"], arrays[f"{name}.high"]) for name in ("gap", "first", "run"))
        fields = Fields(
            names=(GAP, *categories, RUN),
            sizes=tuple(arrays["sizes"].tolist()),
            gap=gap,
            first=first,
            run=run,
            **{name: arrays[name] for name in ("rest_s", "echo", "limits_s")},
        )
        weights = Weights(_under("network.", arrays))
        self.drawer = Drawer(self.columns, fields, weights, arrays["week"], arrays["hours"], self.settings.drafts)

    def _users(self, table: JobTable) -> IntArray:
        """Return a number for each job's user; without users all jobs are one person's."""
        return table.codes.get("user", np.zeros(len(table), np.int64))


def calm_week(hours: FloatArray) -> FloatArray:
    """Return how likely sessions begin at each hour of the week, of mean 1; hours with few lean on their day's."""
    counts = np.bincount((hours % WEEK_HOURS).astype(np.int64), minlength=WEEK_HOURS).astype(np.float64) + 0.05
    day = counts.reshape(7, 24).mean(axis=0)
    busy = counts.reshape(7, 24).mean(axis=1)
    expected = np.outer(busy, day).ravel() / counts.mean()
    weight = counts.mean() / (counts.mean() + _PSEUDO_SESSIONS)
    week: FloatArray = weight * counts + (1 - weight) * expected
    return week / week.mean()


def _with_times(table: JobTable, later: JobTable) -> JobTable:
    submit_ms = np.concatenate([_times(table), _times(later)])
    return replace(JobTable.joined([table, later]), submit_ms=submit_ms)


def _times(table: JobTable) -> IntArray:
    if table.submit_ms is None:
        raise ValueError("these jobs have times")
    return table.submit_ms


def _under(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
