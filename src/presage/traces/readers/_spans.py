"""From times to durations, with pairs of times that run backwards accounted for."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder


def with_spans(jobs: pl.DataFrame, into: TraceBuilder) -> pl.DataFrame:
    """Return `jobs` with `wait_s` and `run_s` taken from `submit_ms`, `start_ms` and `end_ms`.

    A job that ends before it starts keeps its start and loses its end; one that starts before it was submitted
    has no wait. Both are counted and noted.
    """
    backwards = pl.col("end_ms") < pl.col("start_ms")
    early = pl.col("start_ms") < pl.col("submit_ms")
    ends_first, starts_first = jobs.select(backwards.sum().alias("ends"), early.sum().alias("starts")).row(0)
    if ends_first:
        into.count(ends_before_start=ends_first)
        into.note("some jobs end before they start: their end is read as missing (counted as ends_before_start)")
    if starts_first:
        into.count(starts_before_submit=starts_first)
        into.note("some jobs start before they were submitted: no wait (counted as starts_before_submit)")
    jobs = jobs.with_columns(end_ms=pl.when(backwards.not_().fill_null(True)).then("end_ms"))
    return jobs.with_columns(
        wait_s=pl.when(~early).then(_seconds("submit_ms", "start_ms")), run_s=_seconds("start_ms", "end_ms")
    )


def unfolded(frame: pl.DataFrame, columns: tuple[str, ...], zone: str) -> pl.DataFrame:
    """Return `frame` with the times in `columns`, which should not run backwards, told apart in a repeated hour.

    A local time within the hour that a change to winter repeats is read as the earlier one at first. Where that
    puts it before the column to its left, and the later reading does not, the later one is right.
    """
    for earlier, later in pairwise(columns):
        clock = pl.from_epoch(pl.col(later), "ms").dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
        wall = clock.dt.replace_time_zone(None)
        second = wall.dt.replace_time_zone(zone, ambiguous="latest", non_existent="null").dt.epoch("ms")
        moved = (pl.col(later) < pl.col(earlier)) & (second >= pl.col(earlier))
        frame = frame.with_columns(pl.when(moved).then(second).otherwise(later).alias(later))
    return frame


def _seconds(earlier: str, later: str) -> pl.Expr:
    return (pl.col(later) - pl.col(earlier)) / 1000.0
