"""From the records of Slurm's accounting to jobs.

The accounting keeps one record per stretch of a job's life. A job that is requeued gets a new record under the
same id, submitted when the old one ended; a job that is resized gets one too, with the start of the old one.
Records of one id are one job if user and name agree and each was submitted right after its predecessor ended. The
last record is the job, its last stay in the queue is the wait, and all of them are attempts. Records of one id
that do not fit together so are different jobs: Slurm's numbers start anew after a reset. Two records with the same
id and the same submit time are the same record looked at twice, in dumps that overlap: the later look is kept.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from presage.traces.builder import ID_REPEAT_MARK
from presage.traces.readers._times import with_stated_spans
from presage.traces.readers.slurm.texts import STATES, parse_dependency
from presage.traces.schema import EXTRA_PREFIX, OUTCOME

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder

HELPERS = {
    "state": pl.String,  # a key of STATES
    "elapsed_s": pl.Float64,  # run time without suspensions, so far if the job runs
    "has_start": pl.Boolean,  # the log tells starts: a missing one means that there was none
    "has_nodes": pl.Boolean,  # nodes were assigned; null if the log does not say
    "req_known": pl.Boolean,  # the log names the requested resources, and so the absence of GPUs
    "alloc_known": pl.Boolean,
    "dependency": pl.String,
}
"""Columns that a record may have besides those of the job table."""

_KEY = ("cluster", "job_id")
_GROUP = (*_KEY, "__job__")
_LATEST_REQUEUE_MS = 7 * 86_400_000  # a node that hangs in its epilogue delays the new record
_LATEST_REQUEUE_OF_ENDED_MS = 3_600_000  # the controller forgets ended jobs soon, and with them the way back
_CLOCK_MS = 1000


def add_records(records: pl.DataFrame, into: TraceBuilder, *, queue: bool = False) -> None:
    """Pour accounting records, in the log's order, into `into` as jobs, attempts and edges.

    `records` has any columns of the job table, `x_…` leftovers, and HELPERS. `limit_s` may be infinite. With
    `queue` they are no accounting but what the controller shows of its queue at one instant.
    """
    if not len(records):
        return
    records = _with_all_columns(records).with_row_index("__order__")
    records = _without_false_starts(records, into)
    records = _with_gpu_zeros(records)
    records = _without_infinite_limits(records, into)
    jobs, attempts = _folded(records, into)
    jobs = jobs.with_columns(wait_s=pl.lit(None, pl.Float64), run_s=_stated_run_s())
    jobs = with_stated_spans(jobs, into)
    jobs = jobs.with_columns(outcome=_outcome("job"), **_so_far(jobs))
    add = into.add_queue if queue else into.add_jobs
    add(jobs.drop([*HELPERS, "__order__"]))
    if attempts is not None:
        into.add_attempts(attempts)
    _add_edges(jobs, into)


def leftover_name(field: str) -> str:
    """Return the column in which a field that the job table has no column for is kept."""
    return EXTRA_PREFIX + re.sub(r"\W+", "_", field.lower())


def note_unread(table: pl.DataFrame, into: TraceBuilder, **columns: str) -> None:
    """Count the texts of these columns that mean nothing, all of their columns `name:…` being null.

    The argument's value says what such a text is, in the plural, and names the count: `unread_node_lists`.
    """
    for column, what in columns.items():
        if column not in table.columns:
            continue
        meanings = [pl.col(name).is_null() for name in table.columns if name.startswith(f"{column}:")]
        count = table.select((pl.col(column).is_not_null() & pl.all_horizontal(meanings)).sum()).item()
        if count:
            note_unread_texts(count, what, into)


def note_unread_texts(count: int, what: str, into: TraceBuilder) -> None:
    """Count `count` texts that were read as missing because nothing can be made of them."""
    into.count(**{f"unread_{what}": count})
    into.note(f"some {what.replace('_', ' ')} cannot be read: missing (counted as unread_{what})")


def _with_all_columns(records: pl.DataFrame) -> pl.DataFrame:
    needed: dict[str, pl.DataType | type[pl.DataType]] = {
        **HELPERS,
        **dict.fromkeys(("cluster", "user", "name", "gpu_type", "status"), pl.String),
        **dict.fromkeys(("submit_ms", "eligible_ms", "start_ms", "end_ms", "nodes_req", "nodes_alloc"), pl.Int64),
        **dict.fromkeys(("mem_alloc_bytes", "exit_code", "restarts"), pl.Int64),
        **dict.fromkeys(
            ("cpus_req", "cpus_alloc", "gpus_req", "gpus_alloc", "suspended_s", "limit_s"), pl.Float64
        ),
        "node_list": pl.List(pl.String),
    }
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in needed.items() if name not in records.columns]
    return records.with_columns(absent)


def _outcome(of: str) -> pl.Expr:
    words = {word: getattr(state, of).value for word, state in STATES.items()}
    return pl.col("state").replace_strict(words, default=None, return_dtype=pl.String).cast(OUTCOME)


def _without_false_starts(records: pl.DataFrame, into: TraceBuilder) -> pl.DataFrame:
    """Return the records without a start and an allocation where the job never ran.

    Until a job starts, Slurm shows the request as its allocation; some versions show the time of a cancellation
    as its start.
    """
    cancelled = pl.col("state").is_in(["CANCELLED", "DEADLINE", "REVOKED"])
    momentary = (pl.col("start_ms") == pl.col("end_ms")) & (pl.col("elapsed_s").fill_null(0) == 0)
    false_start = (cancelled & momentary & ~pl.col("has_nodes").fill_null(False)).fill_null(False)
    never = false_start | (pl.col("has_start").fill_null(False) & pl.col("start_ms").is_null())
    mended = records.select(false_start.sum()).item()
    if mended:
        into.count(cancelled_before_start=mended)
        into.note(
            "the log gives jobs that were cancelled in the queue the time of their end as start: "
            "they are read as never started (counted as cancelled_before_start)"
        )
    requests = {
        asked: pl.coalesce(asked, pl.when(never).then(pl.col(given)))
        for asked, given in (("cpus_req", "cpus_alloc"), ("nodes_req", "nodes_alloc"))
    }
    of_runs = ("start_ms", "cpus_alloc", "nodes_alloc", "gpus_alloc", "gpu_type", "mem_alloc_bytes", "node_list")
    return records.with_columns(**requests, **{name: pl.when(~never).then(pl.col(name)) for name in of_runs})


def _with_gpu_zeros(records: pl.DataFrame) -> pl.DataFrame:
    """Return the records with 0 GPUs where others are named, in a log that names GPUs at all.

    Slurm records GPUs only where it is told to, so that in a log without any their number is unknown.
    """
    if not records.select(((pl.col("gpus_req") > 0) | (pl.col("gpus_alloc") > 0)).any()).item():
        return records
    no_gpus_req = pl.col("gpus_req").is_null() & pl.col("req_known")
    no_gpus_alloc = pl.col("gpus_alloc").is_null() & pl.col("alloc_known") & pl.col("start_ms").is_not_null()
    return records.with_columns(
        gpus_req=pl.when(no_gpus_req).then(0.0).otherwise("gpus_req"),
        gpus_alloc=pl.when(no_gpus_alloc).then(0.0).otherwise("gpus_alloc"),
    )


def _without_infinite_limits(records: pl.DataFrame, into: TraceBuilder) -> pl.DataFrame:
    unlimited = records.select(pl.col("limit_s").is_infinite().sum()).item()
    if unlimited:
        into.count(unlimited=unlimited)
        into.note("some jobs have no time limit: limit_s is missing (counted as unlimited)")
    return records.with_columns(limit_s=pl.when(pl.col("limit_s").is_finite()).then("limit_s"))


def _stated_run_s() -> pl.Expr:
    ended = _outcome("job").is_in(["running", "pending"]).not_()
    ran = pl.col("start_ms").is_not_null() | ~pl.col("has_start").fill_null(False)
    return pl.when(ended & ran).then(pl.col("elapsed_s") + pl.col("suspended_s").fill_null(0))


def _so_far(jobs: pl.DataFrame) -> dict[str, pl.Expr]:
    """Return the run time of jobs that still ran as a leftover: it is no run time yet."""
    running = pl.col("end_ms").is_null() & (pl.col("elapsed_s") > 0) & pl.col("run_s").is_null()
    if not jobs.select(running.any()).item():
        return {}
    return {"x_elapsed_s": pl.when(running).then("elapsed_s")}


def _folded(records: pl.DataFrame, into: TraceBuilder) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Return one record per job, and the attempts of the jobs that have several."""
    repeated = records.select(pl.struct("job_id").is_duplicated()).to_series()
    if not repeated.any():
        return records, None
    single, several = records.filter(~repeated), records.filter(repeated)
    several = _chained(_latest_looks(several, into))
    last = several.filter(pl.col("__order__") == pl.col("__order__").last().over(_GROUP))
    names = _own_names(last, into)
    last = last.join(names, on=_GROUP, nulls_equal=True, maintain_order="left").with_columns(
        job_id="__name__",
        submit_ms="__submit__",
        eligible_ms="__eligible__",
        restarts=pl.max_horizontal("restarts", pl.when(pl.col("__restarts__") > 0).then("__restarts__")),
    )
    jobs = pl.concat([single, last.select(single.columns)]).sort("__order__")
    return jobs, _attempts(several.join(names, on=_GROUP, nulls_equal=True, maintain_order="left"))


def _latest_looks(records: pl.DataFrame, into: TraceBuilder) -> pl.DataFrame:
    """Return the records without earlier looks at the same record; an ended one is later than one that goes on."""
    dated = records.filter(pl.col("submit_ms").is_not_null())
    latest = (
        dated.with_columns(__ended__=pl.col("end_ms").is_not_null())
        .sort("__ended__", "__order__")
        .unique([*_KEY, "submit_ms"], keep="last", maintain_order=True)
        .drop("__ended__")
    )
    if len(latest) < len(dated):
        into.count(earlier_looks=len(dated) - len(latest))
        into.note("the log has some records several times: the latest is kept (others counted as earlier_looks)")
    return pl.concat([latest, records.filter(pl.col("submit_ms").is_null())])


def _chained(records: pl.DataFrame) -> pl.DataFrame:
    """Return the records in order of time, numbered by the job they belong to (`__job__` within an id)."""
    records = records.sort(*_KEY, "submit_ms", "__order__")
    goes_on = pl.col("state").replace_strict(
        {word: state.goes_on for word, state in STATES.items()}, default=False, return_dtype=pl.Boolean
    )

    def before(value: pl.Expr) -> pl.Expr:
        return value.shift(1).over(_KEY)

    gap_ms = pl.col("submit_ms") - before(pl.col("end_ms"))
    requeued = before(goes_on) & gap_ms.is_between(-_CLOCK_MS, _LATEST_REQUEUE_MS).fill_null(True)
    brought_back = gap_ms.is_between(0, _LATEST_REQUEUE_OF_ENDED_MS)
    same = [pl.col(name).eq_missing(before(pl.col(name))) for name in ("user", "name")]
    follows = (pl.all_horizontal(*same) & (requeued | brought_back)).fill_null(False)
    resized = follows & (before(pl.col("state")) == "RESIZING").fill_null(False)
    records = records.with_columns(__resized__=resized, __job__=(~follows).cum_sum().over(_KEY))
    first_asked = {
        name: pl.when(~pl.col("__resized__")).then(pl.col(column)).forward_fill().over(_GROUP)
        for name, column in (("__submit__", "submit_ms"), ("__eligible__", "eligible_ms"))
    }
    restarts = (~pl.col("__resized__")).sum().over(_GROUP).cast(pl.Int64) - 1
    return records.with_columns(**first_asked, __restarts__=restarts)


def _own_names(last: pl.DataFrame, into: TraceBuilder) -> pl.DataFrame:
    """Return a name for each job of `_GROUP`: its id, marked where another job had the id before."""
    nth = pl.int_range(1, pl.len() + 1).over("job_id")
    marked = pl.when(nth > 1).then(pl.concat_str("job_id", pl.lit(ID_REPEAT_MARK), nth)).otherwise("job_id")
    names = last.sort("submit_ms", "__order__").select(*_GROUP, __name__=marked)
    others = names.select((pl.col("__name__") != pl.col("job_id")).sum()).item()
    if others:
        into.count(duplicate_ids=others)
        into.note(
            f"{others:,} jobs have an id that an earlier job has too; they are kept as ID{ID_REPEAT_MARK}2, …"
        )
    return names


def _attempts(records: pl.DataFrame) -> pl.DataFrame:
    attempts = records.filter(pl.len().over(_GROUP) > 1)
    return attempts.select(
        job_id="__name__",
        attempt=pl.int_range(pl.len()).over(_GROUP),
        queued_ms="submit_ms",
        start_ms=pl.when("__resized__").then("submit_ms").otherwise("start_ms"),
        end_ms="end_ms",
        outcome=_outcome("attempt"),
        status="status",
        exit_code="exit_code",
        node_list="node_list",
        cpus="cpus_alloc",
        gpus="gpus_alloc",
        mem_bytes="mem_alloc_bytes",
    )


def _add_edges(jobs: pl.DataFrame, into: TraceBuilder) -> None:
    waiting = jobs.select("job_id", "dependency").drop_nulls()
    edges = [
        (job_id, found.depends_on, found.kind, found.delay_s)
        for job_id, text in waiting.iter_rows()
        for found in parse_dependency(text)
    ]
    if edges:
        into.add_edges(pl.DataFrame(edges, schema=["job_id", "depends_on", "kind", "delay_s"], orient="row"))
