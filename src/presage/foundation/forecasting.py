"""Forecasts for the jobs of a trace: those that wait and run now, or each as it was when it was submitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from presage.errors import UsageError
from presage.foundation.calibration import IntervalTracker, track
from presage.foundation.mixture import log_quantiles
from presage.foundation.requests import doubts_about, with_new_jobs
from presage.foundation.view._replay import NEW, STILL_RUNS, STILL_WAITS, SUBMITTED
from presage.foundation.view.examples import Examples, Questions, at_submits, examples_of
from presage.foundation.view.jobs import OUTCOMES, history_of
from presage.foundation.view.targets import targets_of
from presage.foundation.view.tasks import Task
from presage.simulator.present import latest_ms
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from presage.foundation.model import Model, Tower
    from presage.foundation.view.jobs import JobHistory
    from presage.traces import Trace

    Floats = NDArray[np.float64]

LEVELS = np.array([0.1, 0.5, 0.9])
CONTEXT_JOBS = 20_000
"""Jobs before the first one asked about whose states are remembered; older ones only fill the cluster."""
CALIBRATING_JOBS = 1_500
"""Earlier forecasts by which intervals are recalibrated."""
DEFAULT_AT_SUBMIT = 100
FEW_JOBS = 30
"""With fewer finished jobs than this a forecast says that it knows little of the cluster."""
EXPECTED_START = "x_expected_start_ms"
"""Where the readers of a queue keep when the scheduler expects a job to start."""
NONE = Questions(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int32))
STANDS = {SUBMITTED: "submitted", STILL_WAITS: "pending", STILL_RUNS: "running", NEW: "new"}


@dataclass(frozen=True)
class Quantiles:
    """A forecast of a duration, in seconds."""

    p10: float
    p50: float
    p90: float

    def as_dict(self) -> dict[str, float]:
        """Return the quantiles by name."""
        return {"p10": self.p10, "p50": self.p50, "p90": self.p90}


@dataclass(frozen=True)
class JobForecast:
    """What is expected of one job. Durations count from the submit (wait) and from the start (run)."""

    job_id: str
    stands: str
    """new, pending or running at the time of asking; submitted: asked about as it was submitted."""
    asked_ms: int
    wait_s: Quantiles | None
    """None once the job runs."""
    run_s: Quantiles
    outcome: dict[str, float]
    """The chance of each end."""
    waited_s: float
    """How long it has waited already, or did wait if it runs."""
    ran_s: float
    scheduler_wait_s: float | None = None
    """The whole wait that the cluster's own scheduler expects, where its queue was given and tells it."""

    def as_dict(self) -> dict[str, Any]:
        """Return the forecast as it is told to machines."""
        return {
            "job_id": self.job_id, "stands": self.stands, "asked_ms": self.asked_ms,
            "wait_s": self.wait_s.as_dict() if self.wait_s else None, "run_s": self.run_s.as_dict(),
            "outcome": self.outcome, "waited_s": self.waited_s, "ran_s": self.ran_s,
            "scheduler_wait_s": self.scheduler_wait_s,
        }  # fmt: skip


@dataclass(frozen=True)
class TraceForecast:
    """Forecasts for some jobs of a trace."""

    now_ms: int
    jobs: list[JobForecast]
    notes: tuple[str, ...]
    coverage: dict[str, float | None]
    """By task: the share of earlier forecasts whose interval held, as recalibrated; None of what the log does not
    tell."""


def forecast(
    trace: Trace,
    model: Model,
    *,
    now_ms: int | None = None,
    new_jobs: Sequence[str] = (),
    job_ids: Sequence[str] = (),
    at_submit: int | None = None,
    calibrate: bool = True,
) -> TraceForecast:
    """Forecast the jobs that wait and run at `now_ms` (default: the last instant that the trace knows of).

    `new_jobs` describes jobs that might be submitted then (see `requests`); `job_ids` narrows the others down.
    With `at_submit`, the last so many jobs are each asked about as they were submitted; so it is, for 100 of them,
    where no job waits or runs and none is new. Raises InputError if the trace has no jobs, UsageError for an
    unknown id or a description that cannot be understood.
    """
    now_ms = latest_ms(trace) if now_ms is None else now_ms
    known = trace.with_jobs(trace.jobs.filter(pl.col("submit_ms") <= now_ms))
    known, new_ids = with_new_jobs(known, new_jobs, now_ms)
    history = history_of(known)
    # A millisecond later, so that what happened at that very instant is known.
    now_s = (now_ms - history.origin_ms + 1) / 1000.0
    asked_now = _asked_now(history, now_s, new_ids, job_ids) if at_submit is None else NONE
    # Which jobs of a log without starts wait or run now, nobody knows.
    is_idle = not len(asked_now.asked) or not (history.has_waits or new_ids or job_ids)
    if at_submit is None and is_idle:
        at_submit, asked_now = DEFAULT_AT_SUBMIT, NONE
    submitted = len(history) - len(new_ids)
    first = max(0, submitted - CONTEXT_JOBS - (at_submit or 0))
    examples = examples_of(history, Questions.merged(_submits(history, first, submitted), asked_now), first)
    rows = _wanted(examples, at_submit)
    tasks = {task: _answer(model.towers[task], examples, rows, now_s, calibrate=calibrate) for task in Task}
    jobs = [_job_forecast(examples, int(row), place, tasks) for place, row in enumerate(rows)]
    expected_s = _expected_waits_s(known)
    jobs = [
        replace(job, scheduler_wait_s=expected_s.get(job.job_id)) if job.stands == STANDS[STILL_WAITS] else job
        for job in jobs
    ]
    coverage = {task.value: answer.tracker.coverage for task, answer in tasks.items()}
    if not history.has_waits:
        coverage[Task.WAIT.value] = None
    notes = (*history.notes, *_doubts(history, now_s), *doubts_about(known, new_ids))
    return TraceForecast(now_ms, jobs, notes, coverage)


def _expected_waits_s(trace: Trace) -> dict[str, float]:
    """Return what the scheduler expects of the jobs that wait, where the trace has it."""
    if EXPECTED_START not in trace.jobs.columns:
        return {}
    told = trace.jobs.select("job_id", wait_s=(pl.col(EXPECTED_START) - pl.col("submit_ms")) / 1000).drop_nulls()
    return dict(told.iter_rows())


def _asked_now(history: JobHistory, now_s: float, new_ids: Sequence[str], job_ids: Sequence[str]) -> Questions:
    """Ask about the new jobs and those that wait or run, or those of them that are named."""
    ids = np.array(history.job_ids, dtype=object)
    unknown = set(job_ids) - set(history.job_ids)
    if unknown:
        raise UsageError(f"The trace has no job {min(unknown)!r} by then", expected="ids of its jobs")
    is_new = np.isin(ids, list(new_ids))
    is_open = (history.end_s >= now_s) & ~is_new
    if job_ids:
        ended = set(job_ids) & set(ids[~is_open & ~is_new])
        if ended:
            raise UsageError(
                f"The job {min(ended)!r} has ended by then",
                remedy="Ask about an earlier time with --now, or about jobs as they were submitted",
            )
        is_open &= np.isin(ids, list(job_ids))
    elif new_ids:
        is_open[:] = False
    kinds = np.where(is_new, NEW, np.where(history.start_s < now_s, STILL_RUNS, STILL_WAITS))
    asked = np.flatnonzero(is_open | is_new)
    return Questions(asked, np.full(len(asked), now_s), kinds[asked].astype(np.int32))


def _submits(history: JobHistory, first: int, until: int) -> Questions:
    questions = at_submits(history, first)
    kept = questions.asked < until
    return Questions(questions.asked[kept], questions.time_s[kept], questions.kinds[kept])


def _wanted(examples: Examples, at_submit: int | None) -> NDArray[np.int64]:
    """Return the rows that were asked for: those that are about now, or the last submits."""
    is_submit = examples.questions.kinds == SUBMITTED
    if at_submit is None:
        return np.flatnonzero(~is_submit)
    return np.flatnonzero(is_submit)[-at_submit:]


@dataclass(frozen=True)
class _Answer:
    quantiles_s: Floats
    chances: Floats | None
    tracker: IntervalTracker


def _answer(
    tower: Tower, examples: Examples, rows: NDArray[np.int64], now_s: float, *, calibrate: bool
) -> _Answer:
    """Return the quantiles for some rows, recalibrated by how the submits before them fared."""
    curves, chances = tower.answers(examples, rows)
    quantiles = log_quantiles(curves, LEVELS)
    tracker = IntervalTracker()
    if calibrate:
        past = _before(examples, rows)
        both = np.concatenate([past, rows])
        earlier = log_quantiles(tower.answers(examples, past)[0], LEVELS) if len(past) else np.empty((0, 3))
        quantiles, tracker = _recalibrated(examples, both, np.concatenate([earlier, quantiles]), tower.task, now_s)
        quantiles = quantiles[len(past) :]
    return _Answer(np.expm1(quantiles), chances, tracker)


def _before(examples: Examples, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    submits = np.flatnonzero(examples.questions.kinds == SUBMITTED)
    until = rows[0] if len(rows) else len(examples)
    return submits[submits < until][-CALIBRATING_JOBS:]


def _recalibrated(
    examples: Examples, rows: NDArray[np.int64], quantiles: Floats, task: Task, now_s: float
) -> tuple[Floats, IntervalTracker]:
    targets = targets_of(examples, task)
    questions, history = examples.questions, examples.history
    asked = questions.asked[rows]
    since_s = history.facts["submit_s"][asked] if task is Task.WAIT else history.start_s[asked]
    return track(
        quantiles, questions.time_s[rows], since_s, targets.outcome_s[rows],
        targets.is_censored[rows] | ~targets.usable[rows], until_s=now_s,
    )  # fmt: skip


def _doubts(history: JobHistory, now_s: float) -> list[str]:
    """Return what a reader of the forecasts should know of this log."""
    ended = history.end_s < now_s
    doubts = []
    if ended.sum() < FEW_JOBS:
        doubts.append(f"Only {counted(int(ended.sum()), 'job')} ended so far: little is known of this cluster")
    if not (history.outcome[ended] >= 0).any():
        doubts.append("The log does not tell how jobs ended: the chances of outcomes are those of other clusters")
    return doubts


def _job_forecast(examples: Examples, row: int, place: int, answers: dict[Task, _Answer]) -> JobForecast:
    history, questions = examples.history, examples.questions
    index, kind, now_s = int(questions.asked[row]), int(questions.kinds[row]), float(questions.time_s[row])
    submit_s, start_s = float(history.facts["submit_s"][index]), float(history.start_s[index])
    runs = kind == STILL_RUNS
    chances = answers[Task.RUN].chances
    spreads = {task: Quantiles(*map(float, answer.quantiles_s[place])) for task, answer in answers.items()}
    waits = not runs and history.has_waits
    return JobForecast(
        job_id=history.job_ids[index],
        stands=STANDS[kind],
        asked_ms=round(now_s * 1000) + history.origin_ms,
        wait_s=spreads[Task.WAIT] if waits else None,
        run_s=spreads[Task.RUN],
        outcome={} if chances is None else dict(zip(OUTCOMES, map(float, chances[place]), strict=True)),
        waited_s=start_s - submit_s if runs else now_s - submit_s,
        ran_s=now_s - start_s if runs else 0.0,
    )
