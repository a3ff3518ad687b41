"""Nodes for logs that know only processors: the machine divided into equal parts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from presage.errors import UsageError
from presage.simulator.simulation import machine_size
from presage.traces.schema import NODES, size

if TYPE_CHECKING:
    from presage.traces import Trace


def on_equal_nodes(trace: Trace, nodes: int, processors: int | None = None, racks: int = 1) -> Trace:
    """Return the trace on `nodes` nodes that share its processors (default: the machine's) equally.

    A job takes as few nodes as hold it, the same share of each; nodes are numbered rack by rack. Raises UsageError
    if the processors cannot be divided like that.
    """
    total = machine_size(trace, processors)
    if nodes < 1 or total % nodes or not 1 <= racks <= nodes:
        raise UsageError(
            f"{total:,} processors cannot be divided among {nodes:,} nodes in {racks:,} racks",
            expected="a number of nodes that divides the processors, and no more racks than nodes",
        )
    each = total // nodes
    numbers = range(nodes)
    columns: dict[str, list[str] | list[float]] = {
        "node_id": [f"node{number}" for number in numbers],
        "cpus": [float(each)] * nodes,
        "rack": [f"rack{number * racks // nodes}" for number in numbers],
    }
    table = pl.DataFrame(
        {name: pl.Series(columns.get(name, [None] * nodes), dtype=kind) for name, kind in NODES.items()}
    )
    members = (size() / each).ceil().cast(pl.Int64)
    jobs = trace.jobs.with_columns(
        tasks=members, cpus_req=(size() / members).ceil() * members, mem_req_bytes=pl.lit(None, pl.Int64)
    )
    return replace(trace, nodes=table).with_jobs(jobs)
