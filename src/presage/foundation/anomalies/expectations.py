"""How long jobs could be expected to run when they began, from what similar jobs had taken by then.

This is the place where a learned model can stand in: `find_anomalies` takes any function of the same form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.foundation.anomalies._history import Floats, History, Ints, Summary, codes_of
from presage.traces.schema import Outcome, size

if TYPE_CHECKING:
    from presage.traces import Trace

LAST = 25
"""So many earlier jobs of the same sort are looked at."""
ENOUGH = 8
"""A circle of fewer earlier jobs does not say how short and long they may be."""
_LAST_OF_ALL = 500
_WEIGHT = 2.0
_LEAST_SPREAD = 0.1
_USUAL_SPREAD = 1.5
_HISTORY = pl.col("_good") & pl.col("_end").is_finite() & pl.col("_run").is_finite() & (pl.col("_run") > 0)


@dataclass(frozen=True)
class ExpectedRuns:
    """For each job of a trace, in its order, the natural logarithm of run seconds as it could be expected.

    `log_median` and `log_spread` (a standard deviation) are nan where nothing had ended before. Between `log_low`
    and `log_high` the user's similar jobs lay without exception, `similar` of them; nan where these were too few.
    """

    log_median: Floats
    log_spread: Floats
    log_low: Floats
    log_high: Floats
    similar: Ints


def expected_runs(trace: Trace) -> ExpectedRuns:
    """Return what could be expected of each job when it began; only jobs that had ended by then are used.

    Four ever closer circles are asked: all jobs, the user's, the user's of the same shape (processors and limit),
    and those of the same label too (name without digits, executable, kind). Each gives median and spread of its
    last runs, and is corrected by the next one as far as that has seen enough; the closest one of the last two
    that has enough jobs says how short and how long they were. Failed and cancelled jobs are no history.
    """
    jobs = trace.jobs.with_columns(
        _start=pl.coalesce(pl.col("start_ms"), "submit_ms").cast(pl.Float64).fill_null(float("nan")),
        _end=pl.coalesce(
            pl.col("end_ms").cast(pl.Float64),
            pl.col("start_ms") + pl.col("run_s") * 1000,
            pl.col("submit_ms") + pl.col("run_s") * 1000,
        ),
        _run=pl.col("run_s").cast(pl.Float64),
        _size=size(),
        _label=pl.concat_str(
            pl.col("name").str.replace_all(r"\d+", ""), "executable", "kind", separator="/", ignore_nulls=True
        ),
        _good=(pl.col("outcome") == Outcome.COMPLETED.value).fill_null(value=True),
    )
    history = np.flatnonzero(jobs.select(_HISTORY.fill_null(value=False)).to_series().to_numpy())
    start = jobs["_start"].to_numpy()
    if not len(history):
        nothing = np.full(len(jobs), np.nan)
        return ExpectedRuns(nothing, nothing, nothing, nothing, np.zeros(len(jobs), np.int64))
    ended = jobs["_end"].to_numpy()[history]
    log_run = np.log(np.maximum(jobs["_run"].to_numpy()[history], 1.0))
    median, spread = _of_all(log_run, ended, start)
    similar, low, high = np.zeros(len(jobs), np.int64), np.full(len(jobs), np.nan), np.full(len(jobs), np.nan)
    someone = jobs["user"].is_not_null().to_numpy()
    circles: list[tuple[str, ...]] = [("user",), ("user", "_size", "limit_s")]
    if (jobs["_label"] != "").any():
        circles.append(("user", "_size", "limit_s", "_label"))
    for columns in circles if someone.any() else []:
        group = codes_of(jobs, *columns)
        past = History(group[history], ended)
        own = past.last(log_run, group, past.before(group, start), LAST)
        median, spread = _corrected(median, spread, own)
        enough = someone & (own.number >= ENOUGH) & ("_size" in columns)
        similar = np.where(enough, own.number, similar)
        low, high = np.where(enough, own.low, low), np.where(enough, own.high, high)
    return ExpectedRuns(median, spread, low, high, similar)


def _of_all(log_run: Floats, ended: Floats, start: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the last runs of everybody before each instant."""
    everybody = np.zeros(len(log_run), np.int64)
    past = History(everybody, ended)
    until = past.before(np.zeros(len(start), np.int64), start)
    since = np.maximum(until - _LAST_OF_ALL, 0)
    number = until - since
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = past.total(log_run, since, until) / number
        square = past.total(log_run**2, since, until) / number
    spread = np.sqrt(np.maximum(square - mean**2, _LEAST_SPREAD**2))
    return mean, np.where(number >= LAST, spread, np.maximum(spread, _USUAL_SPREAD))


def _corrected(median: Floats, spread: Floats, own: Summary) -> tuple[Floats, Floats]:
    """Return the expectation of a circle corrected by a closer one, which counts as much as it has seen."""
    weight = own.number / (own.number + _WEIGHT)
    closer = np.where(own.number > 0, weight * np.nan_to_num(own.median) + (1 - weight) * median, median)
    # One job tells nothing of how much they differ. Spreads are averaged as logarithms: a job that always takes
    # the same time stays recognisable although the user's others differ by orders of magnitude.
    known = np.maximum(own.number - 1, 0)
    weight = known / (known + _WEIGHT)
    narrower = np.exp(weight * np.log(np.fmax(own.spread, _LEAST_SPREAD)) + (1 - weight) * np.log(spread))
    return closer, np.where(known > 0, narrower, spread)
