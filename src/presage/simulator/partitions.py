"""A machine in parts: partitions that share no processors, each scheduled on its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from presage.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from presage.simulator.jobs import IntArray, Jobs
    from presage.simulator.metrics import Metrics
    from presage.traces import Trace

_MOST_PROCESSORS = 10**9


@dataclass(frozen=True)
class Partition:
    """What one partition made of its jobs."""

    processors: int
    metrics: Metrics | None
    """None if it had no jobs."""

    def to_dict(self) -> dict[str, Any]:
        """Return size and metrics for JSON."""
        return {"processors": self.processors, **(self.metrics.to_dict() if self.metrics else {"jobs": 0})}


def parse_partitions(texts: Iterable[str]) -> dict[str, int]:
    """Return name → processors of texts like `gpu=64`. Raises UsageError."""
    partitions: dict[str, int] = {}
    for text in texts:
        name, _, number = (part.strip() for part in text.rpartition("="))
        if not name or not re.fullmatch(r"\d{1,18}", number):
            raise UsageError(f"{text!r} is no partition", expected="NAME=PROCESSORS, like gpu=64")
        if name in partitions:
            raise UsageError(f"The partition {name!r} is given twice", expected="each name once")
        partitions[name] = int(number)
    return partitions


def partitions_of(trace: Trace) -> dict[str, int]:
    """Return name → processors as the trace's table of nodes knows them.

    Raises InputError if it knows none, or if a node is in more than one.
    """
    nodes = trace.nodes.select("node_id", "cpus", "partitions").filter(pl.col("partitions").list.len() > 0)
    if not len(nodes) or nodes["cpus"].null_count():
        raise InputError(
            "The trace does not say which processors its partitions have",
            expected="a table of nodes with partitions and processors",
            remedy="Name them: --partition gpu=64 --partition cpu=512",
        )
    shared = nodes.filter(pl.col("partitions").list.len() > 1)
    if len(shared):
        raise InputError(
            f"Partitions overlap: {shared['node_id'][0]} is in {', '.join(shared['partitions'][0])}",
            expected="every node in one partition",
            remedy="Name partitions that share nothing: --partition gpu=64 --partition cpu=512",
        )
    sums = nodes.group_by(pl.col("partitions").list.first().alias("name")).agg(pl.col("cpus").sum()).sort("name")
    return {name: int(cpus) for name, cpus in sums.iter_rows()}


def rows_by_partition(trace: Trace, jobs: Jobs, partitions: Mapping[str, int]) -> dict[str, IntArray]:
    """Return which jobs go to each partition.

    Raises UsageError if a partition has no processors; InputError if a job names no partition or another, or is
    larger than its own.
    """
    for name, processors in partitions.items():
        if not 1 <= processors <= _MOST_PROCESSORS:
            raise UsageError(
                f"The partition {name!r} cannot have {processors:,} processors",
                expected=f"a number from 1 to {_MOST_PROCESSORS:,}",
            )
    named = trace.jobs["partition"]
    if named.null_count():
        raise InputError(
            f"{named.null_count():,} jobs name no partition",
            remedy="Fill the column 'partition', or simulate one pool with --processors",
        )
    unknown = named.filter(~named.is_in(list(partitions)))
    if len(unknown):
        raise InputError(
            f"{len(unknown):,} jobs are of partitions that the machine does not have, like {unknown[0]!r}",
            expected=f"one of {', '.join(sorted(partitions))}",
            remedy="Give the others too, with --partition NAME=PROCESSORS",
        )
    rows = {name: np.flatnonzero((named == name).to_numpy()) for name in partitions}
    for name, members in rows.items():
        largest = int(jobs.processors[members].max(initial=0))
        if largest > partitions[name]:
            raise InputError(
                f"A job needs {largest:,} processors and its partition {name!r} has {partitions[name]:,}",
                remedy="Give the partition more, or leave such jobs out",
            )
    return rows
