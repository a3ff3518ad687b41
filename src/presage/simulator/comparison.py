"""Whether two schedules of the same jobs differ by more than chance.

The intervals come from a paired block bootstrap: blocks of consecutive jobs are drawn, the same ones for both
schedules, and percentiles of the difference over the draws are the ends of the interval. How blocks are cut and
drawn is told in `presage.simulator.bootstrap`, what is measured in `presage.simulator.assessment`. Schedules are
compared on the jobs that both have.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import polars as pl

from presage.errors import InputError
from presage.simulator.assessment import COLUMNS, check_complete, measured, trimmed
from presage.simulator.bootstrap import RESAMPLES, Draws

if TYPE_CHECKING:
    from presage.simulator.assessment import Measured


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
    sla_s: float | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Comparison:
    """Return how the schedule `variant` differs from `baseline`: job tables with the columns `COLUMNS`.

    `warm_up` and `cool_down` leave out the first and last jobs of the common ones in the baseline's order: a share
    below 1, or a number of jobs. `sla_s` is a wait that was promised. Users and deadlines are compared where the
    schedules have them. The same seed gives the same intervals. Raises InputError if the schedules have no job in
    common or a job has no wait or run time, UsageError if trimming leaves none.
    """
    pairs = baseline.select(COLUMNS).join(
        variant.select(COLUMNS), on="job_id", how="inner", suffix="_variant", maintain_order="left"
    )
    if not len(pairs):
        raise InputError("The schedules have no job in common", expected="the same jobs under two scenarios")
    due = pl.col("deadline_ms").is_not_null() & pl.col("deadline_ms_variant").is_not_null()
    pairs = pairs.with_columns(pl.when(due).then(f"deadline_ms{side}") for side in ("", "_variant"))
    check_complete(pairs)
    check_complete(_variant(pairs))
    pairs = trimmed(pairs, warm_up, cool_down)
    draws = Draws.of(len(pairs), resamples, seed)
    before, after = (measured(jobs, draws, sla_s) for jobs in (pairs, _variant(pairs)))
    differences = {name: _difference(before[name], after[name], draws) for name in before}
    return Comparison(len(pairs), draws.blocks, differences)


def _variant(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the variant's side of the pairs; a job's user is the baseline's."""
    sides = {name: name if name in {"job_id", "user"} else f"{name}_variant" for name in COLUMNS}
    return pairs.select(pl.col(side).alias(name) for name, side in sides.items())


def _difference(baseline: Measured, variant: Measured, draws: Draws) -> Difference:
    before, after = baseline.drawn, variant.drawn
    if before is None or after is None:
        return Difference(baseline.value, variant.value)
    low, high = draws.interval(after - before)
    if low is None or not baseline.value or not before.all():
        return Difference(baseline.value, variant.value, low, high)
    return Difference(baseline.value, variant.value, low, high, *draws.interval(after / before))
