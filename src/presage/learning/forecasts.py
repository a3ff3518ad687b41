"""The model's forecasts of run times, as decisions want them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.foundation.mixture import GRID, log_quantiles
from presage.foundation.view.examples import at_submits, examples_of
from presage.foundation.view.jobs import history_of
from presage.policies.run_forecasts import TAU_S, RunForecasts
from presage.simulator.jobs import jobs_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from presage.foundation.model import Tower
    from presage.traces import Trace

    Floats = NDArray[np.float64]

CONTEXT_JOBS = 20_000
"""Jobs before the first one asked about whose states are remembered; older ones only fill the cluster."""
CHUNK_JOBS = 2_000
GRID_S = np.expm1(GRID)
_MIDDLE = np.array([0.5])


def of_curves(curves: Floats, limit_s: Floats) -> RunForecasts:
    """Return what distributions on GRID say of runs that are cut at their limits."""
    median_s = np.expm1(log_quantiles(curves, _MIDDLE)[:, 0])
    limit_s = np.maximum(limit_s, 1.0)
    return RunForecasts(
        np.maximum(_mean_s(curves, limit_s), 1.0),
        np.clip(median_s, 1.0, limit_s),
        np.clip(_mean_inverse(curves, limit_s), 1 / np.maximum(limit_s, TAU_S), 1 / TAU_S),
    )


def forecast_runs(
    trace: Trace,
    tower: Tower | Mapping[int, Tower],
    *,
    first: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> RunForecasts:
    """Forecast the run of every job from `first` on, as it was submitted, from what the log knew by then.

    Of several networks, each forecasts from the job with its number on. A job of which the log does not know when
    it was there is taken to last as long as it may. `progress` is told the jobs done and to do.
    """
    towers = tower if isinstance(tower, Mapping) else {0: tower}
    begins = np.array(sorted(towers))
    told, limits_s = RunForecasts.certain(jobs_of(trace, kill=True).limit_ms / 1000), _limits_s(trace)
    history = history_of(trace)
    begin = max(0, first - CONTEXT_JOBS)
    examples = examples_of(history, at_submits(history, begin), begin)
    place = {job_id: at for at, job_id in enumerate(trace.jobs["job_id"])}
    at_of = np.array([place[job_id] for job_id in history.job_ids[begin:]])
    rows = np.flatnonzero(at_of >= first)
    for done in range(0, len(rows), CHUNK_JOBS):
        chunk = rows[done : done + CHUNK_JOBS]
        whose = begins[np.searchsorted(begins, at_of[chunk], side="right") - 1]
        for begin in np.unique(whose):
            own = chunk[whose == begin]
            curves, _ = towers[int(begin)].answers(examples, own)
            told.write(at_of[own], of_curves(curves, limits_s[at_of[own]]))
        if progress:
            progress(min(done + CHUNK_JOBS, len(rows)), len(rows))
    return told.select(slice(first, None))


def _limits_s(trace: Trace) -> Floats:
    """Return the limits of jobs; endless where there is none."""
    limit = pl.when(pl.col("limit_s") > 0).then("limit_s").otherwise(float(GRID_S[-1]))
    return trace.jobs.select(limit).to_series().to_numpy()


def _mean_s(curves: Floats, limit_s: Floats) -> Floats:
    """Return the mean of runs that are cut: the area above the distribution, up to the limit."""
    steps = (1 - (curves[:, 1:] + curves[:, :-1]) / 2) * np.diff(GRID_S)
    return _up_to(steps, limit_s)


def _mean_inverse(curves: Floats, limit_s: Floats) -> Floats:
    """Return the mean of 1 / max(run, 10 s): its value at the limit, and what shorter runs add to it."""
    inverse = 1 / np.maximum(GRID_S, TAU_S)
    steps = (curves[:, 1:] + curves[:, :-1]) / 2 * -np.diff(inverse)
    mean: Floats = 1 / np.maximum(limit_s, TAU_S) + _up_to(steps, limit_s)
    return mean


def _up_to(steps: Floats, limit_s: Floats) -> Floats:
    """Return the sum of the steps between places of GRID up to each row's limit, the last one in part."""
    sums = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
    at = np.clip(np.searchsorted(GRID_S, limit_s, side="right") - 1, 0, len(GRID_S) - 2)
    part = np.clip((limit_s - GRID_S[at]) / (GRID_S[at + 1] - GRID_S[at]), 0.0, 1.0)
    rows = np.arange(len(steps))
    total: Floats = sums[rows, at] + part * steps[rows, at]
    return total
