"""What a reader pours its rows into, and how a trace comes out of it, in memory or straight to disk."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from presage.errors import RejectedRowsError, UnreadableSourceError, UsageError
from presage.traces import schema
from presage.traces.files import replacing, writing
from presage.traces.manifest import HAS, Machine, Manifest, SourceFile
from presage.traces.trace import (
    METADATA_KEY,
    SIDE_TABLES,
    Trace,
    describe,
    place_of,
    save_side_tables,
    sort_by_submit,
)
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REJECT_TEXT_CHARS = 200
ID_REPEAT_MARK = "~"


@dataclass(frozen=True)
class ReadOptions:
    """What a person may have to tell a reader because the log does not say it.

    Raises UsageError for a time zone that does not exist.
    """

    time_zone: str | None = None
    """Zone of local times that are written without one; None: the log's own if its format knows it, else UTC."""
    fields: tuple[str, ...] = ()
    """Names of the columns of a delimited log that has no header."""
    strict: bool = False
    """Fail if any row is rejected."""

    def __post_init__(self) -> None:
        if self.time_zone is None:
            return
        try:
            pl.Series([0], dtype=pl.Datetime("ms", "UTC")).dt.convert_time_zone(self.time_zone)
        except pl.exceptions.PolarsError:
            raise UsageError(
                f"{self.time_zone!r} is not a time zone", expected="a name like 'Europe/Berlin' or 'UTC'"
            ) from None

    @property
    def time_zone_or_utc(self) -> str:
        """The zone given, or UTC."""
        return self.time_zone or "UTC"


class TraceBuilder:
    """Collects the rows of one trace.

    Readers call `add_jobs` and its siblings with frames that have any subset of the canonical columns (and
    `x_…` leftovers), `reject` for every row they cannot read, and `describe` for what the log says about
    itself. With `spill`, job batches go to that folder instead of staying in memory.
    """

    def __init__(self, options: ReadOptions | None = None, *, spill: Path | None = None) -> None:
        self.options = options or ReadOptions()
        self._spill = spill
        self._jobs: list[pl.DataFrame] = []
        self._queue: list[pl.DataFrame] = []
        self._parts: list[Path] = []
        self._sides: dict[str, list[pl.DataFrame]] = {name: [] for name in SIDE_TABLES}
        self._rejects: list[tuple[str, int | None, str, str]] = []
        self._notes: list[str] = []
        self._counts: Counter[str] = Counter()
        self._sources: list[SourceFile] = []
        self._manifest = Manifest()
        self._told: set[str] = set()
        self._spilled = _Spilled()

    # ---- what readers call

    def add_jobs(self, jobs: pl.DataFrame) -> None:
        """Take a batch of jobs, in the log's order."""
        if not len(jobs):
            return
        batch = schema.conform(jobs, "jobs")
        if self._spill is None:
            self._jobs.append(batch)
            return
        part = self._spill / f"part-{len(self._parts):06d}.parquet"
        with writing(f"The temporary file {str(part)!r}"):
            batch.write_parquet(part, compression="lz4")
        self._parts.append(part)
        self._spilled.observe(batch)

    def add_queue(self, jobs: pl.DataFrame) -> None:
        """Take the whole queue as a scheduler shows it at one instant: the jobs that wait and run, beside a log.

        Of a job that the log has too and that has not ended there, the queue is believed about how it stands. Jobs
        of the log that have not ended and are missing in the queue are left out and counted: they did end, or the
        log lost sight of them.
        """
        if len(jobs):
            self._queue.append(schema.conform(jobs, "jobs"))

    def add_attempts(self, attempts: pl.DataFrame) -> None:
        """Take attempts of jobs."""
        self._sides["attempts"].append(schema.conform(attempts, "attempts"))

    def add_edges(self, edges: pl.DataFrame) -> None:
        """Take dependencies between jobs."""
        self._sides["edges"].append(schema.conform(edges, "edges"))

    def add_nodes(self, nodes: pl.DataFrame) -> None:
        """Take nodes of the machine."""
        self._sides["nodes"].append(schema.conform(nodes, "nodes"))

    def add_snapshots(self, snapshots: pl.DataFrame) -> None:
        """Take observations of nodes."""
        self._sides["snapshots"].append(schema.conform(snapshots, "snapshots"))

    def reject(self, file: str, line: int | None, reason: str, text: str = "") -> None:
        """Record a row that could not be read."""
        self._rejects.append((file, line, _encodable(reason), _encodable(text[:REJECT_TEXT_CHARS])))

    def rejecter(self, file: str) -> Callable[[int, str, str], None]:
        """Return `reject` bound to one file, as `Source` wants it."""
        return lambda line, reason, text: self.reject(file, line, reason, text)

    def note(self, text: str) -> None:
        """Record something a user of the trace should know; repeated notes are kept once."""
        if text not in self._notes:
            self._notes.append(text)

    def count(self, **counts: int) -> None:
        """Add to named counts of the manifest, for example `steps_folded=3`."""
        self._counts.update(counts)

    def describe(self, **fields: Any) -> None:
        """Set fields of the manifest, which may be told several times, once by each file.

        The machine is the largest told, the origin the earliest; time is absolute, and a header is kept, only if
        all agree; acknowledgements add up. Of other fields the last counts.
        """
        for name, combine in _COMBINED.items():
            if name in fields and name in self._told:
                fields[name] = combine(getattr(self._manifest, name), fields[name])
        self._told.update(fields)
        self._manifest = replace(self._manifest, **fields)

    def add_source(self, source: SourceFile) -> None:
        """Record a file that was read."""
        self._sources.append(source)

    # ---- how a trace comes out

    def build(self) -> Trace:
        """Return the trace in memory.

        Raises UnreadableSourceError if nothing at all could be read, RejectedRowsError if the options say
        strict and a row was rejected.
        """
        jobs = _concat(self._jobs) if self._jobs else schema.empty("jobs")
        jobs = self._with_unique_ids(self._with_queue(jobs))
        jobs = self._sorted(jobs)
        sides = self._side_tables()
        self._check(len(jobs), sides)
        trace = Trace(jobs=jobs, manifest=self._finished_manifest(sides["nodes"]), **sides)
        return trace.described()

    def build_file(self, path: Path) -> Manifest:
        """Write the trace to `path` as `Trace.save` does, without holding the jobs in memory; return its manifest.

        Falls back to memory when ids repeat, rows are out of order, leftovers differ between batches, or there is
        a queue, which cannot be mended in passing.
        """
        if self._spill is None or self._queue or not self._parts or not self._spilled.fit_together():
            self._jobs.extend(pl.read_parquet(part) for part in self._parts)
            trace = self.build()
            trace.save(path)
            return trace.manifest
        sides = self._side_tables()
        self._check(self._spilled.jobs, sides)
        counts = {name: len(frame) for name, frame in sides.items() if name != "rejects"}
        counts |= {"jobs": self._spilled.jobs, "rejected": len(sides["rejects"])}
        has = {name: column in self._spilled.present for name, column in HAS.items()}
        manifest = describe(self._finished_manifest(sides["nodes"]), has, counts)
        save_side_tables(path, sides)
        with replacing(path) as partial:
            pl.scan_parquet(self._parts).sink_parquet(partial, metadata={METADATA_KEY: manifest.to_json()})
        return manifest

    def _side_tables(self) -> dict[str, pl.DataFrame]:
        sides = {name: _concat(frames) if frames else schema.empty(name) for name, frames in self._sides.items()}
        sides["rejects"] = pl.DataFrame(self._rejects, schema=schema.REJECTS, orient="row")
        return sides

    def _with_queue(self, jobs: pl.DataFrame) -> pl.DataFrame:
        """Return the jobs of the log as the queue shows them, and those that only the queue has."""
        if not self._queue:
            return jobs
        queue = sort_by_submit(_concat(self._queue).unique("job_id", keep="last", maintain_order=True))
        if not len(jobs):
            return queue
        both = _concat([jobs, queue])
        log, queue = both.head(len(jobs)), both.tail(len(queue))
        is_open = pl.col("end_ms").is_null() & pl.col("outcome").is_in(_UNFINISHED).fill_null(True)
        of_queue = queue.select("job_id", *(pl.col(name).alias(f"{name}__queue__") for name in queue.columns[1:]))
        log = log.with_row_index("__place__").join(of_queue, on="job_id", how="left", maintain_order="left")
        in_queue = pl.col("job_id").is_in(queue["job_id"].implode())
        same_job = in_queue & (is_open | (pl.col("submit_ms") == pl.col("submit_ms__queue__")).fill_null(False))
        seen = log.filter(same_job).select("job_id").unique()
        # Tasks of an array that wait together are one row in a log, and may be many in a queue.
        array_is = pl.col("array_id").is_in(queue["array_id"].drop_nulls().implode()).fill_null(False)
        lost = log.select((is_open & ~in_queue & ~array_is).sum()).item()
        if lost:
            self.count(not_in_queue=lost)
            self.note(f"{counted(lost, 'unfinished job')} of the log, not in the queue: left out")
        believed = same_job & is_open
        log = log.filter(~is_open | in_queue).with_columns(
            pl.when(believed)
            .then(pl.col(f"{name}__queue__") if name in _STANDS else pl.coalesce(f"{name}__queue__", name))
            .otherwise(name)
            .alias(name)
            for name in queue.columns[1:]
        )
        return pl.concat([log.select(queue.columns), queue.join(seen, on="job_id", how="anti")])

    def _with_unique_ids(self, jobs: pl.DataFrame) -> pl.DataFrame:
        if jobs["job_id"].n_unique() == len(jobs):
            return jobs
        repeated = jobs.filter(pl.col("job_id").is_duplicated())
        copies = repeated.filter(~pl.struct(pl.all()).is_first_distinct())
        if len(copies):
            for job_id in copies["job_id"]:
                self.reject(self._any_source(), None, "the same row stands earlier in the log", str(job_id))
            jobs = jobs.filter(pl.struct(pl.all()).is_first_distinct())
        nth = pl.int_range(1, pl.len() + 1).over("job_id")
        renamed = jobs.select((nth > 1).sum()).item()
        if renamed:
            self.count(duplicate_ids=renamed)
            jobs_named = counted(renamed, "job")
            self.note(f"{jobs_named} with an id that an earlier job has too, kept as ID{ID_REPEAT_MARK}2, …")
            suffixed = pl.concat_str("job_id", pl.lit(ID_REPEAT_MARK), nth)
            jobs = jobs.with_columns(job_id=pl.when(nth > 1).then(suffixed).otherwise("job_id"))
        return jobs

    def _sorted(self, jobs: pl.DataFrame) -> pl.DataFrame:
        ordered = sort_by_submit(jobs)
        if ordered is not jobs:
            late = jobs.select((pl.col("submit_ms") < pl.col("submit_ms").cum_max().shift(1)).sum()).item()
            if late:
                self.note(f"{counted(late, 'row')} of the log not in submit order; the trace is sorted")
        return ordered

    def _finished_manifest(self, nodes: pl.DataFrame) -> Manifest:
        manifest = replace(self._manifest, sources=tuple(self._sources), notes=tuple(self._notes))
        if not manifest.name and self._sources:
            manifest = replace(manifest, name=self._sources[0].name)
        if len(nodes):
            manifest = replace(manifest, machine=_merge(_machine_of(nodes), manifest.machine))
        return manifest.with_counts(**self._counts)

    def _check(self, jobs: int, sides: dict[str, pl.DataFrame]) -> None:
        rejects = sides["rejects"]
        if self.options.strict and len(rejects):
            first = rejects.row(0, named=True)
            rows = counted(len(rejects), "row")
            raise RejectedRowsError(
                f"{rows} cannot be read; the first is {place_of(first)}: {first['reason']}",
                expected="none, because strictness was asked for",
                remedy="Mend the log, or read it without --strict and look at the rejects",
            )
        if not jobs and not any(len(sides[name]) for name in ("attempts", "nodes", "snapshots")):
            reason = ""
            if len(rejects):
                reason = f"; {counted(len(rejects), 'row')} rejected, the first because: {rejects['reason'][0]}"
            raise UnreadableSourceError(
                f"{self._any_source()} has no job that can be read{reason}",
                expected="at least one job",
                remedy="Check the format: `presage trace formats` lists them, --format chooses one",
            )

    def _any_source(self) -> str:
        return self._sources[0].name if self._sources else "the source"


_UNFINISHED = ["pending", "running"]
_STANDS = frozenset({"start_ms", "end_ms", "wait_s", "run_s", "outcome", "status"})
"""Columns that say how a job stands: of these, nothing that the log says is kept beside a queue."""


class _Spilled:
    """What must be known of batches that are no longer in memory."""

    def __init__(self) -> None:
        self.jobs = 0
        self.present: set[str] = set()
        self._schemas: set[tuple[tuple[str, pl.DataType], ...]] = set()
        self._id_hashes: list[pl.Series] = []
        self._last_submit_ms: int | None = None
        self._ordered = True

    def observe(self, batch: pl.DataFrame) -> None:
        self.jobs += len(batch)
        self.present |= {column for column in batch.columns if batch[column].null_count() < len(batch)}
        self._schemas.add(tuple(batch.schema.items()))
        self._id_hashes.append(batch["job_id"].hash())
        submit = batch["submit_ms"]
        first, last = submit[0], submit[-1]
        after_previous = self._last_submit_ms is None or (first is not None and first >= self._last_submit_ms)
        self._ordered &= bool(not submit.null_count() and submit.is_sorted() and after_previous)
        self._last_submit_ms = last

    def fit_together(self) -> bool:
        """Return whether the batches, one behind the other, are the job table."""
        alike = len(self._schemas) == 1
        return alike and self._ordered and pl.concat(self._id_hashes).n_unique() == self.jobs


def _concat(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the frames as one; a leftover column whose types have nothing in common becomes text."""
    try:
        return pl.concat(frames, how="diagonal_relaxed")
    except pl.exceptions.PolarsError:
        types: dict[str, set[pl.DataType]] = {}
        for frame in frames:
            for name, dtype in frame.schema.items():
                types.setdefault(name, set()).add(dtype)
        mixed = [name for name, found in types.items() if len(found) > 1]
        return pl.concat([_as_texts(frame, mixed) for frame in frames], how="diagonal_relaxed")


def _as_texts(frame: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    def texts(values: pl.Series) -> pl.Series:
        cells = [None if value is None else str(value) for value in values.to_list()]
        return pl.Series(values.name, cells, dtype=pl.String)

    return frame.with_columns(texts(frame[name]) for name in columns if name in frame.columns)


def _encodable(text: str) -> str:
    # JSON may escape half a surrogate pair, which no UTF-8 text can hold.
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode()


def _larger(one: Machine, other: Machine) -> Machine:
    """Return the larger of each count that is known."""

    def most(name: str) -> Any:
        known = [value for value in (getattr(one, name), getattr(other, name)) if value is not None]
        return max(known, default=None)

    return Machine(nodes=most("nodes"), cpus=most("cpus"), gpus=most("gpus"), mem_bytes=most("mem_bytes"))


def _both(one: str | None, other: str | None) -> str | None:
    return f"{one}; {other}" if one and other and other not in one else one or other


_COMBINED: dict[str, Callable[[Any, Any], Any]] = {
    "machine": _larger,
    "origin_ms": min,
    "absolute_time": lambda one, other: one and other,
    "header": lambda one, other: one if one == other else (),
    "acknowledgement": _both,
}
"""Field of the manifest → how what two files tell is put together."""


def _merge(known: Machine, more: Machine) -> Machine:
    """Return `more`, with what it does not know taken from `known`."""
    return Machine(
        nodes=more.nodes if more.nodes is not None else known.nodes,
        cpus=more.cpus if more.cpus is not None else known.cpus,
        gpus=more.gpus if more.gpus is not None else known.gpus,
        mem_bytes=more.mem_bytes if more.mem_bytes is not None else known.mem_bytes,
    )


def _machine_of(nodes: pl.DataFrame) -> Machine:
    def total(column: str) -> Any:
        return nodes[column].sum() if nodes[column].null_count() < len(nodes) else None

    return Machine(nodes=len(nodes), cpus=total("cpus"), gpus=total("gpus"), mem_bytes=total("mem_bytes"))
