"""Jobs of a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from presage.traces import Trace


def jobs_of(trace: Trace, partition: str) -> pl.DataFrame:
    """Return the jobs that were, or may be, in one of these partitions; all where the log names no partitions.

    Both may be lists with commas, as a job has them that may start in any of several.
    """
    jobs = trace.jobs
    if jobs["partition"].null_count() == len(jobs):
        return jobs
    wanted = partition.split(",")
    return jobs.filter(pl.col("partition").str.split(",").list.set_intersection(wanted).list.len() > 0)
