"""What a schedule gives its jobs and its users, every number with an interval.

One home for each metric of single jobs: `assess` measures one schedule, `presage.simulator.comparison` two of
them with the same formulas. Intervals come from the block bootstrap (`presage.simulator.bootstrap`). A maximum,
and what the run as a whole gives, is one number: it gets no interval.

    starved_share           jobs that waited for more than a day
    overwaited_share        jobs that waited for more than ten times what they asked for (their limit, or their
                            run time where they have none)
    late_share              jobs that waited longer than a promised time, if there is one
    missed_deadline_share   of the jobs with a deadline, those that ended after it
    user_slowdown_gini      how unevenly users are served: 0 if their mean bounded slowdowns are all alike
    user_slowdown_jain      Jain's index of the same: 1 if all alike, 1/n if one of n users has all
    worst_user_slowdown     the largest of these means
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from presage.errors import InputError, UsageError
from presage.simulator.bootstrap import RESAMPLES, Draws
from presage.simulator.metrics import bounded_slowdown, ginis, jains

if TYPE_CHECKING:
    from presage.simulator.jobs import FloatArray

STARVING_S = 86_400.0
OVERWAITED = 10.0
COLUMNS = ("job_id", "user", "submit_ms", "end_ms", "wait_s", "run_s", "limit_s", "deadline_ms")
"""What is measured; all of them are columns of every schedule."""

MEANS = {
    "mean_wait_s": "wait_s",
    "mean_response_s": "response_s",
    "mean_slowdown": "slowdown",
    "mean_bounded_slowdown": "bounded_slowdown",
    "waited_share": "waited",
    "starved_share": "starved",
    "overwaited_share": "overwaited",
    "late_share": "late",
}
PERCENTILES = {
    "median_wait_s": ("wait_s", 50),
    "p90_wait_s": ("wait_s", 90),
    "p99_wait_s": ("wait_s", 99),
    "median_response_s": ("response_s", 50),
    "median_bounded_slowdown": ("bounded_slowdown", 50),
    "p99_bounded_slowdown": ("bounded_slowdown", 99),
}


@dataclass(frozen=True)
class Estimate:
    """A metric and its 95 % interval; without one its ends are None."""

    value: float
    low: float | None = None
    high: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Return the values for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Assessment:
    """One schedule, metric by metric."""

    jobs: int
    """How many jobs were measured: all that were not trimmed."""
    blocks: int
    """How many blocks the intervals come from; 0 where there are too few jobs for any."""
    estimates: dict[str, Estimate]

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        estimates = {name: estimate.to_dict() for name, estimate in self.estimates.items()}
        return {"jobs": self.jobs, "blocks": self.blocks, "metrics": estimates}


@dataclass(frozen=True)
class Measured:
    """A metric of a schedule."""

    value: float
    drawn: FloatArray | None = None
    """Its value in every draw; None for what has no interval."""


def assess(
    schedule: pl.DataFrame,
    *,
    warm_up: float = 0,
    cool_down: float = 0,
    sla_s: float | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Assessment:
    """Return the metrics of a schedule: a job table with the columns `COLUMNS`, in submit order.

    `warm_up` and `cool_down` leave out the first and last jobs: a share below 1, or a number of jobs. `sla_s` is a
    wait that was promised. Users and deadlines are measured where the schedule has them. The same seed gives the
    same intervals. Raises InputError if a job has no wait or run time, UsageError if trimming leaves none.
    """
    jobs = schedule.select(COLUMNS)
    check_complete(jobs)
    jobs = trimmed(jobs, warm_up, cool_down)
    draws = Draws.of(len(jobs), resamples, seed)
    estimates = {
        name: Estimate(each.value, *(draws.interval(each.drawn) if each.drawn is not None else (None, None)))
        for name, each in measured(jobs, draws, sla_s).items()
    }
    return Assessment(len(jobs), draws.blocks, estimates)


def measured(jobs: pl.DataFrame, draws: Draws, sla_s: float | None = None) -> dict[str, Measured]:
    """Return the metrics of a complete job table with the columns `COLUMNS`."""
    values = _values(jobs, sla_s)
    return {
        **_means(values, draws),
        **_percentiles(values, draws),
        "max_wait_s": Measured(float(values["wait_s"].max())),
        **_users(jobs["user"], values, draws),
        **_deadlines(jobs, draws),
    }


def check_complete(jobs: pl.DataFrame) -> None:
    """Raise InputError if a job has no wait or no run time."""
    complete = pl.col("wait_s").is_not_null() & (pl.col("run_s") > 0).fill_null(value=False)
    count = jobs.select((~complete).sum()).item()
    if count:
        raise InputError(
            f"{count:,} jobs cannot be compared: they have no wait or no run time",
            expected="schedules, which have both for every job",
            remedy="Simulate the trace, or clean it with the rule drop-unrun",
        )


def trimmed(jobs: pl.DataFrame, warm_up: float, cool_down: float) -> pl.DataFrame:
    """Return the jobs without the first and the last: shares below 1, or numbers. Raises UsageError."""
    count = len(jobs)
    if warm_up < 0 or cool_down < 0:
        raise UsageError("A trim below 0 is none", expected="a share below 1, or a number of jobs")
    first, last = (round(trim * count) if trim < 1 else int(trim) for trim in (warm_up, cool_down))
    if first + last >= count:
        raise UsageError(
            f"Warm-up and cool-down leave none of {count:,} jobs",
            expected="less than all of them",
            remedy="Trim less, or compare more jobs",
        )
    return jobs.slice(first, count - first - last)


def _values(jobs: pl.DataFrame, sla_s: float | None) -> dict[str, FloatArray]:
    """Return what is measured of every job, by name."""
    wait_s, run_s = (jobs[name].cast(pl.Float64).to_numpy() for name in ("wait_s", "run_s"))
    asked_s = jobs.select(pl.coalesce("limit_s", "run_s").cast(pl.Float64)).to_series().to_numpy()
    response_s = wait_s + run_s
    values = {
        "wait_s": wait_s,
        "response_s": response_s,
        "slowdown": response_s / run_s,
        "bounded_slowdown": bounded_slowdown(wait_s, run_s),
        "waited": wait_s > 0,
        "starved": wait_s > STARVING_S,
        "overwaited": wait_s > OVERWAITED * asked_s,
    }
    if sla_s is not None:
        values["late"] = wait_s > sla_s
    return {name: each.astype(np.float64) for name, each in values.items()}


def _means(values: dict[str, FloatArray], draws: Draws) -> dict[str, Measured]:
    return {
        metric: Measured(float(values[column].mean()), draws.means(values[column]))
        for metric, column in MEANS.items()
        if column in values
    }


def _percentiles(values: dict[str, FloatArray], draws: Draws) -> dict[str, Measured]:
    found: dict[str, Measured] = {}
    for column in dict.fromkeys(column for column, _ in PERCENTILES.values()):
        wanted = {metric: percent for metric, (of, percent) in PERCENTILES.items() if of == column}
        percents: list[float] = [*wanted.values()]
        exact = np.percentile(values[column], percents)
        drawn = draws.percentiles(values[column], percents)
        found |= {
            metric: Measured(float(value), row) for metric, value, row in zip(wanted, exact, drawn, strict=True)
        }
    return {metric: found[metric] for metric in PERCENTILES}


def _users(users: pl.Series, values: dict[str, FloatArray], draws: Draws) -> dict[str, Measured]:
    """Return how evenly users are served; jobs without a user do not count."""
    known = users.is_not_null().to_numpy()
    if not known.any():
        return {}
    groups = users.filter(users.is_not_null()).rank("dense").to_numpy().astype(np.int64) - 1
    slowdowns = values["bounded_slowdown"][known]
    means = np.bincount(groups, weights=slowdowns) / np.bincount(groups)
    drawn = draws.among(known).group_means(groups, slowdowns)
    return {
        "user_slowdown_gini": Measured(float(ginis(means.reshape(-1, 1))[0]), ginis(drawn)),
        "user_slowdown_jain": Measured(float(jains(means.reshape(-1, 1))[0]), jains(drawn)),
        "worst_user_slowdown": Measured(float(means.max())),
    }


def _deadlines(jobs: pl.DataFrame, draws: Draws) -> dict[str, Measured]:
    """Return the share of jobs with a deadline that ended after it."""
    due = jobs["deadline_ms"].is_not_null().to_numpy().astype(np.float64)
    if not due.any():
        return {}
    missed = (jobs["end_ms"] > jobs["deadline_ms"]).fill_null(value=False).to_numpy().astype(np.float64)
    with np.errstate(invalid="ignore"):  # a draw may have no deadline
        drawn = draws.sums(missed) / draws.sums(due)
    return {"missed_deadline_share": Measured(float(missed.sum() / due.sum()), drawn)}
