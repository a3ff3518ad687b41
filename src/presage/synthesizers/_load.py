"""How much work a trace offers to its machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import polars as pl

if TYPE_CHECKING:
    from presage.synthesizers.columns import IntArray
    from presage.traces.manifest import Machine


def resource_of(jobs: pl.DataFrame, machine: Machine) -> Literal["cpus_req", "cpus_alloc", "gpus_req"] | None:
    """Return the column that the load counts: GPUs where jobs and machine have them, else processors."""
    if machine.gpus and _known(jobs, "gpus_req"):
        return "gpus_req"
    if not machine.cpus:
        return None
    return "cpus_alloc" if _known(jobs, "cpus_alloc") else "cpus_req" if _known(jobs, "cpus_req") else None


def offered_load(jobs: pl.DataFrame, submit_ms: IntArray, machine: Machine) -> float | None:
    """Return work of all jobs / (machine x time from first to last submit); None where it cannot be known."""
    resource = resource_of(jobs, machine)
    capacity = machine.gpus if resource == "gpus_req" else machine.cpus
    span_s = (int(submit_ms[-1]) - int(submit_ms[0])) / 1000
    if resource is None or not capacity or span_s <= 0:
        return None
    work_s = jobs.select((pl.col(resource) * pl.col("run_s")).sum()).item()
    return float(work_s) / (capacity * span_s)


def _known(jobs: pl.DataFrame, column: str) -> bool:
    return column in jobs.columns and jobs[column].null_count() < len(jobs)
