"""What variants make of a trace: other arrivals, other limits, more jobs or fewer. The jobs are never redrawn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from presage.traces import Trace

PATTERNS = ("poisson", "even", "shuffled", "shuffled-days")
_TIMES = ("submit_ms", "eligible_ms", "start_ms", "end_ms", "deadline_ms")
_DAY_MS = 86_400_000
# A draw has a stream of its own, so that one change does not shift the draws of another.
_ARRIVAL_STREAM, _BURST_STREAM = 1, 2


def scale_load(trace: Trace, factor: float) -> Trace:
    """Return the trace with every gap between arrivals divided by `factor`; the first submit stays.

    The offered load, work per processor and second between first and last submit, is multiplied by `factor`.
    """
    submit_ms = _submits(trace)
    return _with_submits(trace, submit_ms[0] + (submit_ms - submit_ms[0]) / factor)


def redraw_arrivals(trace: Trace, pattern: str, seed: int = 0) -> Trace:
    """Return the trace with the same jobs in the same order and other gaps; first and last submit stay.

    `poisson`: independent of each other, as a Poisson process would have it; `even`: all alike; `shuffled`: the
    trace's own gaps in another order, without its days and weeks. `shuffled-days` keeps every job at its time of
    the day, and gives the days, which count from the first submit, another order.
    """
    submit_ms = _submits(trace)
    if pattern == "shuffled-days":
        return _shuffle_days(trace, submit_ms, seed)
    first, last = float(submit_ms[0]), float(submit_ms[-1])
    rng = np.random.default_rng([seed, _ARRIVAL_STREAM])
    if pattern == "even":
        drawn = np.linspace(first, last, len(submit_ms))
    elif pattern == "shuffled":
        drawn = first + np.concatenate([[0.0], np.cumsum(rng.permutation(np.diff(submit_ms)))])
    else:
        # Given their number, the arrivals of a Poisson process are uniform.
        inner = rng.uniform(first, last, max(len(submit_ms) - 2, 0))
        drawn = np.sort(np.concatenate([[first], inner, [last]]))[: len(submit_ms)]
    return _with_submits(trace, drawn)


def _shuffle_days(trace: Trace, submit_ms: np.ndarray[tuple[int], np.dtype[np.int64]], seed: int) -> Trace:
    days = (submit_ms - submit_ms[0]) // _DAY_MS
    places = np.random.default_rng([seed, _ARRIVAL_STREAM]).permutation(int(days[-1]) + 1)
    moved = _with_submits(trace, submit_ms + (places[days] - days) * float(_DAY_MS))
    return moved.with_jobs(moved.jobs.sort("submit_ms", maintain_order=True))


def limit_to_run(trace: Trace) -> Trace:
    """Return the trace in which every job asked for exactly its run time."""
    return trace.with_jobs(trace.jobs.with_columns(limit_s="run_s"))


def scale_limits(trace: Trace, factor: float) -> Trace:
    """Return the trace with every limit multiplied by `factor`."""
    return trace.with_jobs(trace.jobs.with_columns(limit_s=pl.coalesce("limit_s", "run_s") * factor))


def cap_limits(trace: Trace, maximum_s: float) -> Trace:
    """Return the trace with no limit above `maximum_s`; run times stay, so a job may then overrun its limit."""
    limit = pl.coalesce("limit_s", "run_s")
    return trace.with_jobs(trace.jobs.with_columns(limit_s=pl.min_horizontal(limit, pl.lit(maximum_s))))


def add_burst(trace: Trace, count: int, at_s: float, seed: int = 0, *, now_ms: int | None = None) -> Trace:
    """Return the trace with copies of `count` drawn jobs `at_s` after the first submit, or after `now_ms`.

    All copies arrive at that instant, behind the trace's own arrivals of it, with ids `burst-1`, `burst-2`, ….
    Jobs are drawn with replacement. In a present state copies wait to start, whether the jobs that they copy run
    or wait.
    """
    submit_ms = _submits(trace)
    from_ms = int(submit_ms[0]) if now_ms is None else now_ms
    drawn = np.random.default_rng([seed, _BURST_STREAM]).integers(len(trace), size=count)
    taken = {*trace.jobs["job_id"].filter(trace.jobs["job_id"].str.starts_with("burst-"))}
    numbers = (number for number in range(1, count + len(taken) + 1) if f"burst-{number}" not in taken)
    ids = [f"burst-{number}" for number, _ in zip(numbers, range(count), strict=False)]
    moved_ms = pl.lit(from_ms + round(at_s * 1000)) - pl.col("submit_ms")
    copies = trace.jobs[drawn.tolist()].with_columns(
        [pl.col(name) + moved_ms for name in _TIMES] + [pl.Series("job_id", ids, pl.String)]
    )
    if now_ms is not None:
        copies = copies.with_columns(start_ms=pl.lit(None, pl.Int64), eligible_ms=pl.lit(None, pl.Int64))
    jobs = pl.concat([trace.jobs, copies]).sort("submit_ms", maintain_order=True)
    return trace.with_jobs(jobs)


def restrict(trace: Trace, column: str, name: str) -> Trace:
    """Return the trace with only the jobs whose partition or queue is `name`. Raises UnknownNameError."""
    jobs = trace.jobs.filter(pl.col(column) == name)
    if not len(jobs):
        known = [*trace.jobs[column].drop_nulls().unique().sort()]
        raise UnknownNameError(f"{column} with jobs in this trace", name, known)
    return trace.with_jobs(jobs)


def _submits(trace: Trace) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    submits = trace.jobs["submit_ms"]
    if not len(submits) or submits.null_count():
        raise InputError(
            "The arrivals cannot be changed: jobs have no submit time",
            remedy="Clean the trace first with the rule drop-unsubmitted",
        )
    return submits.to_numpy().astype(np.int64)


def _with_submits(trace: Trace, submit_ms: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Trace:
    """Return the trace with other submits in the same order; all times of a job move with its submit."""
    moved_ms = pl.Series(np.round(submit_ms).astype(np.int64)) - trace.jobs["submit_ms"]
    jobs = trace.jobs.with_columns([trace.jobs[name] + moved_ms for name in _TIMES])
    # Attempts and snapshots tell of the times as they were.
    moved = replace(trace, attempts=trace.attempts.clear(), snapshots=trace.snapshots.clear())
    return moved.with_jobs(jobs)
