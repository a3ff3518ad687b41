"""Alibaba's GPU cluster trace v2023 ("openb"): lists of pods and lists of nodes, as CSV.

A pod list and a node list read together make one trace with its machine. Times are seconds from the trace's own
zero. Pod lists without times (the `multigpu` variants) give jobs without times.

A pod's wait ends when it is scheduled, its run when it is deleted. Its phase is what it was in when it was
deleted:

* `Succeeded` and `Failed` say how it ended.
* `Pending` pods were taken away before they were scheduled: cancelled.
* `Running` pods were deleted while they ran, which may be their owner's wish or an eviction: the outcome is
  unknown. Those that go in the very last second of the log, several at once, outlive the log: still running,
  without an end.
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

_POD_COLUMNS = {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}
_NODE_COLUMNS = {"sn", "cpu_milli", "memory_mib", "gpu", "model"}
_MIB = 2**20
_MISSING = ("nan",)  # as pandas writes it
_OUTCOMES = {"Succeeded": Outcome.COMPLETED, "Failed": Outcome.FAILED, "Pending": Outcome.CANCELLED}


class OpenbReader(Reader):
    """Pod and node lists of Alibaba's GPU cluster trace v2023."""

    format = "openb"
    scheduler = "kubernetes"

    def match(self, head: Head) -> int:
        columns = header(head)
        return SURE if columns >= _POD_COLUMNS or columns >= _NODE_COLUMNS else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        into.describe(
            absolute_time=False,
            acknowledgement="Weng et al., Beware of Fragmentation, USENIX ATC 2023 (alibaba/clusterdata)",
        )
        rows = 0
        pods: list[pl.DataFrame] = []
        for cells in delimited(source, into, missing=_MISSING):
            rows += len(cells.table)
            if "sn" in cells:
                into.add_nodes(_nodes(cells))
            else:
                pods.append(_pods(cells))
        if pods:
            into.note(OWN_ZERO)
            into.add_jobs(with_spans(_with_last_moment(pl.concat(pods), into), into))
        return rows


def _nodes(cells: Cells) -> pl.DataFrame:
    return cells.frame(
        node_id=cells.required("sn"),
        cpus=cells.count("cpu_milli") / 1000,
        mem_bytes=cells.bytes("memory_mib", unit=_MIB),
        gpus=cells.count("gpu"),
        gpu_type=cells.text("model"),
    )


def _pods(cells: Cells) -> pl.DataFrame:
    whole_gpus = cells.count("num_gpu")
    shared_gpu = cells.count("gpu_milli") / 1000
    deleted_ms = cells.epoch_ms("deletion_time")
    return cells.frame(
        job_id=cells.required("name"),
        qos=cells.text("qos"),
        submit_ms=cells.epoch_ms("creation_time"),
        start_ms=cells.epoch_ms("scheduled_time"),
        end_ms=deleted_ms,
        cpus_req=cells.count("cpu_milli") / 1000,
        nodes_req=pl.lit(1),
        tasks=pl.lit(1),
        gpus_req=pl.when(whole_gpus == 1).then(pl.coalesce(shared_gpu, whole_gpus)).otherwise(whole_gpus),
        gpu_type_req=cells.text("gpu_spec"),
        mem_req_bytes=cells.bytes("memory_mib", unit=_MIB),
        outcome=cells.outcome("pod_phase", _OUTCOMES),
        status=cells.text("pod_phase"),
    )


def _with_last_moment(pods: pl.DataFrame, into: TraceBuilder) -> pl.DataFrame:
    """Return the pods with those that outlive the log marked as running."""
    running = pl.col("status") == "Running"
    last = running & (pl.col("end_ms") == pl.col("end_ms").max())
    alive = pods.select(last.sum()).item()
    ended = pods.select((running & pl.col("end_ms").is_not_null()).sum()).item() - alive
    if ended:
        into.note("pods deleted while they ran have an end and no outcome: the log does not say who deleted them")
    if alive < 2:  # a sample of the log need not reach its end
        return pods
    into.count(still_running=alive)
    return pods.with_columns(
        end_ms=pl.when(last.not_().fill_null(True)).then("end_ms"),
        outcome=pl.when(last).then(pl.lit(Outcome.RUNNING.value, OUTCOME)).otherwise("outcome"),
    )
