"""Text of `squeue`: the jobs that wait and run at one instant, to be read beside a log or alone.

The columns are named as squeue names them, and either divided by a mark (`squeue -o "%i|%P|…"`) or all aligned to
the left (`squeue -O JobArrayID:30,Partition:30,…`). JOBID and SUBMIT_TIME must be among them. The start of a job
that waits is the one that Slurm expects, kept as `x_expected_start_ms`. MIN_MEMORY does not say whether it is that
of a processor or of a node, so that only TRES_ALLOC tells the memory of a job. Times are local.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from presage.errors import UnreadableSourceError
from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers.slurm.records import add_records
from presage.traces.readers.slurm.sacct import typed_rows
from presage.traces.readers.slurm.sacct_tables import QUEUE_FIELDS, Layout, text_tables

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.readers._cells import Cells
    from presage.traces.source import Head, Source

RECOMMENDED = 'squeue -a -r -o "%i|%P|%j|%u|%g|%a|%q|%T|%V|%S|%M|%l|%C|%D|%b|%Q|%N"'
_NAMES = {
    "name": "jobname", "st": "state", "submit_time": "submit", "start_time": "start", "eligible_time": "eligible",
    "time": "elapsed", "time_limit": "timelimit", "cpus": "ncpus", "nodes": "nnodes", "tres_alloc": "reqtres",
    "tres_per_node": "reqgres", "features": "constraints",
}  # fmt: skip
"""squeue's name of a column → sacct's. TRES_ALLOC of a job that waits is what it asks for."""
_CODES = {
    "PD": "PENDING", "R": "RUNNING", "S": "SUSPENDED", "CG": "COMPLETING", "CF": "CONFIGURING", "CD": "COMPLETED",
    "CA": "CANCELLED", "F": "FAILED", "TO": "TIMEOUT", "NF": "NODE_FAIL", "PR": "PREEMPTED", "DL": "DEADLINE",
    "OOM": "OUT_OF_MEMORY", "BF": "BOOT_FAIL", "RQ": "REQUEUED", "RH": "REQUEUE_HOLD", "RS": "RESIZING",
    "SI": "SIGNALING", "SO": "STAGE_OUT", "ST": "STOPPED", "SE": "SPECIAL_EXIT", "RD": "RESV_DEL_HOLD",
    "RV": "REVOKED",
}  # fmt: skip
_NOT_YET = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD")
_LINES_BEFORE_HEADER = 3


class SqueueReader(Reader):
    """Text tables of Slurm's `squeue`."""

    format = "squeue"
    scheduler = "slurm"

    def match(self, head: Head) -> int:
        return SURE if not head.is_binary and _header(head) else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        layout = _layout(source)
        frames, rows = [], 0
        for cells in text_tables(source, into, layout):
            cells.table = _with_words(cells)
            rows += len(cells.table)
            frames.append(as_queue(typed_rows(cells, layout, source, into)))
        if frames:
            jobs = pl.concat(frames, how="diagonal_relaxed")
            jobs = jobs.filter(pl.col("step").is_null()).drop("row_line", "row_file", "step", "is_pending_array")
            add_records(jobs, into, queue=True)
        return rows


def as_queue(records: pl.DataFrame) -> pl.DataFrame:
    """Return records of a queue, in which the start of a job that has not begun is only expected."""
    waits = pl.col("state").is_in(_NOT_YET).fill_null(False)
    return records.with_columns(
        x_expected_start_ms=pl.when(waits).then("start_ms"), start_ms=pl.when(~waits).then("start_ms")
    )


def _header(head: Head) -> str | None:
    """Return the line that names the columns as squeue does."""
    for line in head.lines[:_LINES_BEFORE_HEADER]:
        names = re.split(r"[|,;\t\s]+", line.strip().lower())
        if "jobid" in names and QUEUE_FIELDS & set(names):
            return line
    return None


def _layout(source: Source) -> Layout:
    """Return where the columns are, under sacct's names. Raises UnreadableSourceError."""
    line = _header(source.head) or ""
    mark = next((each for each in "|\t;," if each in line), "")
    spans = [match.span() for match in re.finditer(r"\S+", line)]
    names = line.split(mark) if mark else [line[first:end] for first, end in spans]
    fields = [_NAMES.get(name.strip().lower(), name.strip().lower()) for name in names]
    if "submit" not in fields or "jobid" not in fields or (line[:1].isspace() and not mark):
        raise UnreadableSourceError(
            f"{source.name} does not show what is needed of a queue",
            expected="columns JOBID and SUBMIT_TIME below a header, divided by a mark or aligned to the left",
            remedy=f"Use `squeue -a --json`, or {RECOMMENDED}",
        )
    plain = [re.sub(r"\W+", "_", name) for name in fields]
    distinct = tuple(
        name if name and name not in plain[:at] else f"column{at + 1}" for at, name in enumerate(plain)
    )
    if mark:
        return Layout(distinct, mark)
    ends = [first for first, _ in spans[1:]]
    return Layout(distinct, "", tuple(zip([first for first, _ in spans], [*ends, None], strict=True)))


def _with_words(cells: Cells) -> pl.DataFrame:
    """Return the table with words for the short codes of states."""
    if "state" not in cells:
        return cells.table
    return cells.table.with_columns(pl.col("state").replace(_CODES))
