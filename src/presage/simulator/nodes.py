"""Nodes and the jobs to be placed on them, as arrays, made from a trace.

Amounts are integers: thousandths of a processor (rounded up for jobs, down for nodes), MiB, thousandths of a GPU.

A job is a gang of equal members: `tasks`, or `nodes_req` where the log knows no tasks, or one. What it asks for
(else what it was allocated, else nothing) is divided among them. Less than one GPU per member is a share of a
single GPU; one or more are whole GPUs of a single node, rounded up.

A resource that the table of nodes knows for no node at all is not modelled. GPU types bind only jobs that want
GPUs. Constraints bind only if the table of nodes knows features; they are names joined by `&` or `,`. Partitions
of nodes and times of service are not looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.errors import InputError
from presage.simulator.jobs import Jobs, jobs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from presage.simulator.jobs import FloatArray, IntArray, Knowledge
    from presage.traces import Trace

MOST_BITS = 62
"""How many GPU types, features and GPUs of one node the engine can tell apart."""
ANY_TYPE = -1
_MIB = 2**20
_EXACT = 6
"""Decimals that survive in a division; beyond is the noise of floating point."""


@dataclass(frozen=True)
class Nodes:
    """Arrays of one length, one entry per node."""

    cpu_milli: IntArray
    mem_mib: IntArray
    gpus: IntArray
    type_bit: IntArray
    """One bit each: 1 where the type is unknown or there are no GPUs."""
    features: IntArray
    rack: IntArray
    """Codes from 0; nodes of unknown rack share one."""

    def __len__(self) -> int:
        return len(self.cpu_milli)


@dataclass(frozen=True)
class PlacedJobs:
    """Jobs in submit order with what each of their members wants.

    `jobs.processors`, which rules and metrics count with, is the GPUs of the job if any job wants GPUs, else its
    processors; rounded up, at least 1.
    """

    jobs: Jobs
    tasks: IntArray
    cpu_milli: IntArray
    mem_mib: IntArray
    gpus: IntArray
    gpu_milli: IntArray
    """A share of one GPU; 0 where `gpus` is not."""
    gpu_types: IntArray
    """Mask of allowed types; ANY_TYPE is all."""
    features: IntArray
    """Mask of required features."""

    def __len__(self) -> int:
        return len(self.tasks)

    def select(self, rows: IntArray) -> PlacedJobs:
        """Return some of the jobs."""
        jobs = replace(self.jobs, **{name: getattr(self.jobs, name)[rows] for name in _arrays(self.jobs)})
        return replace(self, jobs=jobs, **{name: getattr(self, name)[rows] for name in _arrays(self)})


def _arrays(record: Jobs | PlacedJobs) -> list[str]:
    return [field.name for field in fields(record) if isinstance(getattr(record, field.name), np.ndarray)]


def placed_jobs_of(
    trace: Trace, *, order_by: Knowledge = "requested", plan_by: Knowledge = "requested", kill: bool = False
) -> tuple[PlacedJobs, Nodes]:
    """Return the jobs and nodes of a trace; options as in `jobs_of`.

    Raises InputError if the trace has no nodes, if jobs lack a submit or run time, or if types, features or
    constraints are more or other than the engine knows.
    """
    if not len(trace.nodes):
        raise InputError(
            "The trace has no table of nodes, so jobs cannot be placed",
            expected="a trace with nodes, for example a pod list read together with its node list",
            remedy="Add the nodes, or simulate on pooled processors",
        )
    types = _codes([*_alternatives(trace), *trace.nodes["gpu_type"].to_list()], "GPU types")
    required = [_required(text) for text in trace.jobs["constraint"]] if _knows_features(trace) else None
    features = _codes([name for names in required or [] for name in names], "features in constraints")
    nodes = _nodes(trace.nodes, types, features)
    table = _members(trace.jobs, nodes)
    size = "gpus" if (table["gpus"] > 0).any() else "cpus"
    sized = trace.jobs.with_columns(
        cpus_req=pl.Series((table[size] * table["tasks"]).round(_EXACT).ceil().clip(1)),
        cpus_alloc=pl.lit(None, pl.Float64),
    )
    share = table["gpus"].is_between(0, 1, closed="none")
    placed = PlacedJobs(
        jobs=jobs_of(replace(trace, jobs=sized), order_by=order_by, plan_by=plan_by, kill=kill),
        tasks=table["tasks"].to_numpy(),
        cpu_milli=_up(table["cpus"].to_numpy() * 1000),
        mem_mib=_up(table["mem_bytes"].to_numpy() / _MIB),
        gpus=_up(np.where(share, 0, table["gpus"])),
        gpu_milli=np.minimum(_up(np.where(share, table["gpus"] * 1000, 0)), 999),
        gpu_types=_type_masks(trace.jobs, types, (table["gpus"] > 0).to_numpy()),
        features=np.zeros(len(table), np.int64)
        if required is None
        else np.array([_mask(features, names) for names in required], np.int64),
    )
    return placed, nodes


def _members(jobs: pl.DataFrame, nodes: Nodes) -> pl.DataFrame:
    """Return what one member of each job wants, fractions and all."""
    tasks = pl.coalesce(_positive("tasks"), _positive("nodes_req"), pl.lit(1)).cast(pl.Int64)
    wants = {
        "cpus": pl.coalesce("cpus_req", "cpus_alloc") if nodes.cpu_milli.any() else pl.lit(0.0),
        "mem_bytes": pl.coalesce("mem_req_bytes", "mem_alloc_bytes") if nodes.mem_mib.any() else pl.lit(0.0),
        "gpus": pl.coalesce("gpus_req", "gpus_alloc"),
    }
    return jobs.select(
        tasks=tasks,
        **{name: (want.cast(pl.Float64).fill_null(0).clip(0) / tasks) for name, want in wants.items()},
    )


def _positive(column: str) -> pl.Expr:
    return pl.when(pl.col(column) > 0).then(column)


def _nodes(table: pl.DataFrame, types: dict[str, int], features: dict[str, int]) -> Nodes:
    gpus = _down(table["gpus"].fill_null(0).to_numpy())
    if gpus.max() > MOST_BITS:
        raise InputError(f"A node has {gpus.max():,} GPUs", expected=f"at most {MOST_BITS}")
    type_bit = [
        types[kind] if kind in types and count else 1 for kind, count in zip(table["gpu_type"], gpus, strict=True)
    ]
    known = table["features"].fill_null([]).to_list()
    return Nodes(
        cpu_milli=_down(table["cpus"].fill_null(0).to_numpy() * 1000),
        mem_mib=_down(table["mem_bytes"].fill_null(0).to_numpy() / _MIB),
        gpus=gpus,
        type_bit=np.array(type_bit, np.int64),
        features=np.array(
            [_mask(features, [name for name in names if name in features]) for names in known], np.int64
        ),
        rack=table["rack"].fill_null("").rank("dense").to_numpy().astype(np.int64) - 1,
    )


def _up(amounts: FloatArray) -> IntArray:
    return np.ceil(np.round(amounts, _EXACT)).astype(np.int64)


def _down(amounts: FloatArray) -> IntArray:
    return np.maximum(np.floor(np.round(amounts, _EXACT)), 0).astype(np.int64)


def _codes(names: Sequence[str | None], what: str) -> dict[str, int]:
    """Return a bit for each distinct name; the lowest bit stays free for what is unknown."""
    distinct = sorted({name for name in names if name})
    if len(distinct) >= MOST_BITS:
        raise InputError(f"The trace has {len(distinct):,} {what}", expected=f"fewer than {MOST_BITS}")
    return {name: 2 << number for number, name in enumerate(distinct)}


def _mask(codes: dict[str, int], names: Sequence[str]) -> int:
    return sum({codes[name] for name in names})


def _alternatives(trace: Trace) -> list[str]:
    wanted = trace.jobs["gpu_type_req"].drop_nulls().unique()
    return [name for text in wanted for name in text.split("|")]


def _type_masks(jobs: pl.DataFrame, types: dict[str, int], wants_gpus: NDArray[np.bool_]) -> IntArray:
    distinct = jobs["gpu_type_req"].drop_nulls().unique()
    masks = {text: _mask(types, [name for name in text.split("|") if name]) or ANY_TYPE for text in distinct}
    allowed = np.array([masks.get(text, ANY_TYPE) for text in jobs["gpu_type_req"]], np.int64)
    return np.where(wants_gpus, allowed, ANY_TYPE)


def _knows_features(trace: Trace) -> bool:
    return bool(trace.nodes["features"].fill_null([]).list.len().sum())


def _required(constraint: str | None) -> list[str]:
    if constraint is None:
        return []
    names = [name.strip() for name in re.split("[&,]", constraint)]
    if any(re.search(r"[|*!()\[\]\s]", name) for name in names):
        raise InputError(
            f"The constraint {constraint!r} is more than placement understands",
            expected="names of features joined by '&' or ','",
            remedy="Set the column 'constraint' to such names, or to null",
        )
    return [name for name in names if name]
