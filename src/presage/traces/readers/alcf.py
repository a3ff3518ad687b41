"""Job logs of the Argonne Leadership Computing Facility, in three shapes told apart by their header.

- DIM_JOB_COMPOSITE, the facility's public CSV per machine and year (Cobalt, later PBS). Years differ in their
  columns; those without a canonical place are kept under `x_`. `JOB_NAME` is the id, because `COBALT_JOBID` is
  the same in every row of the PBS years. `LOCATION` is read as nodes where it names as many as were used; a
  Blue Gene block is no list of nodes.
- A CSV with the columns user, cpu_num, node_num, submit, wait, run, wall, status (also submit_time, wait_time …).
- Excerpts separated by blanks: Job_name Submit Runtime Nodes Comment Perc. The last two are annotations.

None of them says how large the machine is. Times without a zone are in the zone of the read options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import LINE, Cells, delimited, header
from presage.traces.readers._times import milliseconds, note_own_zero, with_stated_spans
from presage.traces.schema import EXTRA_PREFIX, OUTCOME, Outcome

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

_COMPOSITE = {"JOB_NAME", "QUEUED_TIMESTAMP", "WALLTIME_SECONDS", "NODES_REQUESTED"}
_THETA = {"user", "cpu_num", "node_num"}
_THETA_TIMES = {"submit": "submit_time", "wait": "wait_time", "run": "run_time", "wall": "wall_time"}
_EXCERPT = ["Job_name", "Submit", "Runtime", "Nodes", "Comment", "Perc"]
_MISSING = ("NULL", "NaN", "nan", "None", "N/A", "\\N")

_MAPPED = {
    "JOB_NAME", "MACHINE_NAME", "MACHINE_PARTITION", "USERNAME_GENID", "PROJECT_NAME_GENID", "QUEUE_NAME",
    "QUEUED_TIMESTAMP", "START_TIMESTAMP", "END_TIMESTAMP", "QUEUED_WAIT_SECONDS", "RUNTIME_SECONDS",
    "WALLTIME_SECONDS", "NODES_USED", "NODES_REQUESTED", "CORES_USED", "CORES_REQUESTED", "GPUS_REQUESTED",
    "EXIT_STATUS",
}  # fmt: skip
_REDUNDANT = {"", "QUEUED_DATE_ID", "START_DATE_ID", "END_DATE_ID"}  # the last three repeat the day of a timestamp
_MAX_NODES = 1_000_000  # no machine has more, and a range that claims more would only fill the memory
_NUMBERS = {"ELIGIBLE_WAIT_SECONDS", "REQUESTED_CORE_HOURS", "USED_CORE_HOURS"}

_WORDS = {
    "pass": Outcome.COMPLETED, "completed": Outcome.COMPLETED, "failed": Outcome.FAILED,
    "killed": Outcome.CANCELLED, "cancelled": Outcome.CANCELLED, "timeout": Outcome.TIMEOUT,
    "0": Outcome.COMPLETED, "-29": Outcome.TIMEOUT, "-27": Outcome.OUT_OF_MEMORY,
}  # fmt: skip
"""Status words, and the exit codes with which PBS says that it ended a job for its wall time or its memory."""


class AlcfReader(Reader):
    """Argonne's DIM_JOB_COMPOSITE, the Theta columns, and the excerpts of Theta and Mira."""

    format = "alcf"

    def match(self, head: Head) -> int:
        return SURE if _is_excerpt(head) or _is_theta(head) or header(head) >= _COMPOSITE else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        excerpt, theta = _is_excerpt(source.head), _is_theta(source.head)
        shape = _excerpt_jobs if excerpt else _theta_jobs if theta else _composite_jobs
        rows = 0
        for cells in delimited(source, into, delimiter=None if excerpt else ",", missing=_MISSING):
            into.add_jobs(with_stated_spans(shape(cells, into, rows), into))
            rows += len(cells.table)
        return rows


def _is_excerpt(head: Head) -> bool:
    return bool(head.lines) and head.lines[0].split() == _EXCERPT


def _is_theta(head: Head) -> bool:
    names = header(head)
    return names >= _THETA and all(short in names or long in names for short, long in _THETA_TIMES.items())


def _composite_jobs(cells: Cells, into: TraceBuilder, rows_before: int) -> pl.DataFrame:
    del rows_before
    leftovers = [name for name in cells.table.columns if name not in {*_MAPPED, *_REDUNDANT, LINE}]
    jobs = cells.frame(
        job_id=cells.required("JOB_NAME"),
        cluster=cells.text("MACHINE_NAME"),
        partition=cells.text("MACHINE_PARTITION"),
        user=cells.text("USERNAME_GENID"),
        account=cells.text("PROJECT_NAME_GENID"),
        queue=cells.text("QUEUE_NAME"),
        submit_ms=cells.time_ms("QUEUED_TIMESTAMP"),
        start_ms=cells.time_ms("START_TIMESTAMP"),
        end_ms=cells.time_ms("END_TIMESTAMP"),
        wait_s=_amount(cells, "QUEUED_WAIT_SECONDS", into),
        run_s=_amount(cells, "RUNTIME_SECONDS", into),
        limit_s=_amount(cells, "WALLTIME_SECONDS", into),
        nodes_req=_amount(cells, "NODES_REQUESTED", into, whole=True),
        cpus_req=_amount(cells, "CORES_REQUESTED", into),
        gpus_req=_amount(cells, "GPUS_REQUESTED", into),
        nodes_alloc=_amount(cells, "NODES_USED", into, whole=True),
        cpus_alloc=_amount(cells, "CORES_USED", into),
        exit_code=cells.integer("EXIT_STATUS"),
        status=cells.text("EXIT_STATUS"),
        outcome=_outcome(cells, "EXIT_STATUS"),
        **{EXTRA_PREFIX + name.lower(): _leftover(cells, name) for name in leftovers},
    )
    return _with_nodes(jobs) if "x_location" in jobs.columns else jobs


def _theta_jobs(cells: Cells, into: TraceBuilder, rows_before: int) -> pl.DataFrame:
    submit, wait, run, wall = (short if short in cells else long for short, long in _THETA_TIMES.items())
    status = "status" if "status" in cells else "state"
    ids = [name for name in ("job_id", "job", "id") if name in cells]
    if not ids:
        into.note("the log has no job ids: they are the numbers of its rows")
    numbers = pl.int_range(rows_before + 1, rows_before + 1 + pl.len()).cast(pl.String)
    jobs = cells.frame(
        job_id=cells.required(ids[0]) if ids else numbers,
        user=cells.text("user"),
        submit_ms=cells.time_ms(submit),
        wait_s=_amount(cells, wait, into),
        run_s=_amount(cells, run, into),
        limit_s=_amount(cells, wall, into),
        cpus_req=_amount(cells, "cpu_num", into),
        nodes_req=_amount(cells, "node_num", into, whole=True),
        status=cells.text(status),
        outcome=_outcome(cells, status),
    )
    note_own_zero(jobs["submit_ms"], into)
    start_ms = pl.col("submit_ms") + milliseconds(pl.col("wait_s"))
    return jobs.with_columns(start_ms=start_ms, end_ms=start_ms + milliseconds(pl.col("run_s")))


def _excerpt_jobs(cells: Cells, into: TraceBuilder, rows_before: int) -> pl.DataFrame:
    del rows_before
    return cells.frame(
        job_id=cells.required("Job_name"),
        submit_ms=cells.time_ms("Submit"),
        start_ms=pl.lit(None, pl.Int64),
        end_ms=pl.lit(None, pl.Int64),
        wait_s=pl.lit(None, pl.Float64),
        run_s=_amount(cells, "Runtime", into),
        nodes_req=_amount(cells, "Nodes", into, whole=True),
        x_comment=cells.text("Comment"),
        x_perc=cells.number("Perc"),
    )


def _amount(cells: Cells, column: str, into: TraceBuilder, *, whole: bool = False) -> pl.Expr:
    """The cell's number, missing where it is negative."""
    value = cells.integer(column) if whole else cells.number(column)
    if column in cells:
        below = cells.table.select((pl.col(column).cast(pl.Float64, strict=False) < 0).sum()).item()
        if below:
            into.note(f"{below:,} negative values of the column {column!r} were read as missing")
    return pl.when(value >= 0).then(value)


def _leftover(cells: Cells, column: str) -> pl.Expr:
    return cells.number(column) if column in _NUMBERS else cells.text(column)


def _outcome(cells: Cells, column: str) -> pl.Expr:
    """The outcome of a status word or an exit code, of which every other than 0 is a failure."""
    known = {word: outcome.value for word, outcome in _WORDS.items()}
    text = cells.text(column).str.to_lowercase().str.strip_suffix(".0")
    other_code = pl.when(text.cast(pl.Int64, strict=False).is_not_null()).then(pl.lit(Outcome.FAILED.value))
    word = text.replace_strict(known, default=None, return_dtype=pl.String)
    return pl.coalesce(word, other_code).cast(OUTCOME)


def _with_nodes(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs with `node_list` where the location, its ranges written out, names the nodes used."""
    parts = jobs.select(row=pl.int_range(pl.len()), part=pl.col("x_location").str.split(","), nodes="nodes_alloc")
    parts = parts.explode("part").with_columns(pl.col("part").str.strip_chars())
    ends = pl.col("part").str.extract_groups(r"^(\d{1,6})-(\d{1,6})$")
    first, last = (ends.struct.field(name).cast(pl.Int64, strict=False) for name in ("1", "2"))
    parts = parts.with_columns(first=first, last=last).with_columns(
        size=pl.when(pl.col("last") >= pl.col("first")).then(pl.col("last") - pl.col("first") + 1).otherwise(1)
    )
    fits = (pl.col("size").sum().over("row") == pl.col("nodes")) & (pl.col("nodes") <= _MAX_NODES)
    named = parts.filter(fits)
    names = (
        pl.when(pl.col("size") > 1)
        .then(pl.int_ranges("first", pl.col("first") + pl.col("size")).cast(pl.List(pl.String)))
        .otherwise(pl.concat_list("part"))
    )
    lists = (
        named.select("row", node_list=names)
        .explode("node_list")
        .group_by("row", maintain_order=True)
        .agg("node_list")
    )
    return (
        jobs.with_columns(row=pl.int_range(pl.len()))
        .join(lists, on="row", how="left", maintain_order="left")
        .with_columns(x_location=pl.when(pl.col("node_list").is_null()).then("x_location"))
        .drop("row")
    )
