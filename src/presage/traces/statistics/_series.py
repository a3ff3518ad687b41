"""Rhythms of arrival, time series and distributions: what pictures and reports are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from presage.errors import UsageError
from presage.traces import schema
from presage.traces.statistics._instants import end_ms, span_of, start_ms, time_zone_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from presage.traces.trace import Trace

    Floats = NDArray[np.float64]

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
ROUND_WIDTHS_MS = (
    1, 10, 100, 1000, 10_000, 60_000, 600_000, HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS, DAY_MS, 7 * DAY_MS, 28 * DAY_MS,
    364 * DAY_MS,
)  # fmt: skip
"""Widths of time bins. Nothing lies between six hours and a day: such bins would beat against the daily rhythm."""
_FOREVER_MS = 2**62
_FAR_MS = 250_000_000_000_000  # nearly eight thousand years; time zones mean nothing beyond it


@dataclass(frozen=True)
class Rhythm:
    """How many jobs were submitted in each hour of the day (24 counts) or on each weekday (7, Monday first)."""

    counts: tuple[int, ...]
    time_zone: str
    """The zone the hours are told in."""
    meaningful: bool
    """False where the log's time has no known zero: hours and days then count from there."""


@dataclass(frozen=True, eq=False)
class TimeSeries:
    """A quantity over the span of a trace; no bins at all where the log does not know it."""

    edges_ms: NDArray[np.int64]
    """One more than there are bins. All bins are as wide as the first, but for the last, which may be narrower."""
    mean: Floats
    """The exact time-weighted mean in each bin."""
    capacity: float | None = None
    """What the machine has of it, if known."""

    @property
    def width_s(self) -> float:
        """The width of the first bin."""
        return float(self.edges_ms[1] - self.edges_ms[0]) / 1000 if len(self.mean) else 0.0


def arrivals_by_hour(trace: Trace) -> Rhythm:
    """Return how many jobs were submitted in each hour of the day, in the machine's time zone, else in UTC."""
    local_ms, zone = _local_submits_ms(trace)
    hours = np.bincount(local_ms % DAY_MS // HOUR_MS, minlength=24)
    return Rhythm(tuple(hours.tolist()), zone, trace.manifest.absolute_time)


def arrivals_by_weekday(trace: Trace) -> Rhythm:
    """Return how many jobs were submitted on each day of the week, Monday first, in the machine's time zone."""
    local_ms, zone = _local_submits_ms(trace)
    first = 3 if trace.manifest.absolute_time else 0  # 1970 began on a Thursday
    days = np.bincount((local_ms // DAY_MS + first) % 7, minlength=7)
    return Rhythm(tuple(days.tolist()), zone, trace.manifest.absolute_time)


def utilisation_over_time(
    trace: Trace, bins: int = 400, *, resource: Literal["cpus", "gpus"] = "cpus", until_ms: int | None = None
) -> TimeSeries:
    """Return the processors (or GPUs) that jobs occupied, in at most `bins` bins of a round width.

    The bins reach from the first submit to `until_ms`, by default to the last known instant.
    """
    machine = trace.manifest.machine
    amount = schema.size() if resource == "cpus" else schema.gpus()
    capacity = machine.cpus if resource == "cpus" else machine.gpus
    occupied = trace.jobs.select(begin=start_ms(), end=end_ms(), amount=amount)
    return _level_over_time(trace, occupied, bins, until_ms, capacity)


def queue_length_over_time(trace: Trace, bins: int = 400, *, until_ms: int | None = None) -> TimeSeries:
    """Return the number of waiting jobs, in bins like those of `utilisation_over_time`.

    A job waits from its submit to its start; if it was cancelled before, to its end; if it still pends, to the
    end of the trace. A job of which none of this is known is left out, and so are all of a log without starts.
    """
    outcome, pending, cancelled = pl.col("outcome"), schema.Outcome.PENDING.value, schema.Outcome.CANCELLED.value
    left = pl.when(outcome.is_in([pending, cancelled])).then("end_ms")
    still_there = pl.when(outcome == pending).then(pl.lit(_FOREVER_MS))
    jobs = trace.jobs.filter(start_ms().count() > 0)
    waiting = jobs.select(begin="submit_ms", end=pl.coalesce(start_ms(), left, still_there), amount=pl.lit(1.0))
    return _level_over_time(trace, waiting, bins, until_ms)


def cdf(
    values: ArrayLike, *, weights: ArrayLike | None = None, points: int | None = None
) -> tuple[Floats, Floats]:
    """Return the distinct finite values in order, and the share (of the weights) at or below each.

    With `points`, at most so many are kept, the first and the last among them, close to evenly spaced in share.
    """
    data = np.asarray(values, np.float64)
    counted = np.ones_like(data) if weights is None else np.asarray(weights, np.float64)
    good = np.isfinite(data) & np.isfinite(counted) & (counted > 0)
    data, counted = data[good], counted[good]
    if not len(data):
        return data, counted
    order = np.argsort(data, kind="stable")
    data, total = data[order], np.cumsum(counted[order])
    last_of_each = np.append(data[1:] != data[:-1], True)
    data, share = data[last_of_each], total[last_of_each] / total[-1]
    if points is not None and len(data) > max(points, 2):
        targets = np.linspace(share[0], share[-1], max(points, 2))
        kept = np.unique(np.searchsorted(share, targets).clip(max=len(share) - 1))
        data, share = data[kept], share[kept]
    return data, share


def user_shares(trace: Trace, top: int = 10) -> pl.DataFrame:
    """Return the users with the most jobs: `user`, `jobs`, `job_share`, `work_share`, most active first.

    Shares are of all jobs whose user is known; work is processor time, null where the log does not tell it.
    """
    work = pl.col("run_s") * schema.size()
    named = trace.jobs.filter(pl.col("user").is_not_null())
    users = named.group_by("user").agg(jobs=pl.len().cast(pl.Int64), work=work.filter(work.is_finite()).sum())
    job_share = pl.col("jobs") / pl.col("jobs").sum()
    all_work = pl.col("work").sum()
    work_share = pl.when(all_work > 0).then(pl.col("work") / all_work)
    shares = users.select("user", "jobs", job_share=job_share, work_share=work_share)
    return shares.sort(["jobs", "user"], descending=[True, False]).head(top)


def _local_submits_ms(trace: Trace) -> tuple[NDArray[np.int64], str]:
    """Return the known submit times on the machine's own clock, as milliseconds, and the zone that is."""
    submits = trace.jobs["submit_ms"].drop_nulls()
    zone = time_zone_of(trace)
    if zone == "UTC" or not submits.is_between(-_FAR_MS, _FAR_MS).all():
        return submits.to_numpy(), "UTC"
    try:
        moments = submits.cast(pl.Datetime("ms", "UTC")).dt.convert_time_zone(zone)
    except pl.exceptions.PolarsError:  # Polars brings its own list of zones
        return submits.to_numpy(), "UTC"
    return moments.dt.replace_time_zone(None).dt.epoch("ms").to_numpy(), zone


def _level_over_time(
    trace: Trace, stretches: pl.DataFrame, bins: int, until_ms: int | None, capacity: float | None = None
) -> TimeSeries:
    """Return the sum of the amounts of all stretches [begin, end) that cover an instant, averaged per bin."""
    if bins < 1:
        raise UsageError(f"A time series cannot have {bins} bins", expected="at least 1")
    span = span_of(trace)
    amounts = pl.col("amount")
    known = stretches.drop_nulls().filter(amounts.is_finite() & (pl.col("end") > pl.col("begin")))
    first_ms = span.first_submit_ms if span else 0
    last_ms = until_ms if until_ms is not None else span.last_ms if span else 0
    if span is None or not len(known) or not 0 < last_ms - first_ms < _FAR_MS:
        return TimeSeries(np.empty(0, np.int64), np.empty(0), capacity)
    edges = _edges_ms(first_ms, last_ms, bins)
    amount = known["amount"].to_numpy().astype(np.float64)
    begun = _integral(known["begin"].to_numpy(), amount, edges)
    ended = _integral(known["end"].to_numpy(), amount, edges)
    level = (begun - ended) / np.diff(edges)
    # Sums of floats may miss zero by a hair, and a level below zero would puzzle the reader.
    return TimeSeries(edges, np.maximum(level, 0.0), capacity)


def _edges_ms(first_ms: int, last_ms: int, bins: int) -> NDArray[np.int64]:
    length = last_ms - first_ms
    fitting = (width for width in ROUND_WIDTHS_MS if -(-length // width) <= bins)
    width = next(fitting, -(-length // bins))
    edges = np.arange(first_ms, last_ms, width, dtype=np.int64)
    return np.append(edges, np.int64(last_ms))


def _integral(instants: NDArray[np.int64], amounts: Floats, edges: NDArray[np.int64]) -> Floats:
    """Return, per bin, the integral of a staircase that rises by `amounts` at `instants`."""
    clipped = np.clip(instants, edges[0], edges[-1])
    bins = len(edges) - 1
    at = np.minimum((clipped - edges[0]) // (edges[1] - edges[0]), bins - 1)
    risen = np.bincount(at, weights=amounts, minlength=bins)
    within = np.bincount(at, weights=amounts * (edges[at + 1] - clipped), minlength=bins)
    before = np.cumsum(risen) - risen
    integral: Floats = within + before * np.diff(edges)
    return integral
