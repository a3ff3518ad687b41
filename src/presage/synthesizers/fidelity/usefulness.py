"""Whether what is learned from a synthetic trace holds for the log: train on synthetic, test on real."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.errors import InputError
from presage.synthesizers._clock import HOUR_MS
from presage.synthesizers.columns import ORDERED, RUN, SIZE
from presage.synthesizers.fidelity._boosting import boost, require_lightgbm
from presage.synthesizers.fidelity._figures import Figures, Unmeasured
from presage.synthesizers.fidelity._history import jobs_within, user_history
from presage.synthesizers.fidelity._jobs import (
    NOMINAL,
    codes_of,
    has,
    hours_of_week,
    job_frame,
    numbers_of,
)

if TYPE_CHECKING:
    from presage.synthesizers.fidelity._history import UserHistory
    from presage.synthesizers.fidelity._jobs import FloatArray
    from presage.traces import Trace

KNOWN_SHARE = 0.7
"""Of the log's jobs, the earliest, to learn from where no later ones are given."""
MOST_JOBS = 20_000
FEWEST_JOBS = 50
WAIT = "wait_s"


@dataclass(frozen=True)
class Transfer(Figures):
    """Mean absolute errors of the logarithm of a duration, on later jobs of the log."""

    real_mae: float
    """Learned from the log."""
    synthetic_mae: float
    """Learned from the synthetic trace."""
    constant_mae: float
    """Of the log's median for every job: what knowing nothing gives."""
    ratio: float
    """Synthetic over real: 1 is as good as the log itself."""


@dataclass(frozen=True)
class Usefulness(Figures):
    """What boosted trees learn from a synthetic trace, asked about later jobs of the log."""

    run: Transfer
    wait: Transfer | Unmeasured
    tested_on: str
    """Which jobs the later ones are."""
    jobs: int
    """How many they are."""


def measure_usefulness(real: Trace, synthetic: Trace, later: Trace | None = None, *, seed: int = 0) -> Usefulness:
    """Return how well run times and waits of later jobs are known after learning from either trace.

    The trees see the request, the clock and the user's own past. Without `later`, the last part of `real` is asked
    about, which the synthesizer may have learned from. Raises InputError if there are too few jobs,
    MissingDependencyError without LightGBM.
    """
    require_lightgbm()
    known, tested, words = _split(real, later)
    learned = job_frame(synthetic)
    follows = tested["submit_ms"][0] >= known["submit_ms"][-1]
    # The past of the jobs that are asked about reaches back into those that were learned from.
    asked = pl.concat([known, tested]) if follows else tested
    if min(len(known), len(tested), len(learned)) < FEWEST_JOBS:
        raise InputError("There are too few jobs to learn from", expected=f"at least {FEWEST_JOBS} in each part")
    frames = [known, learned, asked]
    features, labels = _features(frames, [real, synthetic, real])
    rows = slice(len(asked) - len(tested), None)
    run = _transfer(RUN, frames, features, labels, rows, seed)
    return Usefulness(run, _waits(frames, features, labels, rows, seed), words, len(tested))


def _split(real: Trace, later: Trace | None) -> tuple[pl.DataFrame, pl.DataFrame, str]:
    jobs = job_frame(real)
    if later is not None:
        return jobs, job_frame(later)[:MOST_JOBS], "jobs of the log after those that were learned from"
    cut = int(len(jobs) * KNOWN_SHARE)
    words = f"the last {1 - KNOWN_SHARE:.0%} of the log, which the synthesizer may have learned from"
    return jobs[:cut], jobs[cut:], words


def _waits(
    frames: list[pl.DataFrame], features: list[FloatArray], labels: list[int], rows: slice, seed: int
) -> Transfer | Unmeasured:
    lacking = [
        name
        for name, jobs in (("log", frames[0]), ("synthetic trace", frames[1]), ("later jobs", frames[2][rows]))
        if jobs[WAIT].count() < FEWEST_JOBS
    ]
    if lacking:
        return Unmeasured(f"not known: no waits in the {lacking[0]}")
    return _transfer(WAIT, frames, features, labels, rows, seed)


def _transfer(
    target: str, frames: list[pl.DataFrame], features: list[FloatArray], labels: list[int], rows: slice, seed: int
) -> Transfer:
    truths = [np.log1p(np.maximum(numbers_of(jobs, target), 0.0)) for jobs in frames]
    asked, truth = features[2][rows], truths[2][rows]
    there = np.isfinite(truth)
    errors = []
    for x, known in zip(features[:2], truths[:2], strict=True):
        some = np.flatnonzero(np.isfinite(known))[-MOST_JOBS:]
        booster = boost("regression_l1", x[some], known[some], labels, seed)
        errors.append(float(np.abs(booster.predict(asked[there]) - truth[there]).mean()))
    constant = float(np.abs(np.nanmedian(truths[0]) - truth[there]).mean())
    return Transfer(errors[0], errors[1], constant, errors[1] / errors[0] if errors[0] > 0 else np.nan)


def _features(frames: list[pl.DataFrame], traces: list[Trace]) -> tuple[list[FloatArray], list[int]]:
    """Return what is known of each job when it is submitted, and which columns are codes of labels."""
    columns = [_known_at_submit(jobs, trace) for jobs, trace in zip(frames, traces, strict=True)]
    names = [name for name in NOMINAL if name != "outcome" and has(frames[0], name)]
    for name in names:
        for each, codes in zip(columns, codes_of(frames, name), strict=True):
            each[name] = codes.astype(np.float64)
    order = list(columns[0])
    return [np.column_stack(list(each.values())) for each in columns], [order.index(name) for name in names]


def _known_at_submit(jobs: pl.DataFrame, trace: Trace) -> dict[str, FloatArray]:
    submit_ms = jobs["submit_ms"].to_numpy()
    hours = hours_of_week(trace, submit_ms)
    past = user_history(jobs)
    run, times_s = np.log1p(numbers_of(jobs, RUN)), submit_ms / 1000
    features = {name: numbers_of(jobs, name) for name in ORDERED}
    return features | {
        "hour of day": (hours % 24).astype(np.float64),
        "day of week": (hours // 24).astype(np.float64),
        "jobs in the last hour": jobs_within(submit_ms, HOUR_MS).astype(np.float64),
        "last run": past.before(run),
        "last run but one": past.before(run, 2),
        "mean run so far": _mean_before(run, past),
        "last run alike": _last_alike(jobs, run),
        "time since own": np.log1p(times_s - past.before(times_s)),
        "own jobs so far": np.log1p(past.earlier),
        "own in the last hour": past.last_hour.astype(np.float64),
        "own in the last day": past.last_day.astype(np.float64),
    }


def _mean_before(values: FloatArray, past: UserHistory) -> FloatArray:
    """Return for each job the mean over its user's jobs before; NaN where there is none."""
    frame = pl.DataFrame({"user": past.users, "value": values})
    total = frame.select((pl.col("value").cum_sum() - pl.col("value")).over("user")).to_series().to_numpy()
    means: FloatArray = np.divide(total, past.earlier, out=np.full(len(values), np.nan), where=past.earlier > 0)
    return means


def _last_alike(jobs: pl.DataFrame, run: FloatArray) -> FloatArray:
    """Return the run time of the user's last job of the same size and limit; NaN where there is none."""
    before = pl.col("log_run").shift(1).over("user", SIZE, "limit_s")
    with_run = jobs.with_columns(pl.Series("log_run", run))
    known = with_run.select(pl.when(pl.col("user").is_not_null()).then(before)).to_series()
    values: FloatArray = known.cast(pl.Float64).fill_null(np.nan).to_numpy()
    return values
