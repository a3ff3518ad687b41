"""JSON lines: one object per line, either plain records or the job table that Presage writes.

A plain record is `{"job_id", "timestamp", "cpu_req", "mem_req", "queue", "status", "user"}`, of which only the
`job_id` must be there:

- `timestamp`: ISO text, or a number since 1970 (seconds; milliseconds and finer are told by their size).
- `mem_req`: bytes, or a text with a unit ("4Gi", "512M", "2048 MB"). Units are powers of 1024 with and without
  the `i`, as batch schedulers count them.
- `status`: a word for queued, running or ended, as schedulers use them; an unknown word gives no outcome.

If some job has records of different phases (queued, running, ended), the records are events: they are folded
into one job each, a record's timestamp being the time at which its status began. Records that repeat a phase
only confirm it. A job whose first record is not a queued one has no known submit time. A job that ran more
than once has its runs in the attempts. If no job has, every record is a whole job and its timestamp is the
submit time.

Keys that are canonical column names are taken as they are, and win over what is folded. Other keys are kept as
text under `x_<key>`. An object with `submit_ms` and without `timestamp` is a row of the canonical job table.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from presage.traces import schema
from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import BATCH_ROWS, Cells, json_lines, records
from presage.traces.readers._times import milliseconds, note_own_zero, with_stated_spans
from presage.traces.readers.canonical import typed
from presage.traces.schema import EXTRA_PREFIX, OUTCOME, Outcome
from presage.traces.writers.csv import LIST_SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

    Record = tuple[int, dict[str, Any]]

_PLAIN = ("timestamp", "cpu_req", "mem_req")
_MAX_LEFTOVERS = 200
_TIME, _ORDER, _PHASE = "__time__", "__order__", "__phase__"
_QUEUED, _STARTED, _ENDED = 0, 1, 2
_UNIT_BYTES = {unit: 1024**power for power, unit in enumerate(["", "K", "M", "G", "T", "P", "E"])}

WORDS = {
    Outcome.PENDING: "submit submitted queue queued pending wait waiting created accepted new held configuring",
    Outcome.RUNNING: "run running start started executing active completing",
    Outcome.COMPLETED: "complete completed success successful succeeded finish finished done ok exited",
    Outcome.FAILED: "fail failed failure error errored bootfail deadline",
    Outcome.CANCELLED: "cancel cancelled canceled kill killed abort aborted deleted removed stopped revoked",
    Outcome.TIMEOUT: "timeout timedout timelimit walltime walltimeexceeded",
    Outcome.OUT_OF_MEMORY: "oom oomkilled outofmemory outofmem",
    Outcome.NODE_FAILURE: "nodefail nodefailed nodefailure nodelost lost",
    Outcome.PREEMPTED: "preempt preempted evict evicted",
    Outcome.REQUEUED: "requeue requeued",
    Outcome.SUSPENDED: "suspend suspended paused",
}
"""The status words that are known, without case, blanks, hyphens and underscores."""

_OUTCOME_OF = {word: outcome.value for outcome, words in WORDS.items() for word in words.split()}
_PHASE_OF = {outcome.value: _ENDED for outcome in Outcome} | {
    Outcome.PENDING.value: _QUEUED,
    Outcome.RUNNING.value: _STARTED,
}
_STANDING = {Outcome.REQUEUED.value: Outcome.PENDING.value, Outcome.SUSPENDED.value: Outcome.RUNNING.value}
"""What a job is that was left in a state which only attempts can have."""


class JsonRecordsReader(Reader):
    """Plain JSON records of jobs or of their events, and the canonical job table as JSON lines."""

    format = "jsonl"

    def match(self, head: Head) -> int:
        if head.is_binary or not head.lines:
            return NO
        try:
            first = json.loads(head.lines[0])
        except (ValueError, RecursionError):
            return NO
        fits = isinstance(first, dict) and "job_id" in first and ("timestamp" in first or "submit_ms" in first)
        return SURE if fits else NO

    def read(self, sources: Sequence[Source], into: TraceBuilder) -> None:
        # Events of one job may stand in different files, so nothing can be folded before all are read.
        plain: list[pl.DataFrame] = []
        for source in sources:
            rows = _collect(source, into, plain)
            self.finish(source, into, rows)
        _pour_plain(plain, into)

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        plain: list[pl.DataFrame] = []
        rows = _collect(source, into, plain)
        _pour_plain(plain, into)
        return rows


def _collect(source: Source, into: TraceBuilder, plain: list[pl.DataFrame]) -> int:
    rows = 0
    for batch in _batches(json_lines(source, into)):
        rows += len(batch)
        _pour(batch, source, into, plain)
    return rows


def _batches(items: Iterable[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    for item in items:
        batch.append(item)
        if len(batch) >= BATCH_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


def _pour(batch: list[Record], source: Source, into: TraceBuilder, plain: list[pl.DataFrame]) -> None:
    """Give canonical rows to `into` and append the frame of plain records to `plain`."""
    canonical: list[Record] = []
    others: list[Record] = []
    for line, record in batch:
        job_id = record.get("job_id")
        if job_id is None or not str(job_id).strip():
            into.reject(source.name, line, "there is no job_id", json.dumps(record))
        elif "submit_ms" in record and "timestamp" not in record:
            canonical.append((line, _with_flat_lists(record)))
        else:
            others.append((line, _with_flat_lists(record)))
    if canonical:
        cells = records(_without_excess(canonical, into), source, into)
        into.add_jobs(cells.frame(**_columns(cells)))
    if others:
        plain.append(_plain_frame(records(_without_excess(others, into), source, into)))


def _without_excess(batch: list[Record], into: TraceBuilder) -> list[Record]:
    """Return the records with at most `_MAX_LEFTOVERS` keys that are no canonical columns.

    Records whose keys are data (an id, a date) would otherwise make as many columns as rows.
    """
    names = dict.fromkeys(name for _, record in batch for name in record)
    leftovers = [name for name in names if name not in schema.JOBS and name not in _PLAIN]
    excess = set(leftovers[_MAX_LEFTOVERS:])
    if not excess:
        return batch
    into.note(f"the records have {len(leftovers):,} keys of their own; the first {_MAX_LEFTOVERS} were kept")
    return [(line, {key: record[key] for key in record if key not in excess}) for line, record in batch]


def _with_flat_lists(record: dict[str, Any]) -> dict[str, Any]:
    nodes = record.get("node_list")
    if isinstance(nodes, list):
        return {**record, "node_list": LIST_SEPARATOR.join(str(node) for node in nodes)}
    return record


def _columns(cells: Cells) -> dict[str, pl.Expr]:
    """Return the canonical columns of the records and the leftovers under their prefix."""
    names = [name for name in cells.table.columns if name not in _PLAIN and not name.startswith("__")]
    canonical = {name: typed(cells, name) for name in names if name in schema.JOBS}
    leftovers = {
        name if name.startswith(EXTRA_PREFIX) else EXTRA_PREFIX + name: cells.text(name)
        for name in names
        if name not in schema.JOBS
    }
    return {**leftovers, **canonical}


def _plain_frame(cells: Cells) -> pl.DataFrame:
    """Return typed columns with the time and the outcome of each record."""
    columns = _columns(cells)
    word = cells.text("status").str.to_lowercase().str.replace_all(r"[\s_-]+|by\s+\S+$", "")
    outcome = word.replace_strict(_OUTCOME_OF, default=None, return_dtype=pl.String).cast(OUTCOME)
    columns["outcome"] = pl.coalesce(columns.get("outcome", pl.lit(None, OUTCOME)), outcome)
    columns["cpus_req"] = pl.coalesce(columns.get("cpus_req", pl.lit(None, pl.Float64)), cells.count("cpu_req"))
    memory = _size_bytes(cells, "mem_req")
    columns["mem_req_bytes"] = pl.coalesce(columns.get("mem_req_bytes", pl.lit(None, pl.Int64)), memory)
    return cells.frame(**columns, **{_TIME: cells.time_ms("timestamp")})


def _size_bytes(cells: Cells, column: str) -> pl.Expr:
    parts = (
        cells.text(column).str.to_uppercase().str.extract_groups(r"^([0-9.]+(?:E[+]?[0-9]+)?)\s*([KMGTPE]?)I?B?$")
    )
    number = parts.struct.field("1").cast(pl.Float64, strict=False)
    unit = parts.struct.field("2").replace_strict(_UNIT_BYTES, default=None, return_dtype=pl.Float64)
    size = (number * unit).round().cast(pl.Int64, strict=False)
    return cells.checked(column, size, "not a size in memory")


def _pour_plain(frames: list[pl.DataFrame], into: TraceBuilder) -> None:
    if not frames:
        return
    frame = (
        pl.concat(frames, how="diagonal")
        .with_row_index(_ORDER)
        .with_columns(
            pl.col("outcome")
            .cast(pl.String)
            .replace_strict(_PHASE_OF, default=None, return_dtype=pl.Int8)
            .alias(_PHASE)
        )
    )
    _describe(frame, into)
    phases_of_a_job = frame.group_by("job_id").agg(pl.col(_PHASE).drop_nulls().n_unique())[_PHASE].max()
    if isinstance(phases_of_a_job, int) and phases_of_a_job > 1:
        jobs = _fold(frame, into)
    else:
        jobs = frame.rename({_TIME: "submit"})
    into.add_jobs(with_stated_spans(_with_times(jobs), into))


def _describe(frame: pl.DataFrame, into: TraceBuilder) -> None:
    note_own_zero(frame[_TIME], into)
    if "status" in frame.columns:
        unknown = frame.filter(pl.col("status").is_not_null() & pl.col("outcome").is_null())["status"]
        if len(unknown):
            shown = ", ".join(unknown.unique(maintain_order=True).head(5))
            into.note(f"{len(unknown):,} records have a status word that is not known, for example {shown}")


def _fold(frame: pl.DataFrame, into: TraceBuilder) -> pl.DataFrame:
    """Return one row per job: the last known value of every column, and when it was queued, started and ended."""
    events = frame.sort("job_id", _TIME, _ORDER, nulls_last=False)
    changes = _changes(events)
    attempts = _attempts(changes)
    if len(attempts):
        into.add_attempts(attempts)
    kept = [name for name in frame.columns if name not in {"job_id", _ORDER, _TIME, _PHASE}]
    merged = events.group_by("job_id").agg(pl.col(_ORDER).first(), pl.col(kept).drop_nulls().last())
    into.count(events_folded=len(events) - len(merged))
    return merged.sort(_ORDER).join(_times(changes), on="job_id", how="left", maintain_order="left")


def _changes(events: pl.DataFrame) -> pl.DataFrame:
    """Return the events at which a job's phase changed, each with the change before and behind it."""
    known = events.filter(pl.col(_PHASE).is_not_null() & pl.col(_TIME).is_not_null())
    before = pl.col(_PHASE).shift(1).over("job_id")
    changed = known.filter(before.is_null() | (before != pl.col(_PHASE)))
    return changed.with_columns(
        previous=pl.col(_TIME).shift(1).over("job_id"),
        previous_phase=before,
        next=pl.col(_TIME).shift(-1).over("job_id"),
        next_phase=pl.col(_PHASE).shift(-1).over("job_id"),
        next_outcome=pl.col("outcome").shift(-1).over("job_id"),
    )


def _attempts(changes: pl.DataFrame) -> pl.DataFrame:
    """Return the runs of jobs that ran more than once; a run ends with whatever comes next."""
    runs = changes.filter(pl.col(_PHASE) == _STARTED)
    queued_again = pl.col("next_phase") == _QUEUED
    return runs.filter(pl.len().over("job_id") > 1).select(
        "job_id",
        attempt=pl.int_range(pl.len()).over("job_id"),
        queued_ms=pl.when(pl.col("previous_phase") == _QUEUED).then("previous"),
        start_ms=_TIME,
        end_ms="next",
        outcome=pl.when(queued_again)
        .then(pl.lit(Outcome.REQUEUED.value, OUTCOME))
        .otherwise(pl.coalesce("next_outcome", pl.lit(Outcome.RUNNING.value, OUTCOME))),
    )


def _times(changes: pl.DataFrame) -> pl.DataFrame:
    """Return when each job was submitted, and when its last run started and ended; a job queued again has none."""
    jobs = changes.group_by("job_id").agg(
        pl.col(_PHASE, _TIME, "previous", "previous_phase").last(),
        submit=pl.when(pl.col(_PHASE).first() == _QUEUED).then(pl.col(_TIME).first()),
        runs=(pl.col(_PHASE) == _STARTED).sum().cast(pl.Int64),
    )
    runs_still, has_ended = pl.col(_PHASE) == _STARTED, pl.col(_PHASE) == _ENDED
    had_started = has_ended & (pl.col("previous_phase") == _STARTED)
    return jobs.select(
        "job_id",
        "submit",
        start=pl.when(runs_still).then(_TIME).when(had_started).then("previous"),
        end=pl.when(has_ended).then(_TIME),
        again=pl.when(pl.col("runs") > 0).then(pl.col("runs") - 1),
    )


def _with_times(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return canonical jobs: times as given, else as folded, else worked out from the durations given."""

    def known(dtype: type[pl.DataType], *names: str) -> pl.Expr:
        return pl.coalesce(*(name for name in names if name in jobs.columns), pl.lit(None)).cast(dtype)

    submit_ms = known(pl.Int64, "submit_ms", "submit")
    start_ms = pl.coalesce(
        known(pl.Int64, "start_ms", "start"), submit_ms + milliseconds(known(pl.Float64, "wait_s"))
    )
    folded = {"submit", "start", "end", "again", _ORDER, _PHASE, _TIME} & set(jobs.columns)
    return jobs.with_columns(
        pl.col("outcome").cast(pl.String).replace(_STANDING).cast(OUTCOME),
        submit_ms=submit_ms,
        start_ms=start_ms,
        end_ms=pl.coalesce(known(pl.Int64, "end_ms", "end"), start_ms + milliseconds(known(pl.Float64, "run_s"))),
        wait_s=known(pl.Float64, "wait_s"),
        run_s=known(pl.Float64, "run_s"),
        restarts=known(pl.Int64, "restarts", "again"),
    ).drop(folded)
