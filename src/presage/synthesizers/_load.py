"""How much work a trace offers to its machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import polars as pl

if TYPE_CHECKING:
    from presage.synthesizers.columns import IntArray
    from presage.traces.manifest import Machine


Resource = Literal["cpus_req", "cpus_alloc", "gpus_req", "nodes_req"]


def resource_of(jobs: pl.DataFrame, machine: Machine) -> Resource | None:
    """Return the column that the load counts: the first that both have of GPUs, processors and nodes."""
    if machine.gpus and _known(jobs, "gpus_req"):
        return "gpus_req"
    if machine.cpus and _known(jobs, "cpus_alloc"):
        return "cpus_alloc"
    if machine.cpus and _known(jobs, "cpus_req"):
        return "cpus_req"
    return "nodes_req" if machine.nodes and _known(jobs, "nodes_req") else None


def capacity_of(machine: Machine, resource: Resource) -> float:
    """Return how much a machine has of what `resource_of` found."""
    sizes = {"gpus_req": machine.gpus, "nodes_req": machine.nodes}
    return float(sizes.get(resource, machine.cpus) or 0.0)


def offered_load(jobs: pl.DataFrame, submit_ms: IntArray, machine: Machine) -> float | None:
    """Return work of all jobs / (machine x time from first to last submit); None where it cannot be known."""
    resource = resource_of(jobs, machine)
    span_s = (int(submit_ms[-1]) - int(submit_ms[0])) / 1000
    if resource is None or span_s <= 0:
        return None
    work_s = jobs.select((pl.col(resource) * pl.col("run_s")).sum()).item()
    return float(work_s) / (capacity_of(machine, resource) * span_s)


def _known(jobs: pl.DataFrame, column: str) -> bool:
    return column in jobs.columns and jobs[column].null_count() < len(jobs)
