"""SenseTime's Helios GPU clusters, 2020: `cluster_log.csv` and `cluster_gpu_number.csv` of one cluster or more.

Times are local and neither the files nor their documentation name the zone: they are read in the zone of the
read options. Job ids are unique within one cluster; the cluster is known when the file lies in the folder that
the published data set gives it. The daily GPU counts tell the machine's size: its largest day.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from presage.traces.manifest import Machine
from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import Cells, delimited, header
from presage.traces.readers._spans import with_spans
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

CLUSTERS = ("Earth", "Saturn", "Uranus", "Venus")
STATES = {
    "COMPLETED": Outcome.COMPLETED,
    "CANCELLED": Outcome.CANCELLED,
    "FAILED": Outcome.FAILED,
    "TIMEOUT": Outcome.TIMEOUT,
    "NODE_FAIL": Outcome.NODE_FAILURE,
}
"""What Slurm's words mean; also used in the Acme traces. `SUSPENDED`, seen once, says nothing of the end."""
_COLUMNS = {"job_id", "user", "vc", "gpu_num", "cpu_num", "node_num", "state", "submit_time", "duration", "queue"}
_MISSING = ("None", "NaT", "nan", "Unknown")


class HeliosReader(Reader):
    """Job logs and daily GPU counts of the Helios clusters."""

    format = "helios"
    scheduler = "slurm"

    def match(self, head: Head) -> int:
        columns = header(head)
        return SURE if columns >= _COLUMNS or _is_gpu_count(columns) else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        rows = 0
        for cells in delimited(source, into, missing=_MISSING):
            rows += len(cells.table)
            if _is_gpu_count(set(cells.table.columns)):
                _read_gpu_counts(cells, into)
            else:
                _describe(into)
                into.add_jobs(with_spans(_jobs(cells, _cluster(source)), into))
        return rows


def _is_gpu_count(columns: set[str]) -> bool:
    return {"date", "total"} < columns and any(name.startswith("vc") for name in columns)


def _describe(into: TraceBuilder) -> None:
    into.describe(
        time_zone=into.options.time_zone,
        licence="CC-BY-4.0",
        acknowledgement="Hu et al., Characterization and Prediction of Deep Learning Workloads, SC 2021",
    )
    if into.options.time_zone is None:
        into.note("the log's local times carry no zone and were read as UTC")


def _cluster(source: Source) -> str | None:
    folder = source.path.resolve().parent.name if source.path else ""
    return folder if folder in CLUSTERS else None


def _read_gpu_counts(cells: Cells, into: TraceBuilder) -> None:
    most = cells.frame(total=cells.count("total"))["total"].max()
    if isinstance(most, float):
        into.describe(machine=Machine(gpus=most))
        into.note("the machine's GPUs are those of its largest day; their number changed over time")


def _jobs(cells: Cells, cluster: str | None) -> pl.DataFrame:
    return cells.frame(
        job_id=cells.required("job_id"),
        user=cells.text("user"),
        cluster=pl.lit(cluster, pl.String),
        partition=cells.text("vc"),
        submit_ms=cells.local_ms("submit_time"),
        start_ms=cells.local_ms("start_time"),
        end_ms=cells.local_ms("end_time"),
        cpus_req=cells.count("cpu_num"),
        gpus_req=cells.count("gpu_num"),
        nodes_alloc=cells.integer("node_num"),
        outcome=cells.outcome("state", STATES),
        status=cells.text("state"),
    )
