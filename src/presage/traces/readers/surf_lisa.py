"""Task tables of the OpenDC simulator as Parquet, as the month of SURF's Lisa cluster comes.

Columns: id, submission_time (ms), duration (ms), cpu_count, cpu_capacity (MHz), mem_capacity (MB), deferrable,
deadline (ms). There are no waits and no users. The last two are OpenDC's additions and not the cluster's, so they
are kept under `x_`, and no job has a deadline.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import polars as pl

from presage.errors import UnreadableSourceError
from presage.traces.files import reading_parquet
from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import MAX_EPOCH_S

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

_MAGIC = b"PAR1"
_MIB = 2**20
_COLUMNS = {
    "id": pl.String, "submission_time": pl.Int64, "duration": pl.Int64, "cpu_count": pl.Float64,
    "cpu_capacity": pl.Float64, "mem_capacity": pl.Int64, "deferrable": pl.Boolean, "deadline": pl.Int64,
}  # fmt: skip
_NEEDED = ("id", "submission_time", "duration", "cpu_count")


class SurfLisaReader(Reader):
    """Task tables of OpenDC, among them the one of SURF Lisa."""

    format = "surf-lisa"

    def match(self, head: Head) -> int:
        parquet = head.raw.startswith(_MAGIC)
        return SURE if parquet and all(name.encode() in head.tail for name in _NEEDED) else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        table = _load(source)
        plausible = pl.all_horizontal(
            pl.col("id").is_not_null(),
            pl.col("submission_time", "duration").is_between(0, MAX_EPOCH_S * 1000),
            pl.col("cpu_count").is_finite() & (pl.col("cpu_count") >= 0),
        ).fill_null(False)
        rows = table.with_row_index("row", offset=1).with_columns(good=plausible)
        for row in rows.filter(~pl.col("good")).iter_rows(named=True):
            into.reject(source.name, row["row"], "a time, a duration or a count that cannot be", str(row))
        into.add_jobs(_jobs(rows.filter("good")))
        return len(table)


def _load(source: Source) -> pl.DataFrame:
    with reading_parquet(source.name):
        table = pl.read_parquet(io.BytesIO(source.read_bytes()))
        known = [name for name in _COLUMNS if name in table.columns]
        table = table.select(pl.col(name).cast(_COLUMNS[name], strict=False) for name in known)
    lacking = [name for name in _NEEDED if name not in table.columns]
    if lacking:
        raise UnreadableSourceError(
            f"{source.name} has no column {lacking[0]!r}",
            expected=f"at least {', '.join(_NEEDED)}",
            remedy="Check the format: `presage trace formats` lists them, --format chooses one",
        )
    absent = [name for name in _COLUMNS if name not in table.columns]
    return table.with_columns(pl.lit(None, _COLUMNS[name]).alias(name) for name in absent)


def _jobs(rows: pl.DataFrame) -> pl.DataFrame:
    memory = pl.when(pl.col("mem_capacity").is_between(0, 2**40)).then(pl.col("mem_capacity"))
    return rows.select(
        job_id="id",
        submit_ms="submission_time",
        run_s=pl.col("duration") / 1000,
        cpus_req="cpu_count",
        mem_req_bytes=memory * _MIB,
        x_cpu_capacity_mhz="cpu_capacity",
        x_deferrable="deferrable",
        x_deadline_ms="deadline",
    )
