"""Text of `sacct`: any list of fields, delimited or aligned, with or without a header, with or without steps.

Steps (`123.batch`, `123.0`) are folded into their job, for what it used: memory is the largest step's, CPU time
the job's own or the steps' together. Times are local unless they are seconds since 1970
(`SLURM_TIME_FORMAT=%s`). ReqMem becomes the memory of the whole job. What sacct knows and the job table has
no column for is kept as `x_` and the field's name. `records` says how records become jobs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import polars as pl

from presage.errors import UnreadableSourceError
from presage.traces.readers._base import LIKELY, NO, SURE, Reader
from presage.traces.readers._cells import LINE
from presage.traces.readers._spans import unfolded
from presage.traces.readers.slurm.node_lists import expand_nodes
from presage.traces.readers.slurm.records import add_records, leftover_name, note_unread
from presage.traces.readers.slurm.sacct_tables import KNOWN_LAYOUTS, TAIL, layout_of, resembles_rows, text_tables
from presage.traces.readers.slurm.texts import (
    MISSING,
    TRES_COLUMNS,
    JobId,
    decoded,
    parse_amount,
    parse_bytes,
    parse_duration_s,
    parse_exit_code,
    parse_gres,
    parse_job_id,
    parse_memory,
    parse_state,
    parse_tres,
)
from presage.traces.schema import STRINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from presage.traces.builder import TraceBuilder
    from presage.traces.readers._cells import Cells
    from presage.traces.readers.slurm.sacct_tables import Layout
    from presage.traces.source import Head, Source

_TIMES = {"submit_ms": "submit", "eligible_ms": "eligible", "start_ms": "start", "end_ms": "end"}
_DURATIONS = ("elapsed", "suspended", "timelimit", "timelimitraw", "totalcpu", "usercpu", "systemcpu")
_COUNTS = ("reqcpus", "alloccpus", "ncpus", "reqnodes", "allocnodes", "nnodes", "ntasks")


def _used_memory(text: str) -> int | None:
    match = re.search(r"(?:^|,)mem=([^,]+)", text)
    return parse_bytes(match[1]) if match else None


_MEANINGS: dict[str, tuple[Callable[[str], Any], dict[str, pl.DataType | type[pl.DataType]], str | None]] = {
    **{name: (parse_duration_s, {"s": pl.Float64}, "not a duration") for name in _DURATIONS},
    **{name: (parse_amount, {"n": pl.Float64}, "not a number") for name in _COUNTS},
    "state": (parse_state, {"word": pl.String}, "not a state of Slurm"),
    "exitcode": (parse_exit_code, {"code": pl.Int64, "signal": pl.Int64}, "not an exit code"),
    "reqmem": (parse_memory, {"size_bytes": pl.Int64, "per": pl.String}, None),
    "maxrss": (parse_bytes, {"size_bytes": pl.Int64}, None),
    "tresusageintot": (_used_memory, {"size_bytes": pl.Int64}, None),
    "nodelist": (expand_nodes, {"names": STRINGS}, None),
    **{name: (parse_tres, dict(TRES_COLUMNS), None) for name in ("reqtres", "alloctres")},
    **{name: (parse_gres, {"gpus": pl.Float64, "gpu_type": pl.String}, None) for name in ("reqgres", "allocgres")},
}
"""Field → how to parse it, into what, and what to say of a text that cannot be; None: it is only missing then."""
_TYPED = (*_MEANINGS, *_TIMES.values(), "elapsedraw", "priority", "restarts", "dependency")
_RECORD = ("cluster", "job_id", "__record__")
_REDUNDANT = {"cputime", "cputimeraw"}  # run time times processors


class SacctReader(Reader):
    """Text tables of Slurm's `sacct`."""

    format = "sacct"
    scheduler = "slurm"

    def match(self, head: Head) -> int:
        if head.is_binary:
            return NO
        if layout_of(head):
            return SURE
        return LIKELY if resembles_rows(head) else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        batches, rows = _read(source, into)
        _pour(batches, into)
        return rows

    def read(self, sources: Sequence[Source], into: TraceBuilder) -> None:
        into.describe(scheduler=self.scheduler)
        batches: list[pl.DataFrame] = []
        for source in sources:
            own, rows = _read(source, into)
            self.finish(source, into, rows)
            batches += own
        # A job's records and steps may stand in different dumps.
        _pour(batches, into)


def _read(source: Source, into: TraceBuilder) -> tuple[list[pl.DataFrame], int]:
    """Return the typed rows of a dump in batches, and how many rows it has."""
    layout = layout_of(source.head, into.options.fields)
    if layout is None:
        raise UnreadableSourceError(
            f"{source.name} has no header, and its columns are in an order that is not known",
            expected=f"a header line, or the fields of {', '.join(KNOWN_LAYOUTS)}",
            remedy="Name the columns with --fields, as in sacct's own --format",
        )
    if not {"jobid", "jobidraw"} & set(layout.fields):
        raise UnreadableSourceError(
            f"The fields given for {source.name} do not say which one is the id of a job",
            expected="JobID or JobIDRaw among them",
            remedy="Name all columns of the file with --fields, in their order",
        )
    batches, rows = [], 0
    for cells in text_tables(source, into, layout):
        rows += len(cells.table)
        batches.append(typed_rows(cells, layout, source, into))
    return batches, rows


def typed_rows(cells: Cells, layout: Layout, source: Source, into: TraceBuilder) -> pl.DataFrame:
    """Return the rows, of jobs and steps alike, with the columns of records and of steps."""
    key = "jobid" if "jobid" in cells else "jobidraw"
    table = _without_noise(cells.table, layout, into)
    cells.table = _with_meanings(_with_ids(table, key), into)
    cells.required(key)
    cells.checked(key, pl.col("id:job_id"), "not a job id")
    for column, (_, fields, problem) in _MEANINGS.items():
        if problem:
            cells.checked(column, pl.col(f"{column}:{next(iter(fields))}"), problem)
    cells.checked("reqmem", pl.col("reqmem:per"), "not an amount of memory")
    frame = cells.frame(
        row_line=pl.col(LINE),
        row_file=pl.lit(source.name),
        **{name: pl.col(f"id:{name}") for name in JobId._fields},
        **{name: cells.time_ms(column) for name, column in _TIMES.items()},
        **_labels(cells),
        **_requests(),
        **_allocation(cells),
        **_running(cells),
        **_leftovers(cells.table),
    )
    return _in_zone(frame, cells, into)


def _in_zone(frame: pl.DataFrame, cells: Cells, into: TraceBuilder) -> pl.DataFrame:
    """Return the rows with local times told apart in the hour that a change to winter repeats."""
    zone = into.options.time_zone
    written = [column for column in _TIMES.values() if column in cells]
    if not written or not cells.table.select(pl.any_horizontal(pl.col(written).str.contains(":").any())).item():
        return frame
    if zone is None:
        into.note("times are local and carry no zone: they are taken as UTC unless --time-zone tells another")
        return frame
    into.describe(time_zone=zone)
    return unfolded(frame, ("submit_ms", "start_ms", "end_ms"), zone)


def _without_noise(table: pl.DataFrame, layout: Layout, into: TraceBuilder) -> pl.DataFrame:
    """Return the table without the words for "unknown" in its typed columns, and without cut-off cells."""
    if "timelimit" in table.columns:
        inherited = table.select((pl.col("timelimit") == "Partition_Limit").sum()).item()
        if inherited:
            into.count(partition_limits=inherited)
            into.note(
                "some jobs have their partition's time limit, which the log does not tell: limit_s is missing"
            )
    typed = [name for name in table.columns if name in _TYPED]
    text = pl.col(typed)
    table = table.with_columns(pl.when(text.is_in(MISSING).not_()).then(text).name.keep())
    narrow = [name for name in typed if name != "state"] if layout.spans else []
    cut = pl.col(narrow).str.ends_with("+")
    cut_cells = sum(table.select(cut.sum()).row(0)) if narrow else 0
    if cut_cells:
        into.count(cut_cells=cut_cells)
        into.note("some cells were cut off by the width of their column: missing (counted as cut_cells)")
        table = table.with_columns(pl.when(~cut).then(pl.col(narrow)).name.keep())
    return table


def _with_ids(table: pl.DataFrame, key: str) -> pl.DataFrame:
    """Return the table with the parts of its ids in columns like `id:array_task`, null where the id is none."""
    # Nearly every row has an id of its own: steps are split off, and plain numbers are not parsed one by one.
    parts = pl.col(key).str.splitn(".", 2).struct
    table = table.with_columns(parts.field("field_0").alias("id:whole"), parts.field("field_1").alias("id:part"))
    plain = pl.col("id:whole").str.contains(r"^[0-9]{1,18}$")
    table = table.with_columns(pl.when(~plain).then(pl.col("id:whole")).alias("id:odd"))
    fields = {f"id:{name}": _ID_TYPES.get(name, pl.String) for name in JobId._fields}
    table = decoded(table, "id:odd", parse_job_id, fields)
    is_step = pl.col("id:part").str.contains(r"^[A-Za-z0-9][A-Za-z0-9_+]*$")
    whole = pl.coalesce("id:job_id", pl.when(plain).then(pl.col("id:whole")))
    return table.with_columns(
        pl.when(is_step.fill_null(True)).then(whole).alias("id:job_id"), pl.col("id:part").alias("id:step")
    ).drop("id:whole", "id:part", "id:odd")


_ID_TYPES = {"array_task": pl.Int64, "het_offset": pl.Int64, "is_pending_array": pl.Boolean}


def _with_meanings(table: pl.DataFrame, into: TraceBuilder) -> pl.DataFrame:
    """Return the table with what its texts mean, in columns like `reqtres:cpus`."""
    for column, (parse, fields, _) in _MEANINGS.items():
        named = {f"{column}:{name}": dtype for name, dtype in fields.items()}
        table = decoded(table, column, parse, named)
    note_unread(table, into, nodelist="node_lists", reqtres="resources", alloctres="resources", maxrss="sizes")
    return table


def _labels(cells: Cells) -> dict[str, pl.Expr]:
    return {
        "name": cells.text("jobname"),
        "user": pl.coalesce(cells.text("user"), cells.text("uid")),
        "group": pl.coalesce(cells.text("group"), cells.text("gid")),
        "account": cells.text("account"),
        "cluster": cells.text("cluster"),
        "partition": cells.text("partition"),
        "qos": pl.coalesce(cells.text("qos"), cells.text("qosraw")),
        "constraint": cells.text("constraints"),
        "status": cells.text("state"),
        "dependency": cells.text("dependency"),
        "priority": cells.number("priority"),
    }


def _requests() -> dict[str, pl.Expr]:
    cpus = pl.coalesce("reqcpus:n", "reqtres:cpus")
    nodes = pl.coalesce("reqnodes:n", "reqtres:nodes")
    times = (
        pl.when(pl.col("reqmem:per") == "cpu")
        .then(pl.coalesce(cpus, "ncpus:n", "alloccpus:n"))
        .when(pl.col("reqmem:per") == "node")
        .then(pl.coalesce(nodes, "nnodes:n", "allocnodes:n"))
        .otherwise(1.0)
    )
    return {
        "cpus_req": cpus,
        "nodes_req": _whole(nodes),
        "tasks": _whole(pl.col("ntasks:n")),
        "mem_req_bytes": pl.coalesce(_whole(pl.col("reqmem:size_bytes") * times), "reqtres:mem_bytes"),
        # --gres is asked for on every node; TRES count the whole job.
        "gpus_req": pl.coalesce("reqtres:gpus", pl.col("reqgres:gpus") * pl.coalesce(nodes, "nnodes:n")),
        "gpu_type_req": pl.coalesce("reqtres:gpu_type", "reqgres:gpu_type"),
        "req_known": pl.col("reqtres:cpus").is_not_null() | pl.col("reqgres:gpus").is_not_null(),
        "limit_s": pl.coalesce("timelimit:s", "timelimitraw:s"),
    }


def _allocation(cells: Cells) -> dict[str, pl.Expr]:
    cpus = pl.coalesce("alloccpus:n", "ncpus:n", "alloctres:cpus")
    nodes = pl.coalesce("allocnodes:n", "nnodes:n", "alloctres:nodes")
    return {
        "cpus_alloc": pl.when(cpus > 0).then(cpus),
        "nodes_alloc": _whole(pl.when(nodes > 0).then(nodes)),
        "gpus_alloc": pl.coalesce("alloctres:gpus", "allocgres:gpus"),
        "gpu_type": pl.coalesce("alloctres:gpu_type", "allocgres:gpu_type"),
        "mem_alloc_bytes": pl.col("alloctres:mem_bytes"),
        "node_list": pl.col("nodelist:names"),
        "has_nodes": pl.col("nodelist").is_not_null() if "nodelist" in cells else pl.lit(None, pl.Boolean),
        "has_start": pl.lit("start" in cells),
        "alloc_known": pl.col("alloctres:cpus").is_not_null() | pl.col("allocgres:gpus").is_not_null(),
    }


def _running(cells: Cells) -> dict[str, pl.Expr]:
    return {
        "state": pl.col("state:word"),
        "elapsed_s": pl.coalesce(cells.count("elapsedraw"), "elapsed:s"),
        "suspended_s": pl.col("suspended:s"),
        "mem_used_bytes": pl.coalesce("tresusageintot:size_bytes", "maxrss:size_bytes"),
        "cpu_used_s": pl.coalesce("totalcpu:s", pl.col("usercpu:s") + pl.col("systemcpu:s")),
        "exit_code": pl.col("exitcode:code"),
        "signal": pl.col("exitcode:signal"),
        "restarts": cells.integer("restarts"),
    }


def _leftovers(table: pl.DataFrame) -> dict[str, pl.Expr]:
    """Return the fields that jobs fill and the job table has no column for."""
    of_jobs = table.filter(pl.col("id:step").is_null())
    names = [name for name in table.columns if name not in _USED and ":" not in name]
    filled = [name for name in names if of_jobs[name].null_count() < len(of_jobs)]
    if "jobidraw" in filled and of_jobs["jobidraw"].equals(of_jobs["id:job_id"]):
        filled.remove("jobidraw")
    return {leftover_name(name): pl.col(name) for name in filled}


_USED = {
    LINE, TAIL, *_TYPED, *_REDUNDANT, "jobid", "jobname", "user", "group", "account", "cluster",
    "partition", "qos", "constraints",
}  # fmt: skip


def _whole(value: pl.Expr) -> pl.Expr:
    return value.round().cast(pl.Int64, strict=False)


def _pour(batches: list[pl.DataFrame], into: TraceBuilder) -> None:
    if not batches:
        return
    rows = pl.concat(batches, how="diagonal_relaxed")
    pending = rows.select(pl.col("is_pending_array").sum()).item()
    if pending:
        into.count(pending_arrays=pending)
        into.note("some rows stand for all pending tasks of an array: one pending job each (pending_arrays)")
    jobs = _with_steps(rows, into)
    add_records(jobs.drop("row_line", "row_file", "step", "is_pending_array", "__record__"), into)


def _with_steps(rows: pl.DataFrame, into: TraceBuilder) -> pl.DataFrame:
    """Return the jobs with what their steps used; steps without a job are rejected.

    A step belongs to the nearest record of its job above it, or the first below: sorted text has steps first.
    """
    is_job = pl.col("step").is_null()
    if rows.select(is_job.all()).item():
        return rows.with_columns(__record__=pl.lit(1))
    nth = is_job.cum_sum().over("cluster", "job_id").clip(lower_bound=1)
    rows = rows.with_columns(__record__=nth)
    jobs, steps = rows.filter(is_job), rows.filter(~is_job)
    orphans = steps.join(jobs, on=_RECORD, how="anti", nulls_equal=True)
    for file, line, job, step in orphans.select("row_file", "row_line", "job_id", "step").iter_rows():
        into.reject(file, line, "a step of a job that the log does not show", f"{job}.{step}")
    into.count(steps_folded=len(steps) - len(orphans))
    used = steps.group_by(_RECORD).agg(
        step_mem_bytes=pl.col("mem_used_bytes").max(),
        step_cpu_s=pl.when(pl.col("cpu_used_s").count() > 0).then(pl.col("cpu_used_s").sum()),
    )
    joined = jobs.join(used, on=_RECORD, how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(
        mem_used_bytes=pl.max_horizontal("mem_used_bytes", "step_mem_bytes"),
        cpu_used_s=pl.coalesce("cpu_used_s", "step_cpu_s"),
    ).drop("step_mem_bytes", "step_cpu_s")
