"""How fast a job runs depending on where it runs.

A speed of 1 is the speed at which the log's run times were measured. A gang goes at the pace of its slowest
member, times the factor for being spread over nodes or racks; members that share a GPU or a node slow each other
down, and that changes while they run, whenever a neighbour comes or goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict, PositiveFloat

from presage.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from presage.simulator.jobs import IntArray

FULL = 1_000_000
"""The engine counts speeds in millionths."""


class KindSpeeds(BaseModel):
    """What differs for one kind of job."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    speeds: dict[str, PositiveFloat] | None = None
    across_nodes: PositiveFloat | None = None
    across_racks: PositiveFloat | None = None


class Throughput(BaseModel):
    """The table of speeds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    speeds: dict[str, PositiveFloat] | None = None
    """By GPU type, or by node type for nodes without GPUs; what is not named has speed 1. A node's own `speed`
    counts besides."""
    across_nodes: PositiveFloat = 1.0
    """Factor for a gang on several nodes of one rack."""
    across_racks: PositiveFloat = 1.0
    """Factor for a gang on several racks."""
    gpu_sharing: tuple[PositiveFloat, ...] = ()
    """Factors for sharing a GPU with one other member, with two, …; the last holds for more."""
    node_sharing: tuple[PositiveFloat, ...] = ()
    """Factors for having one other member on the same node, two, …; the last holds for more."""
    kind_column: str | None = None
    """Which column of the jobs says of what kind a job is."""
    kinds: dict[str, KindSpeeds] | None = None
    """What differs for some kinds."""
    recorded: bool = False
    """Whether run times were measured on the GPU type that the log says the job had, so that they are scaled from
    there; else they are taken as measured at speed 1."""


def job_kinds(table: Throughput, jobs: pl.DataFrame) -> IntArray:
    """Return the row of the speed table for every job; 0 is for all kinds that the table does not name."""
    if table.kind_column is None:
        return np.zeros(len(jobs), np.int64)
    if table.kind_column not in jobs.columns:
        raise InputError(
            f"The throughput table tells jobs apart by {table.kind_column!r}, which the trace does not have",
            expected=f"one of {', '.join(jobs.columns)}",
        )
    rows = {kind: row for row, kind in enumerate(table.kinds or {}, start=1)}
    return np.array([rows.get(str(kind), 0) for kind in jobs[table.kind_column]], np.int64)


def node_speeds(table: Throughput, nodes: pl.DataFrame) -> IntArray:
    """Return the speed of every node, in millionths: one row per kind of job, row 0 for those not named."""
    own = nodes["speed"].fill_null(1.0).to_numpy()
    if (own <= 0).any():
        raise InputError("A node has a speed that is not above 0")
    types = [_type(row) for row in nodes.select("gpus", "gpu_type", "node_type").iter_rows()]
    rows = [_by_type(table, kind) for kind in (None, *(table.kinds or {}))]
    speeds = np.array([[speeds.get(name or "", 1.0) for name in types] for speeds in rows])
    return _millionths(speeds * own)


def recorded_speeds(table: Throughput, jobs: pl.DataFrame, kinds: IntArray) -> np.ndarray:
    """Return the speed at which the log measured every job."""
    if not table.recorded:
        return np.ones(len(jobs))
    rows = [_by_type(table, kind) for kind in (None, *(table.kinds or {}))]
    return np.array([rows[row].get(name or "", 1.0) for row, name in zip(kinds, jobs["gpu_type"], strict=True)])


def locality(table: Throughput) -> IntArray:
    """Return for every kind of job the factors across nodes and across racks, in millionths."""
    rows = [(table.across_nodes, table.across_racks)]
    for kind in (table.kinds or {}).values():
        own = (kind.across_nodes, kind.across_racks)
        rows.append((own[0] or table.across_nodes, own[1] or table.across_racks))
    return _millionths(np.array(rows))


def sharing(factors: tuple[float, ...]) -> IntArray:
    """Return the factors by number of others, none first, in millionths."""
    return _millionths(np.array([1.0, *factors]))


def _by_type(table: Throughput, kind: str | None) -> dict[str, float]:
    own = (table.kinds or {})[kind].speeds if kind is not None else None
    return {**(table.speeds or {}), **(own or {})}


def _type(row: tuple[float | None, str | None, str | None]) -> str | None:
    gpus, gpu_type, node_type = row
    return gpu_type if gpus and gpu_type else node_type


def _millionths(values: np.ndarray) -> IntArray:
    return np.maximum(np.round(values * FULL), 1).astype(np.int64)
