"""Times of logs that state durations, and of logs that do not say when they began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from presage.traces.readers._spans import with_spans

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder

_EARLIEST_EPOCH_MS = 500_000_000_000  # 1985: no job log is older
OWN_ZERO = "the log does not say when it began: times count from its own zero"


def with_stated_spans(jobs: pl.DataFrame, into: TraceBuilder) -> pl.DataFrame:
    """Return `jobs` with `wait_s` and `run_s` taken from the times, or as stated where the times do not tell."""
    stated = jobs.select(stated_wait_s=pl.col("wait_s"), stated_run_s=pl.col("run_s"))
    return (
        with_spans(jobs, into)
        .hstack(stated)
        .with_columns(wait_s=pl.coalesce("wait_s", "stated_wait_s"), run_s=pl.coalesce("run_s", "stated_run_s"))
        .drop("stated_wait_s", "stated_run_s")
    )


def milliseconds(seconds: pl.Expr) -> pl.Expr:
    """Return a number of seconds as whole milliseconds, missing if they are too many."""
    return (seconds * 1000).round().cast(pl.Int64, strict=False)


def note_own_zero(times_ms: pl.Series, into: TraceBuilder) -> None:
    """Tell the manifest that times count from the log's own zero if none of `times_ms` can be a date."""
    latest_ms = times_ms.max()
    if isinstance(latest_ms, int) and latest_ms < _EARLIEST_EPOCH_MS:
        into.describe(absolute_time=False)
        into.note(OWN_ZERO)
