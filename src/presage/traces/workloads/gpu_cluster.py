"""A model of GPU clusters: fractions of a GPU, whole ones, gangs over many nodes, GPU types, heavy tails.

Two presets carry the statistics of two public logs (see `_gpu_presets`). `openb` is a Kubernetes cluster of many
GPU types whose pods mostly share a GPU or take one; `philly` is a training cluster of virtual clusters whose
jobs are gangs of up to 128 GPUs.

A job is a group's request drawn from a table; run time is drawn from the quantiles of its size class; the
outcome depends on the class and on how long the run is for its class. `tasks` are the members of the gang, one
per node; `gpus_req`, `cpus_req` and `mem_req_bytes` are of the whole job. Requests that no nodes of the machine
could hold are left out of the table, so every job can be placed on the empty machine.

What it leaves out: jobs do not come in bursts of one user, and their run times do not depend on the user.
Users are ours, because neither log has them: a Zipf law within each virtual cluster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import polars as pl

from presage.traces.manifest import Machine
from presage.traces.schema import OUTCOME, Outcome
from presage.traces.workloads._arrivals import SLOTS_PER_DAY
from presage.traces.workloads._base import MAX_LOAD, Draws, WorkloadModel, zipf_ranks
from presage.traces.workloads._gpu_presets import PRESETS, PROBABILITIES, NodeType, Preset, Shape, SizeClass
from presage.traces.workloads._parameters import parameter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from presage.traces.workloads._arrivals import FloatArray

GIB = 1 << 30
MIB = 1 << 20
_ENDINGS = (Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED)


@dataclass(frozen=True)
class _Entry:
    """One row of the table that jobs are drawn from."""

    group: str
    shape: Shape
    members: int
    types: tuple[float, ...]
    """Weights of the preset's GPU types, 0 for those that this machine could not give to this job."""


@dataclass(frozen=True, kw_only=True)
class GpuClusterModel(WorkloadModel):
    """Jobs of a GPU cluster with gangs, GPU types and GPU sharing, after openb (2023) or Philly (2017)."""

    name: ClassVar[str] = "gpu-cluster"
    resource: ClassVar[Literal["cpus", "gpus"]] = "gpus"

    # The logs are samples of what their clusters did: their own pace would leave the machine idle.
    load: float | None = parameter(
        0.7,
        "offered load: GPU time of all jobs / (GPUs x time from first to last submit); none: the log's own pace",
        above=0,
        maximum=MAX_LOAD,
    )
    preset: str = parameter(
        "openb", "whose statistics: openb (Alibaba) or philly (Microsoft)", choices=tuple(PRESETS)
    )
    nodes: int | None = parameter(
        None,
        "nodes of the machine, in the mix of the log; none: as many as the log has",
        minimum=1,
        maximum=1_000_000,
    )
    nodes_per_rack: int = parameter(16, "nodes in a rack (ours)", minimum=1, maximum=100_000)
    typed_share: float | None = parameter(
        None, "share of GPU jobs that ask for a GPU type; none: as published", minimum=0, maximum=1
    )
    users: int = parameter(
        200, "users (ours), spread over the virtual clusters; 0: none", minimum=0, maximum=10_000_000
    )
    user_exponent: float = parameter(1.0, "of the Zipf law of the users' shares (ours)", minimum=0, maximum=5)

    def machine(self) -> Machine:
        nodes = self.node_table()
        cpus, mem_bytes = nodes["cpus"], nodes["mem_bytes"]
        return Machine(
            nodes=len(nodes),
            cpus=None if cpus.has_nulls() else float(cpus.sum()),
            gpus=float(nodes["gpus"].sum()),
            mem_bytes=None if mem_bytes.has_nulls() else int(mem_bytes.sum()),
        )

    def node_table(self) -> pl.DataFrame:
        kinds = [kind for kind, count in self._counts for _ in range(count)]
        numbers = range(len(kinds))
        return pl.DataFrame(
            {
                "node_id": [f"node{number:05d}" for number in numbers],
                "node_type": [kind.name for kind in kinds],
                "cpus": pl.Series([kind.cpus for kind in kinds], dtype=pl.Float64),
                "mem_bytes": pl.Series([kind.mem_mib and kind.mem_mib * MIB for kind in kinds], dtype=pl.Int64),
                "gpus": pl.Series([kind.gpus for kind in kinds], dtype=pl.Float64),
                "gpu_type": pl.Series([kind.gpu_type for kind in kinds], dtype=pl.String),
                "gpu_mem_bytes": pl.Series(
                    [kind.gpu_mem_gib and kind.gpu_mem_gib * GIB for kind in kinds], dtype=pl.Int64
                ),
                "rack": [f"rack{number // self.nodes_per_rack:04d}" for number in numbers],
            }
        )

    def week(self) -> FloatArray:
        hours = np.repeat(self._measured.hours, SLOTS_PER_DAY // 24).astype(np.float64)
        weights = np.outer(self._measured.weekdays, hours).ravel()
        return weights / float(weights.mean())

    def notes(self) -> tuple[str, ...]:
        said = [f"statistics of the log {self.preset}; gang members are one per node"]
        if self.users:
            said.append("users are not the log's: a Zipf law within each virtual cluster")
        if self.preset == "philly":
            said.append("the log has no processors, no memory and no outcomes; the outcomes follow its paper")
        return tuple(said)

    def draw_gaps_s(self, draws: Draws, count: int) -> FloatArray:
        gaps = at_quantiles(draws("gap").random(count), self._measured.gaps)
        return gaps * (self._measured.gap_s / quantile_mean(self._measured.gaps))

    def draw_jobs(self, draws: Draws, count: int) -> pl.DataFrame:
        entry = _places(draws("request").random(count), [row.shape.jobs for row in self._entries])
        kind = np.array([self._class_of(row.shape.gpus) for row in self._entries])[entry]
        run_s, ending = self._draw_runs(draws, kind)
        requests = self._requests[entry]
        return requests.with_columns(
            run_s=pl.Series(run_s),
            outcome=pl.Series(ending).replace_strict(
                dict(enumerate(ending.value for ending in _ENDINGS)), return_dtype=OUTCOME
            ),
            gpu_type_req=self._draw_types(draws, entry),
            qos=self._draw_qos(draws, kind),
            user=self._draw_users(draws, requests["partition"]),
        )

    @property
    def _measured(self) -> Preset:
        return PRESETS[self.preset]

    @cached_property
    def _counts(self) -> list[tuple[NodeType, int]]:
        kinds = self._measured.nodes
        total = self.nodes or sum(kind.number for kind in kinds)
        return list(zip(kinds, apportion(total, [kind.number for kind in kinds]), strict=True))

    @cached_property
    def _entries(self) -> tuple[_Entry, ...]:
        """The requests that this machine can hold."""
        found = []
        for group, shapes in self._measured.groups.items():
            for shape in shapes:
                members = self._members(shape)
                if self._holds(shape, members):
                    found.append(_Entry(group, shape, members, self._types_for(shape, members)))
        return tuple(found)

    def _members(self, shape: Shape) -> int:
        widest = max((kind.gpus for kind, count in self._counts if count), default=0)
        return max(1, math.ceil(shape.gpus / widest)) if self._measured.gangs and widest else 1

    def _holds(self, shape: Shape, members: int, types: str | None = None) -> bool:
        wanted = types.split("|") if types else None
        able = sum(
            count
            for kind, count in self._counts
            if kind.gpus * members >= shape.gpus
            and (wanted is None or kind.gpu_type in wanted)
            and (kind.cpus is None or shape.cpus is None or kind.cpus * members >= shape.cpus)
            and (kind.mem_mib is None or shape.mem_mib is None or kind.mem_mib * members >= shape.mem_mib)
        )
        return able >= members

    def _types_for(self, shape: Shape, members: int) -> tuple[float, ...]:
        return tuple(
            share if shape.gpus and self._holds(shape, members, types) else 0.0
            for types, share in self._measured.types
        )

    @cached_property
    def _requests(self) -> pl.DataFrame:
        rows = self._entries
        return pl.DataFrame(
            {
                "partition": pl.Series([row.group or None for row in rows], dtype=pl.String),
                "gpus_req": pl.Series([row.shape.gpus for row in rows], dtype=pl.Float64),
                "cpus_req": pl.Series([row.shape.cpus for row in rows], dtype=pl.Float64),
                "mem_req_bytes": pl.Series(
                    [row.shape.mem_mib and row.shape.mem_mib * MIB for row in rows], dtype=pl.Int64
                ),
                "tasks": pl.Series([row.members for row in rows], dtype=pl.Int64),
                "nodes_req": pl.Series([row.members for row in rows], dtype=pl.Int64),
            }
        )

    def _class_of(self, gpus: float) -> int:
        return next(i for i, kind in enumerate(self._measured.classes) if gpus <= kind.gpus)

    def _draw_runs(self, draws: Draws, kind: NDArray[np.int64]) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return the run times and the places of the outcomes in `_ENDINGS`, by class."""
        rank = draws("run").random(len(kind))
        chance = draws("outcome").random(len(kind))
        run_s = np.empty(len(kind))
        ending = np.empty(len(kind), dtype=np.int64)
        for i, measured in enumerate(self._measured.classes):
            mine = kind == i
            run_s[mine] = at_quantiles(rank[mine], measured.run_s)
            ending[mine] = _endings(rank[mine], chance[mine], measured)
        return np.maximum(np.floor(run_s), 1), ending

    def _draw_types(self, draws: Draws, entry: NDArray[np.int64]) -> pl.Series:
        share = self._measured.typed_share if self.typed_share is None else self.typed_share
        typed = draws("typed").random(len(entry)) < share
        rank = draws("type").random(len(entry))
        code = np.full(len(entry), -1)
        for weights in {row.types for row in self._entries if any(row.types)}:
            mine = typed & np.array([row.types == weights for row in self._entries])[entry]
            code[mine] = _places(rank[mine], weights)
        return _labels(code, [types for types, _ in self._measured.types])

    def _draw_qos(self, draws: Draws, kind: NDArray[np.int64]) -> pl.Series:
        rank = draws("qos").random(len(kind))
        names = sorted({name for measured in self._measured.classes for name, _ in measured.qos})
        code = np.full(len(kind), -1)
        for i, measured in enumerate(self._measured.classes):
            if measured.qos:
                mine = kind == i
                weights = dict(measured.qos)
                code[mine] = _places(rank[mine], [weights.get(name, 0.0) for name in names])
        return _labels(code, names)

    def _draw_users(self, draws: Draws, partition: pl.Series) -> pl.Series:
        if not self.users:
            return pl.repeat(None, len(partition), dtype=pl.String, eager=True)
        per_group = max(1, self.users // len(self._measured.groups))
        ranks = pl.Series(zipf_ranks(draws("user"), len(partition), per_group, self.user_exponent))
        prefix = pl.Series(partition + "-").fill_null("")
        return pl.select(pl.format("{}user{}", prefix, ranks)).to_series()


def at_quantiles(rank: FloatArray, values: Sequence[float]) -> FloatArray:
    """Return what stands at each rank between 0 and 1 in a table of quantiles at `PROBABILITIES`."""
    return np.exp(np.interp(rank, PROBABILITIES, np.log(values)))


def quantile_mean(values: Sequence[float]) -> float:
    """Return the mean of what `at_quantiles` gives for ranks that are uniform."""
    table, shares = np.asarray(values, dtype=np.float64), np.diff(PROBABILITIES)
    growth = np.log(table[1:] / table[:-1])
    flat = growth < 1e-12
    means = np.where(flat, table[1:], np.diff(table) / np.where(flat, 1.0, growth))
    return float((means * shares).sum())


def apportion(total: int, weights: Sequence[float]) -> list[int]:
    """Return whole numbers that add up to `total`, as near to the proportion of `weights` as can be."""
    exact = np.asarray(weights, dtype=np.float64) * total / sum(weights)
    whole = np.floor(exact).astype(np.int64)
    for place in np.argsort(whole - exact, kind="stable")[: total - int(whole.sum())]:
        whole[place] += 1
    return [int(number) for number in whole]


def _endings(rank: FloatArray, chance: FloatArray, measured: SizeClass) -> NDArray[np.int64]:
    """Return the places in `_ENDINGS` for runs of these ranks within their class."""
    early, late = measured.failed_early, measured.cancelled_late
    failed = measured.failed * early * (1 - rank) ** (early - 1)
    cancelled = (1 - failed) * measured.cancelled * late * rank ** (late - 1)
    ending: NDArray[np.int64] = np.select([chance < failed, chance < failed + cancelled], [1, 2], default=0)
    return ending


def _places(rank: FloatArray, weights: Sequence[float]) -> NDArray[np.int64]:
    """Return for ranks between 0 and 1 which of the weighted places they fall on."""
    bounds = np.cumsum(np.asarray(weights, dtype=np.float64))
    places: NDArray[np.int64] = np.searchsorted(bounds / bounds[-1], rank, side="right")
    return np.minimum(places, len(bounds) - 1)


def _labels(code: NDArray[np.int64], names: Sequence[str]) -> pl.Series:
    """Return the names of the codes, null for -1."""
    return pl.Series(names, dtype=pl.String).gather(pl.Series(code).replace(-1, None))
