"""Whether synthetic jobs keep to what no job of the log could break."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.synthesizers.columns import RUN, SIZE
from presage.synthesizers.fidelity._figures import Figures
from presage.synthesizers.fidelity._jobs import has, job_frame

if TYPE_CHECKING:
    from presage.traces import Trace

OVER_FACTOR, OVER_S = 1.1, 120.0


@dataclass(frozen=True)
class Violations(Figures):
    """Shares of the jobs that break a rule; NaN where the trace does not tell."""

    over_limit: float
    """Run > 1.1 x limit + 120 s, of the jobs that have a limit."""
    new_sizes: float
    """Sizes that no job of the log has."""
    too_large: float
    """Larger than the machine of the log."""
    bad_times: float
    """Run or wait below zero, or submitted before the job that stands before it, of all jobs."""


@dataclass(frozen=True)
class Constraints(Figures):
    """What both traces break; logs do, too."""

    real: Violations
    synthetic: Violations


def count_violations(real: Trace, synthetic: Trace) -> Constraints:
    """Return which shares of the jobs break rules of the log."""
    return Constraints(_violations(real, real), _violations(synthetic, real))


def _violations(trace: Trace, real: Trace) -> Violations:
    jobs, known = job_frame(trace), job_frame(real)
    limited = jobs.filter(pl.col("limit_s").is_not_null())
    sized = jobs.filter(pl.col(SIZE).is_not_null())
    machine = real.manifest.machine.cpus
    return Violations(
        over_limit=_share(limited, pl.col(RUN) > OVER_FACTOR * pl.col("limit_s") + OVER_S),
        new_sizes=_share(sized, ~pl.col(SIZE).is_in(known[SIZE].unique().to_list()))
        if has(known, SIZE)
        else np.nan,
        too_large=_share(sized, pl.col(SIZE) > machine) if machine else np.nan,
        bad_times=_bad_times(trace.jobs),
    )


def _bad_times(jobs: pl.DataFrame) -> float:
    back = (pl.col("submit_ms") < pl.col("submit_ms").shift(1)).fill_null(value=False)
    negative = ((pl.col(RUN) < 0) | (pl.col("wait_s") < 0)).fill_null(value=False)
    return _share(jobs, back | negative)


def _share(jobs: pl.DataFrame, rule: pl.Expr) -> float:
    return float(jobs.select(rule.mean()).item()) if len(jobs) else float(np.nan)
