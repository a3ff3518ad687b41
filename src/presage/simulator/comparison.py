"""Whether two schedules of the same jobs differ by more than chance.

Waits in a queue hang together and have heavy tails, so one run is one draw, and jobs are no independent
observations. The intervals here come from a paired block bootstrap: the jobs, in submit order, are cut into blocks
of consecutive jobs; blocks are drawn with replacement, the same ones for both schedules; percentiles of the
difference over 1000 draws are the ends of the interval. Blocks have 1024 jobs where that makes at least 10 of
them, else there are 20 of equal length; with fewer than 10 jobs there is no interval. Where waits hang together
over more jobs than a block has, as in a short trace with one long queue, the intervals are too narrow.

Draws of few blocks vary too little. So the percentiles are those at which the interval of a mean of normal values
would be that of Student: the 1.6th and 98.4th for 20 blocks, nearly the 2.5th and 97.5th for hundreds (the
expanded percentile interval of T. C. Hesterberg, "What teachers should know about the bootstrap", The American
Statistician 69, 2015).

A maximum, and what the run as a whole gives (utilisation, makespan), is one number: it gets no interval.
Schedules are compared on the jobs that both have.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.errors import InputError, UsageError
from presage.simulator.metrics import bounded_slowdown

if TYPE_CHECKING:
    from presage.simulator.jobs import FloatArray, IntArray

BLOCK_JOBS = 1024
FEWEST_BLOCKS = 10
USUAL_BLOCKS = 20
RESAMPLES = 1000
STARVING_S = 86_400.0
COLUMNS = ("job_id", "user", "submit_ms", "end_ms", "wait_s", "run_s", "deadline_ms")
"""What is compared; all of them are columns of every schedule."""

MEANS = {
    "mean_wait_s": "wait_s",
    "mean_response_s": "response_s",
    "mean_slowdown": "slowdown",
    "mean_bounded_slowdown": "bounded_slowdown",
    "waited_share": "waited",
    "starved_share": "starved",
}
PERCENTILES = {
    "median_wait_s": ("wait_s", 50),
    "p90_wait_s": ("wait_s", 90),
    "p99_wait_s": ("wait_s", 99),
    "median_response_s": ("response_s", 50),
    "median_bounded_slowdown": ("bounded_slowdown", 50),
    "p99_bounded_slowdown": ("bounded_slowdown", 99),
}
_RANKS = 4096
"""Percentiles of a draw are exact up to so many jobs, and to a 4096th of the jobs beyond."""


@dataclass(frozen=True)
class Difference:
    """What a variant makes of one metric: the values on the same jobs, and a 95 % interval.

    Without an interval its ends are None; without a ratio, because the baseline is zero, so are that one's.
    """

    baseline: float
    variant: float
    low: float | None = None
    """Of the difference, like `high`."""
    high: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None

    @property
    def difference(self) -> float:
        """Variant minus baseline."""
        return self.variant - self.baseline

    @property
    def ratio(self) -> float | None:
        """Variant over baseline; None where the baseline is zero."""
        return self.variant / self.baseline if self.baseline else None

    @property
    def clear(self) -> bool | None:
        """Whether the interval excludes no change; None if there is no interval."""
        return None if self.low is None or self.high is None else self.low > 0 or self.high < 0

    def to_dict(self) -> dict[str, float | None]:
        """Return the values for JSON."""
        return {**asdict(self), "difference": self.difference, "ratio": self.ratio}


@dataclass(frozen=True)
class Comparison:
    """Two schedules, metric by metric."""

    jobs: int
    """How many jobs were compared: in both schedules, and not trimmed."""
    blocks: int
    """How many blocks the intervals come from; 0 where there are too few jobs for any."""
    differences: dict[str, Difference]


def compare(
    baseline: pl.DataFrame,
    variant: pl.DataFrame,
    *,
    warm_up: float = 0,
    cool_down: float = 0,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Comparison:
    """Return how the schedule `variant` differs from `baseline`: job tables with the columns `COLUMNS`.

    `warm_up` and `cool_down` leave out the first and last jobs of the common ones in the baseline's order: a share
    below 1, or a number of jobs. Users and deadlines are compared where the schedules have them. The same seed
    gives the same intervals. Raises InputError if the schedules have no job in common or a job has no wait or run
    time, UsageError if trimming leaves none.
    """
    pairs = baseline.select(COLUMNS).join(
        variant.select(COLUMNS), on="job_id", how="inner", suffix="_variant", maintain_order="left"
    )
    if not len(pairs):
        raise InputError("The schedules have no job in common", expected="the same jobs under two scenarios")
    _check_complete(pairs)
    pairs = _trimmed(pairs, warm_up, cool_down)
    before = _Jobs.of(pairs, "")
    after = _Jobs.of(pairs, "_variant")
    draws = _Draws.of(len(pairs), resamples, seed)
    differences = {
        **_mean_differences(before, after, draws),
        **_percentile_differences(before, after, draws),
        "max_wait_s": Difference(float(before["wait_s"].max()), float(after["wait_s"].max())),
        **_user_differences(pairs["user"], before, after, draws),
        **_deadline_differences(before, after, draws),
    }
    return Comparison(len(pairs), len(draws.sizes) if draws.any else 0, differences)


def gini(values: FloatArray) -> float:
    """Return the Gini coefficient of values from 0 on: 0 if all are alike, towards 1 if one has everything."""
    return float(_ginis(values.reshape(-1, 1))[0])


def _check_complete(pairs: pl.DataFrame) -> None:
    lacking = pl.any_horizontal(
        [
            pl.col(f"wait_s{suffix}").is_null() | (pl.col(f"run_s{suffix}") > 0).not_()
            for suffix in ("", "_variant")
        ]
        + [pl.col(f"run_s{suffix}").is_null() for suffix in ("", "_variant")]
    )
    count = pairs.select(lacking.sum()).item()
    if count:
        raise InputError(
            f"{count:,} jobs cannot be compared: they have no wait or no run time",
            expected="schedules, which have both for every job",
            remedy="Simulate the trace, or clean it with the rule drop-unrun",
        )


def _trimmed(pairs: pl.DataFrame, warm_up: float, cool_down: float) -> pl.DataFrame:
    count = len(pairs)
    if warm_up < 0 or cool_down < 0:
        raise UsageError("A trim below 0 is none", expected="a share below 1, or a number of jobs")
    first, last = (round(trim * count) if trim < 1 else int(trim) for trim in (warm_up, cool_down))
    if first + last >= count:
        raise UsageError(
            f"Warm-up and cool-down leave none of {count:,} jobs",
            expected="less than all of them",
            remedy="Trim less, or compare more jobs",
        )
    return pairs.slice(first, count - first - last)


class _Jobs(dict[str, "FloatArray"]):
    """What is measured of every job, by name."""

    @classmethod
    def of(cls, pairs: pl.DataFrame, suffix: str) -> _Jobs:
        def column(name: str) -> FloatArray:
            return pairs[name + suffix].cast(pl.Float64).to_numpy()

        wait_s, run_s, deadline_ms = column("wait_s"), column("run_s"), column("deadline_ms")
        response_s = wait_s + run_s
        return cls(
            wait_s=wait_s,
            response_s=response_s,
            slowdown=response_s / run_s,
            bounded_slowdown=bounded_slowdown(wait_s, run_s),
            waited=(wait_s > 0).astype(np.float64),
            starved=(wait_s > STARVING_S).astype(np.float64),
            has_deadline=np.isfinite(deadline_ms).astype(np.float64),
            missed=(column("end_ms") > deadline_ms).astype(np.float64),
        )


@dataclass(frozen=True)
class _Draws:
    """Blocks of consecutive jobs, and how often each draw takes each of them."""

    block_of: IntArray
    """The block of every job."""
    sizes: FloatArray
    """The jobs of every block."""
    times: FloatArray
    """A row for each draw, a column for each block."""

    @classmethod
    def of(cls, jobs: int, resamples: int, seed: int) -> _Draws:
        blocks = jobs // BLOCK_JOBS if jobs >= BLOCK_JOBS * FEWEST_BLOCKS else min(USUAL_BLOCKS, jobs)
        block_of = np.arange(jobs) * blocks // jobs
        if blocks < FEWEST_BLOCKS:
            resamples = 0
        chances = np.full(blocks, 1 / blocks)
        times = np.random.default_rng(seed).multinomial(blocks, chances, size=resamples)
        return cls(block_of, np.bincount(block_of).astype(np.float64), times.astype(np.float64))

    @property
    def any(self) -> bool:
        """Whether there are enough blocks for an interval."""
        return len(self.times) > 0

    def difference(self, baseline: float, variant: float, before: FloatArray, after: FloatArray) -> Difference:
        """Return the difference of two values with the interval that their values in every draw give."""
        kept = np.isfinite(before) & np.isfinite(after)
        before, after = before[kept], after[kept]
        if not len(before):
            return Difference(baseline, variant)
        low, high = self._interval(after - before)
        if not baseline or not before.all():
            return Difference(baseline, variant, low, high)
        return Difference(baseline, variant, low, high, *self._interval(after / before))

    def _interval(self, values: FloatArray) -> tuple[float, float]:
        tail = tail_share(len(self.sizes))
        low, high = np.quantile(values, [tail, 1 - tail])
        return float(low), float(high)

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the sum of the values in every draw."""
        drawn: FloatArray = self.times @ np.bincount(self.block_of, weights=values, minlength=len(self.sizes))
        return drawn

    def means(self, values: FloatArray) -> FloatArray:
        """Return the mean in every draw."""
        return self.sums(values) / (self.times @ self.sizes)

    def percentiles(self, values: FloatArray, percents: list[float]) -> FloatArray:
        """Return each percentile (row) in every draw (column), between two jobs interpolated as numpy does."""
        if not self.any:
            return np.empty((len(percents), 0))
        ranked = np.argsort(values, kind="stable")
        ranks = min(_RANKS, len(values))
        rank_of = np.arange(len(values)) * ranks // len(values)
        cells = self.block_of[ranked] * ranks + rank_of
        members = np.bincount(cells, minlength=len(self.sizes) * ranks).reshape(-1, ranks)  # (blocks, ranks)
        reached = self.times @ np.cumsum(members, axis=1, dtype=np.float64)  # (draws, ranks)
        last = reached[:, -1:] - 1
        places = last * (np.array(percents) / 100)  # (draws, percents)
        floors = np.floor(places)
        wanted = np.hstack([floors, np.minimum(floors + 1, last)])
        at = np.array(
            [np.searchsorted(row, want, side="right") for row, want in zip(reached, wanted, strict=True)]
        )
        middles = np.searchsorted(rank_of, np.arange(ranks)) + np.bincount(rank_of) // 2
        lower, upper = np.hsplit(values[ranked[middles]][at], 2)
        between: FloatArray = lower + (upper - lower) * (places - floors)
        return between.T

    def group_means(self, groups: IntArray, values: FloatArray) -> FloatArray:
        """Return the mean of every group (row) in every draw (column); NaN where a draw has none of it."""
        count = int(groups.max()) + 1
        cells = groups * len(self.sizes) + self.block_of
        shape = (count, len(self.sizes))
        total = np.bincount(cells, weights=values, minlength=shape[0] * shape[1]).reshape(shape) @ self.times.T
        jobs = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape) @ self.times.T
        return np.divide(total, jobs, out=np.full_like(total, np.nan), where=jobs > 0)


def _mean_differences(before: _Jobs, after: _Jobs, draws: _Draws) -> dict[str, Difference]:
    return {
        metric: draws.difference(
            float(before[column].mean()),
            float(after[column].mean()),
            draws.means(before[column]),
            draws.means(after[column]),
        )
        for metric, column in MEANS.items()
    }


def _percentile_differences(before: _Jobs, after: _Jobs, draws: _Draws) -> dict[str, Difference]:
    differences: dict[str, Difference] = {}
    for column in dict.fromkeys(column for column, _ in PERCENTILES.values()):
        wanted = {metric: percent for metric, (of, percent) in PERCENTILES.items() if of == column}
        percents: list[float] = [*wanted.values()]
        values = zip(
            wanted,
            np.percentile(before[column], percents),
            np.percentile(after[column], percents),
            draws.percentiles(before[column], percents),
            draws.percentiles(after[column], percents),
            strict=True,
        )
        differences |= {
            metric: draws.difference(float(old), float(new), old_draws, new_draws)
            for metric, old, new, old_draws, new_draws in values
        }
    return {metric: differences[metric] for metric in PERCENTILES}


def _user_differences(users: pl.Series, before: _Jobs, after: _Jobs, draws: _Draws) -> dict[str, Difference]:
    """Return how evenly users are served; jobs without a user do not count."""
    known = users.is_not_null().to_numpy()
    if not known.any():
        return {}
    groups = users.filter(users.is_not_null()).rank("dense").to_numpy().astype(np.int64) - 1
    mine = _Draws(draws.block_of[known], draws.sizes, draws.times)
    slowdowns = [jobs["bounded_slowdown"][known] for jobs in (before, after)]
    means = [np.bincount(groups, weights=values) / np.bincount(groups) for values in slowdowns]
    drawn = (_ginis(mine.group_means(groups, values)) for values in slowdowns)
    return {
        "user_slowdown_gini": draws.difference(gini(means[0]), gini(means[1]), *drawn),
        "worst_user_slowdown": Difference(float(means[0].max()), float(means[1].max())),
    }


def _deadline_differences(before: _Jobs, after: _Jobs, draws: _Draws) -> dict[str, Difference]:
    """Return the share of jobs with a deadline that ended after it."""
    due = before["has_deadline"] * after["has_deadline"]
    if not due.any():
        return {}
    missed = [jobs["missed"] * due for jobs in (before, after)]
    old, new = (float(each.sum() / due.sum()) for each in missed)
    with np.errstate(invalid="ignore"):  # a draw may have no deadline
        drawn = [draws.sums(each) / draws.sums(due) for each in missed]
    return {"missed_deadline_share": draws.difference(old, new, *drawn)}


def _ginis(means: FloatArray) -> FloatArray:
    """Return the Gini coefficient of each column, NaN not counted."""
    ordered = np.sort(means, axis=0)
    there = ~np.isnan(ordered)
    count = there.sum(axis=0)
    total = np.nansum(ordered, axis=0)
    ranks = np.arange(1, len(ordered) + 1).reshape(-1, 1)
    weighted = np.nansum(ordered * ranks, axis=0)
    coefficients = np.zeros(len(count))
    np.divide(2 * weighted - (count + 1) * total, count * total, out=coefficients, where=count * total > 0)
    return coefficients


def tail_share(blocks: int) -> float:
    """Return the share of draws beyond each end of a 95 % interval from so many blocks, at least 10."""
    normal = NormalDist()
    z = normal.inv_cdf(0.975)
    free = blocks - 1
    # Student's quantile by its expansion in 1/free, good to four digits from 9 on.
    student = (
        z
        + (z**3 + z) / (4 * free)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * free**3)
    )
    return normal.cdf(-student * math.sqrt(blocks / free))
