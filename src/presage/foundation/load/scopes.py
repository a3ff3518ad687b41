"""Which parts of a trace are forecast: the whole cluster, its GPUs, and each partition, queue or GPU pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from presage.errors import UnknownNameError, UsageError
from presage.traces import schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.traces import Trace

WAYS = ("partition", "queue", "pool")
MOST_PARTS = 20
_ANY = "any"


@dataclass(frozen=True, eq=False)
class Scope:
    """A part of the cluster: its jobs, what they hold, and how much of it there is."""

    kind: str
    """cluster, gpus, partition, queue or pool."""
    name: str
    unit: str
    """processors, nodes, GPUs or jobs."""
    jobs: pl.DataFrame
    amount: pl.Expr
    capacity: float | None
    """None if the trace does not say: the most that was held at once then stands for it."""


def scopes_of(trace: Trace, by: Sequence[str]) -> tuple[list[Scope], list[str]]:
    """Return the whole cluster, its GPUs if it has any, and the parts asked for, and notes on what is left out.

    `by` has names of `WAYS`. Of many parts, the `MOST_PARTS` with the most jobs are kept. Raises UnknownNameError
    for another way, UsageError if the trace does not know such parts.
    """
    for way in by:
        if way not in WAYS:
            raise UnknownNameError("way to divide a cluster", way, WAYS)
    unit, amount = _amount(trace.jobs)
    machine = trace.manifest.machine
    sizes = {"processors": machine.cpus, "nodes": machine.nodes}
    scopes = [Scope("cluster", "cluster", unit, trace.jobs, amount, _positive(sizes.get(unit)))]
    notes: list[str] = []
    gpu_jobs = trace.jobs.filter(schema.gpus() > 0)
    if len(gpu_jobs):
        scopes.append(Scope("gpus", "gpus", "GPUs", gpu_jobs, schema.gpus(), _positive(machine.gpus)))
    for way in dict.fromkeys(by):
        parts, note = _pools(trace, gpu_jobs) if way == "pool" else _parts(trace, way, unit, amount)
        scopes += parts
        notes += note
    return scopes, notes


def _amount(jobs: pl.DataFrame) -> tuple[str, pl.Expr]:
    """Return what jobs hold: processors where known, else nodes, else each job is one."""
    known = jobs.select(cpus=(schema.size() > 0).any(), nodes=(pl.coalesce("nodes_alloc", "nodes_req") > 0).any())
    if known["cpus"].item():
        return "processors", schema.size()
    if known["nodes"].item():
        return "nodes", pl.coalesce("nodes_alloc", "nodes_req").cast(pl.Float64)
    return "jobs", pl.lit(1.0)


def _parts(trace: Trace, way: str, unit: str, amount: pl.Expr) -> tuple[list[Scope], list[str]]:
    kept, notes = _largest(trace.jobs, pl.col(way), way)
    sizes = _partition_sizes(trace) if (way, unit) == ("partition", "processors") else {}
    scopes = [
        Scope(way, name, unit, trace.jobs.filter(pl.col(way) == name), amount, _positive(sizes.get(name)))
        for name in kept
    ]
    return scopes, notes


def _pools(trace: Trace, gpu_jobs: pl.DataFrame) -> tuple[list[Scope], list[str]]:
    pool = pl.coalesce("gpu_type", "gpu_type_req", pl.lit(_ANY))
    kept, notes = _largest(gpu_jobs, pool, "pool")
    sizes = dict(trace.nodes.filter(pl.col("gpus") > 0).group_by("gpu_type").agg(pl.col("gpus").sum()).iter_rows())
    scopes = [
        Scope("pool", name, "GPUs", gpu_jobs.filter(pool == name), schema.gpus(), _positive(sizes.get(name)))
        for name in kept
    ]
    return scopes, notes


def _largest(jobs: pl.DataFrame, part: pl.Expr, way: str) -> tuple[list[str], list[str]]:
    counted = (
        jobs.select(part=part).drop_nulls().group_by("part").len().sort(["len", "part"], descending=[True, False])
    )
    names = counted["part"].to_list()
    if not names:
        raise UsageError(
            f"No job of this trace says its {way}",
            expected="a log that does",
            remedy="Leave out --by, or choose another way",
        )
    left_out = len(names) - MOST_PARTS
    notes = [f"{left_out:,} smaller parts of {way} are left out"] if left_out > 0 else []
    return names[:MOST_PARTS], notes


def _partition_sizes(trace: Trace) -> dict[str, float]:
    known = trace.nodes.select("cpus", "partitions").explode("partitions").drop_nulls()
    return dict(known.group_by("partitions").agg(pl.col("cpus").sum()).iter_rows())


def _positive(size: float | None) -> float | None:
    return float(size) if size is not None and 0 < size < float("inf") else None
