"""The machine that is wanted, and jobs of the size that they would have on it.

A machine of another size has more or fewer of the same nodes: processors, tasks and nodes of its jobs go together.
GPUs go by themselves, because a log may know them alone. Memory stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from presage.errors import UsageError
from presage.synthesizers.columns import SIZE

if TYPE_CHECKING:
    from presage.synthesizers.columns import Columns
    from presage.traces.manifest import Machine

COUNTED = {"processors": SIZE, "nodes": "nodes_req", "gpus": "gpus_req"}
"""What a machine is counted in → the column of jobs that counts the same."""
WORDS = {"processors": "processors", "nodes": "nodes", "gpus": "GPUs"}
_WITH_NODES = ("cpus_req", "cpus_alloc", "tasks", "nodes_req")


@dataclass(frozen=True)
class Sizing:
    """The wanted machine, and how much larger or smaller jobs are there than in the log."""

    machine: Machine
    nodes: float = 1.0
    """The factor of processors, tasks and nodes."""
    gpus: float = 1.0

    def resized(self, jobs: pl.DataFrame) -> pl.DataFrame:
        """Return the jobs as they would be on the machine; what is less than one, like half a GPU, stays."""
        factors = {**dict.fromkeys(_WITH_NODES, self.nodes), "gpus_req": self.gpus}
        most = {"cpus_req": self.machine.cpus, "cpus_alloc": self.machine.cpus, "tasks": self.machine.cpus,
                "nodes_req": self.machine.nodes, "gpus_req": self.machine.gpus}  # fmt: skip
        changed = [name for name in factors if name in jobs.columns and factors[name] != 1]
        return jobs.with_columns(
            _scaled(name, factors[name], most[name]).cast(jobs[name].dtype) for name in changed
        )


def sizing_of(
    columns: Columns, machine: Machine, *, processors: int | None, nodes: int | None, gpus: int | None
) -> Sizing:
    """Return what the log's jobs and its `machine` become where a machine of these sizes is wanted.

    Raises UsageError for a size that the jobs do not have, and for one on which they do not fit where that of the
    log is unknown.
    """
    wanted = {"processors": processors, "nodes": nodes, "gpus": gpus}
    known = {"processors": machine.cpus, "nodes": machine.nodes, "gpus": machine.gpus}
    factors = {
        name: _factor(columns, name, size, known[name]) for name, size in wanted.items() if size is not None
    }
    if "processors" in factors and "nodes" in factors:
        _check_alike(factors["processors"], factors["nodes"])
    same = factors.get("processors", factors.get("nodes", 1.0))
    if processors is not None or nodes is not None:
        machine = replace(
            machine,
            cpus=_size(processors, machine.cpus, same),
            nodes=None if (count := _size(nodes, machine.nodes, same)) is None else int(count),
            mem_bytes=machine.mem_bytes if same == 1 else None,
        )
    if gpus is not None:
        machine = replace(machine, gpus=float(gpus))
    return Sizing(machine, same, factors.get("gpus", 1.0))


def counted_in(columns: Columns) -> list[str]:
    """Return what the jobs are counted in: any of `COUNTED`."""
    return [name for name, column in COUNTED.items() if _widest(columns, column) is not None]


def _factor(columns: Columns, name: str, size: int, before: float | None) -> float:
    widest = _widest(columns, COUNTED[name])
    if widest is None:
        others = [f"--{other}" for other in counted_in(columns)]
        raise UsageError(
            f"The jobs of this model have no {WORDS[name]}",
            expected=f"{' or '.join(others)} for a machine of another size" if others else "jobs that have a size",
            remedy=f"Leave --{name} out",
        )
    if before:
        return size / before
    if widest > size:
        raise UsageError(
            f"The log's machine is of unknown size and has jobs of {widest:,g} {WORDS[name]}",
            expected="a machine that its jobs fit on",
            remedy=f"Say --{name} {widest:.0f} or more, or say the size of the log's machine in training",
        )
    return 1.0


def _check_alike(processors: float, nodes: float) -> None:
    if abs(processors / nodes - 1) > 0.01:
        raise UsageError(
            f"Processors would be {processors:.3g} times as many and nodes {nodes:.3g} times",
            expected="more or fewer of the same nodes",
            remedy="Say one of --processors and --nodes",
        )


def _size(wanted: int | None, before: float | None, factor: float) -> float | None:
    if wanted is not None:
        return float(wanted)
    return None if before is None else max(float(round(before * factor)), 1.0)


def _scaled(name: str, factor: float, most: float | None) -> pl.Expr:
    size = pl.col(name)
    scaled = (size * factor).round().clip(1.0, most)
    return pl.when(size >= 1).then(scaled).otherwise(size)


def _widest(columns: Columns, column: str) -> float | None:
    """Return the largest size in a column that jobs of the model may have; None where they have none."""
    category = columns.category(column)
    labels = category.labels if category is not None else (columns.constants.get(column),)
    return max((float(label) for label in labels if label is not None), default=None)
