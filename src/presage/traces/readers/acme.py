"""Shanghai AI Lab's Acme clusters, 2023: `trace_seren.csv` (Slurm) and `trace_kalos.csv` (Kubernetes).

Times carry their zone. Run times are end - start: Kalos' own `duration` counts from the submission. Kalos gives
the memory of one pod and runs one pod per node, so a job's memory is that times its nodes; the unit of its
shared memory is not documented and stays a leftover. `gpu_time` repeats what `duration` and `gpu_num` say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import Cells, delimited, header
from presage.traces.readers._spans import with_spans
from presage.traces.readers.helios import STATES

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

_COLUMNS = {
    "job_id",
    "user",
    "node_num",
    "gpu_num",
    "cpu_num",
    "type",
    "state",
    "submit_time",
    "queue",
    "gpu_time",
}
_POD_MEMORY = "mem_per_pod_GB"
_MISSING = ("None", "NaT", "nan")
_GB = 10**9


class AcmeReader(Reader):
    """Job traces of the Acme clusters Seren and Kalos."""

    format = "acme"

    def match(self, head: Head) -> int:
        return SURE if header(head) >= _COLUMNS else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        rows = 0
        for cells in delimited(source, into, missing=_MISSING):
            rows += len(cells.table)
            kalos = _POD_MEMORY in cells
            _describe(into, kalos=kalos)
            into.add_jobs(with_spans(_kalos_jobs(cells) if kalos else _seren_jobs(cells), into))
        return rows


def _describe(into: TraceBuilder, *, kalos: bool) -> None:
    into.describe(
        scheduler="kubernetes" if kalos else "slurm",
        time_zone="Asia/Shanghai",
        licence="CC-BY-4.0",
        acknowledgement="Hu et al., Characterization of Large Language Model Development, USENIX NSDI 2024",
    )
    if kalos:
        into.note("Kalos: run times are end - start, because the log's durations count from the submission")


def _seren_jobs(cells: Cells) -> pl.DataFrame:
    return cells.frame(**_common(cells, "seren"), end_ms=cells.local_ms("end_time"))


def _kalos_jobs(cells: Cells) -> pl.DataFrame:
    pods = cells.integer("node_num")
    mem_bytes = (cells.count(_POD_MEMORY) * _GB * pods.fill_null(1)).round().cast(pl.Int64, strict=False)
    ends = [cells.local_ms(name) for name in ("end_time", "fail_time", "stop_time")]
    return cells.frame(
        **_common(cells, "kalos"),
        end_ms=pl.coalesce(ends),
        tasks=pods,
        mem_req_bytes=cells.checked(_POD_MEMORY, mem_bytes, "not a size in memory"),
        x_shared_mem_per_pod=cells.count("shared_mem_per_pod"),
    )


def _common(cells: Cells, cluster: str) -> dict[str, pl.Expr]:
    return {
        "job_id": cells.required("job_id"),
        "kind": cells.text("type"),
        "user": cells.text("user"),
        "cluster": pl.lit(cluster),
        "submit_ms": cells.local_ms("submit_time"),
        "start_ms": cells.local_ms("start_time"),
        "cpus_req": cells.count("cpu_num"),
        "gpus_req": cells.count("gpu_num"),
        "nodes_alloc": cells.integer("node_num"),
        "outcome": cells.outcome("state", STATES),
        "status": cells.text("state"),
    }
