"""Alibaba's GPU trace v2025: instances of inference services whose CPU and GPU parts run on different nodes.

An instance is a job of its own; `name` is its service, `kind` its role (CN: processors, HN: a GPU). Times count
from the trace's zero: no creation means that it was there before, no deletion that it outlived the trace and is
running. Services end by being deleted, so a deleted instance has an end and no outcome. What one node may hold
of a service, network share and disk are leftovers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import Cells, delimited, header
from presage.traces.readers._spans import with_spans
from presage.traces.readers._times import OWN_ZERO
from presage.traces.schema import OUTCOME, Outcome

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

_COLUMNS = {
    "instance_sn",
    "role",
    "app_name",
    "cpu_request",
    "gpu_request",
    "max_instance_per_node",
    "creation_time",
}
_MISSING = ("NaN", "nan")
_GIB = 2**30


class Alibaba2025Reader(Reader):
    """Instances of Alibaba's GPU trace v2025."""

    format = "alibaba-2025"

    def match(self, head: Head) -> int:
        return SURE if header(head) >= _COLUMNS else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        into.describe(
            absolute_time=False,
            acknowledgement="Yang et al., GPU-Disaggregated Serving, USENIX NSDI 2025 (alibaba/clusterdata)",
        )
        into.note(OWN_ZERO)
        rows = 0
        for cells in delimited(source, into, missing=_MISSING):
            rows += len(cells.table)
            into.add_jobs(with_spans(_instances(cells), into))
        return rows


def _instances(cells: Cells) -> pl.DataFrame:
    end_ms = cells.epoch_ms("deletion_time")
    density = cells.integer("max_instance_per_node")
    return cells.frame(
        job_id=cells.required("instance_sn"),
        name=cells.text("app_name"),
        kind=cells.text("role"),
        submit_ms=cells.epoch_ms("creation_time"),
        start_ms=cells.epoch_ms("scheduled_time"),
        end_ms=end_ms,
        cpus_req=cells.count("cpu_request"),
        nodes_req=pl.lit(1),
        tasks=pl.lit(1),
        gpus_req=cells.count("gpu_request"),
        mem_req_bytes=cells.bytes("memory_request", unit=_GIB),
        outcome=pl.when(end_ms.is_null()).then(pl.lit(Outcome.RUNNING.value, OUTCOME)),
        x_max_per_node=pl.when(density >= 0).then(density),
        x_rdma_percent=cells.count("rdma_request"),
        x_disk_bytes=cells.bytes("disk_request", unit=_GIB),
    )
