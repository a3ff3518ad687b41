"""Alibaba's spot-GPU trace of 2026: `node_info_df.csv` and `job_info_df.csv`.

Nodes and jobs read together make one trace with its machine. A job's processors and GPUs are those of one
worker times its workers. Spot jobs may be preempted, the others (HP) not. Times count from the first
submission; there are no waits and no outcomes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import Cells, delimited, header
from presage.traces.readers._times import OWN_ZERO

if TYPE_CHECKING:
    import polars as pl

    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

_NODE_COLUMNS = {"node_name", "gpu_model", "gpu_capacity_num", "cpu_num"}
_JOB_COLUMNS = {"job_name", "organization", "gpu_model", "gpu_request", "worker_num", "submit_time", "job_type"}


class Alibaba2026Reader(Reader):
    """Nodes and jobs of Alibaba's spot-GPU trace of 2026."""

    format = "alibaba-2026"

    def match(self, head: Head) -> int:
        columns = header(head)
        return SURE if columns >= _NODE_COLUMNS or columns >= _JOB_COLUMNS else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        into.describe(
            absolute_time=False,
            acknowledgement="Duan et al., GFS, ASPLOS 2026 (alibaba/clusterdata)",
        )
        rows = 0
        for cells in delimited(source, into):
            rows += len(cells.table)
            if "node_name" in cells:
                into.add_nodes(_nodes(cells))
            else:
                into.note(OWN_ZERO)
                into.add_jobs(_jobs(cells))
        return rows


def _nodes(cells: Cells) -> pl.DataFrame:
    return cells.frame(
        node_id=cells.required("node_name"),
        cpus=cells.count("cpu_num"),
        gpus=cells.count("gpu_capacity_num"),
        gpu_type=cells.text("gpu_model"),
    )


def _jobs(cells: Cells) -> pl.DataFrame:
    workers = cells.integer("worker_num")
    kind = cells.text("job_type")
    return cells.frame(
        job_id=cells.required("job_name"),
        kind=kind,
        account=cells.text("organization"),
        submit_ms=cells.epoch_ms("submit_time"),
        run_s=cells.seconds("duration"),
        cpus_req=cells.count("cpu_request") * workers.fill_null(1),
        tasks=workers,
        gpus_req=cells.count("gpu_request") * workers.fill_null(1),
        gpu_type_req=cells.text("gpu_model"),
        preemptible=kind == "Spot",
    )
