"""Jobs of NREL's Eagle, as the laboratory publishes them: a CSV with Slurm's words, anonymised.

Times carry no zone. Tasks of an array share their id, and some of them all their times too: each row is a job.
Memory is in MiB of the whole job, 0 where none was asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from presage.traces.builder import ID_REPEAT_MARK
from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import delimited, header
from presage.traces.readers.slurm.records import add_records
from presage.traces.readers.slurm.texts import MIB, MISSING, decoded, parse_state

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.readers._cells import Cells
    from presage.traces.source import Head, Source

_OWN_COLUMNS = {"job_id", "wallclock_req", "nodes_req", "processors_req", "submit_time", "run_time", "state"}


class NrelEagleReader(Reader):
    """The Eagle jobs dataset of NREL."""

    format = "nrel-eagle"
    scheduler = "slurm"

    def match(self, head: Head) -> int:
        return SURE if not head.is_binary and header(head) >= _OWN_COLUMNS else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        rows = 0
        frames = []
        for cells in delimited(source, into, missing=MISSING):
            rows += len(cells.table)
            frames.append(_jobs(cells))
        if frames:
            add_records(_told_apart(pl.concat(frames), into), into)
        return rows


def _jobs(cells: Cells) -> pl.DataFrame:
    cells.table = decoded(cells.table, "state", parse_state, {"state:word": pl.String})
    memory = cells.bytes("mem_req", unit=MIB)
    return cells.frame(
        job_id=cells.required("job_id"),
        name=cells.text("name"),
        user=cells.text("user"),
        account=cells.text("account"),
        partition=cells.text("partition"),
        qos=cells.text("qos"),
        submit_ms=cells.time_ms("submit_time"),
        start_ms=cells.time_ms("start_time"),
        end_ms=cells.time_ms("end_time"),
        elapsed_s=cells.seconds("run_time"),
        has_start=pl.lit(True),
        limit_s=cells.seconds("wallclock_req"),
        nodes_req=cells.integer("nodes_req"),
        cpus_req=cells.count("processors_req"),
        gpus_req=cells.count("gpus_req"),
        mem_req_bytes=pl.when(memory > 0).then(memory),
        state=cells.checked("state", pl.col("state:word"), "not a state of Slurm"),
        status=cells.text("state"),
        x_workdir=cells.text("work_dir"),
        x_submitline=cells.text("submit_line"),
    )


def _told_apart(jobs: pl.DataFrame, into: TraceBuilder) -> pl.DataFrame:
    """Return the jobs with an id each; those that share one are tasks of the array of that id."""
    nth = pl.int_range(1, pl.len() + 1).over("job_id")
    repeated = pl.col("job_id").is_duplicated()
    tasks = jobs.select(repeated.sum()).item()
    if not tasks:
        return jobs
    into.count(array_tasks=tasks)
    into.note(
        f"{tasks:,} rows share their id with others: read as tasks of arrays, named ID, ID{ID_REPEAT_MARK}2, …; "
        "which task each is, the log does not tell"
    )
    own = pl.when(nth > 1).then(pl.concat_str("job_id", pl.lit(ID_REPEAT_MARK), nth)).otherwise("job_id")
    return jobs.with_columns(job_id=own, array_id=pl.when(repeated).then("job_id"))
