"""How jobs follow each other: rhythms, bursts, sessions, repetition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers._clock import HOUR_MS
from presage.synthesizers.columns import GAP, RUN, SIZE
from presage.synthesizers.fidelity._figures import Figures
from presage.synthesizers.fidelity._history import NOBODY, user_history
from presage.synthesizers.fidelity._jobs import hours_of_week, job_frame, log_numbers_of, numbers_of
from presage.synthesizers.fidelity.marginals import total_variation

if TYPE_CHECKING:
    import polars as pl

    from presage.synthesizers.fidelity._jobs import FloatArray, IntArray
    from presage.traces import Trace

SCALES_H = (1, 6, 24)
"""Widths of the windows in which bursts are counted."""
_MOST_WINDOWS = 5_000_000


@dataclass(frozen=True)
class Burstiness(Figures):
    """How unevenly jobs and their work come, in windows of one width."""

    hours: int
    jobs: float
    """Variance / mean of the number of jobs per window: 1 if they come independently at an even pace."""
    work: float
    """Variance / mean of the work, over what it would be if jobs came independently at an even pace."""
    work_variation: float
    """Standard deviation / mean of the work per window; what queues feel."""


@dataclass(frozen=True)
class Rhythm(Figures):
    """One trace in time. NaN where the trace does not tell."""

    ac1: float
    """Autocorrelation of log(1 + gap) from one job to the next."""
    ac24: float
    """Autocorrelation of the number of jobs per hour, from one day to the next."""
    same_user: float
    """How often a job has the user of the job before."""
    repeated: float
    """How often a job has user, size and limit of the job before."""
    session_jobs: float
    """Jobs per session: those of a user that follow each other within 20 minutes."""
    in_sessions: float
    """Share of jobs in sessions of two and more."""
    daily: tuple[float, ...]
    """Share of the jobs in each hour of the day."""
    weekly: tuple[float, ...]
    """Share of the jobs on each day of the week, Monday first."""
    bursts: tuple[Burstiness, ...]


@dataclass(frozen=True)
class Rhythms(Figures):
    """Both traces in time."""

    real: Rhythm
    synthetic: Rhythm
    daily_tv: float
    """Total variation of the daily profiles."""
    weekly_tv: float


def compare_rhythms(real: Trace, synthetic: Trace) -> Rhythms:
    """Return how jobs follow each other in both traces."""
    first, second = measure_rhythm(real), measure_rhythm(synthetic)
    return Rhythms(
        first,
        second,
        total_variation(np.array(first.daily), np.array(second.daily)),
        total_variation(np.array(first.weekly), np.array(second.weekly)),
    )


def measure_rhythm(trace: Trace) -> Rhythm:
    """Return how the jobs of a trace follow each other."""
    jobs = job_frame(trace)
    submit_ms = jobs["submit_ms"].to_numpy()
    hours = hours_of_week(trace, submit_ms)
    same_user, repeated = _repetition(jobs)
    session_jobs, in_sessions = _sessions(jobs)
    return Rhythm(
        # The first job has no gap before it.
        ac1=autocorrelation(log_numbers_of(jobs, GAP)[1:], 1),
        ac24=autocorrelation(window_sums(submit_ms, np.ones(len(jobs)), 1), 24),
        same_user=same_user,
        repeated=repeated,
        session_jobs=session_jobs,
        in_sessions=in_sessions,
        daily=_shares(hours % 24, 24),
        weekly=_shares(hours // 24, 7),
        bursts=tuple(_burstiness(jobs, width_h) for width_h in SCALES_H),
    )


def autocorrelation(values: FloatArray, lag: int) -> float:
    """Return the correlation of a series with itself `lag` steps later; NaN where it is too short or constant."""
    if len(values) <= lag + 1:
        return float(np.nan)
    centred = values - values.mean()
    spread = float(centred @ centred)
    return float(centred[:-lag] @ centred[lag:]) / spread if spread > 1e-12 else float(np.nan)


def window_sums(submit_ms: IntArray, amounts: FloatArray, width_h: int) -> FloatArray:
    """Return the sum of the amounts in each window of so many hours from the first submit on.

    The last window, which the trace fills only in part, is left out; empty where there would be too many.
    """
    at = (submit_ms - submit_ms[0]) // (width_h * HOUR_MS)
    windows = int(at[-1])
    if windows > _MOST_WINDOWS:
        return np.empty(0)
    sums: FloatArray = np.bincount(at, weights=amounts, minlength=windows)[:windows].astype(np.float64)
    return sums


def _burstiness(jobs: pl.DataFrame, width_h: int) -> Burstiness:
    submit_ms = jobs["submit_ms"].to_numpy()
    work = numbers_of(jobs, RUN) * numbers_of(jobs, SIZE)
    known = np.isfinite(work)
    work = np.where(known, work, 0.0)
    counts, works = (window_sums(submit_ms, each, width_h) for each in (np.ones(len(jobs)), work))
    if len(counts) < 2:
        return Burstiness(width_h, np.nan, np.nan, np.nan)
    if not work.sum() > 0:
        return Burstiness(width_h, float(counts.var() / counts.mean()), np.nan, np.nan)
    # Independent jobs at an even pace make a compound Poisson process, of variance / mean = E[w²] / E[w].
    even = float((work**2).sum() / work.sum())
    return Burstiness(
        width_h,
        float(counts.var() / counts.mean()),
        float(works.var() / works.mean()) / even if works.mean() > 0 else np.nan,
        float(works.std() / works.mean()) if works.mean() > 0 else np.nan,
    )


def _repetition(jobs: pl.DataFrame) -> tuple[float, float]:
    """Return how often a job has the user of the one before, and how often also its size and limit."""
    known = jobs["user"].null_count() < len(jobs)
    if not known:
        return float(np.nan), float(np.nan)
    alike = {name: jobs[name].eq_missing(jobs[name].shift(1))[1:] for name in (SIZE, "limit_s")}
    same = (jobs["user"] == jobs["user"].shift(1)).fill_null(value=False)[1:]
    again = same & alike[SIZE] & alike["limit_s"]
    return float(same.to_numpy().mean()), float(again.to_numpy().mean())


def _sessions(jobs: pl.DataFrame) -> tuple[float, float]:
    """Return the mean length of sessions, and the share of jobs in those that have several."""
    past = user_history(jobs)
    known = past.users != NOBODY
    if not known.any():
        return float(np.nan), float(np.nan)
    lengths = np.bincount(past.session[known])
    lengths = lengths[lengths > 0]
    return float(lengths.mean()), float(lengths[lengths > 1].sum() / lengths.sum())


def _shares(places: IntArray, count: int) -> tuple[float, ...]:
    shares = np.bincount(places, minlength=count) / len(places)
    return tuple(shares.tolist())
