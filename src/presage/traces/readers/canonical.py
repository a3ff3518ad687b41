"""What Presage itself writes: Parquet traces and CSV job tables."""

from __future__ import annotations

import io
from dataclasses import fields
from typing import TYPE_CHECKING

import polars as pl

from presage.traces import schema
from presage.traces.files import reading_parquet
from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import Cells, delimited
from presage.traces.trace import SIDE_TABLES, Trace, manifest_in
from presage.traces.writers.csv import LIST_SEPARATOR

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.manifest import Manifest
    from presage.traces.source import Head, Source

_PARQUET_MAGIC = b"PAR1"
_COMPUTED = {"has", "counts", "sources", "notes", "schema_version"}


class ParquetReader(Reader):
    """The canonical tables as `presage trace convert` writes them."""

    format = "parquet"

    def match(self, head: Head) -> int:
        # A foreign Parquet file is claimed too, and then refused with a clear message, unless its own reader
        # is surer: the manifest stands at the end of the file, where the head does not reach.
        return SURE - 1 if head.raw.startswith(_PARQUET_MAGIC) else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        trace = self._load(source)
        into.add_jobs(trace.jobs)
        for name in SIDE_TABLES[:-1]:
            if len(trace.table(name)):
                getattr(into, f"add_{name}")(trace.table(name))
        for file, line, reason, text in trace.rejects.iter_rows():
            into.reject(file, line, reason, text)
        self._adopt(trace.manifest, into)
        return len(trace)

    def finish(self, source: Source, into: TraceBuilder, rows: int | None) -> None:
        # The sources of a trace are the logs it was made from, not the Parquet file on the way.
        del source, into, rows

    def _load(self, source: Source) -> Trace:
        if source.plain_path is not None:
            return Trace.load(source.plain_path)
        content = io.BytesIO(source.read_bytes())
        with reading_parquet(source.name):
            metadata = pl.read_parquet_metadata(content)
            content.seek(0)
            jobs = pl.read_parquet(content)
        return Trace.create(jobs, manifest_in(metadata, source.name))

    def _adopt(self, manifest: Manifest, into: TraceBuilder) -> None:
        into.describe(**{f.name: getattr(manifest, f.name) for f in fields(manifest) if f.name not in _COMPUTED})
        for note in manifest.notes:
            into.note(note)
        for source in manifest.sources:
            into.add_source(source)
        recomputed = {*schema.TABLES, "rejected"}
        into.count(**{name: count for name, count in manifest.counts.items() if name not in recomputed})


class CsvReader(Reader):
    """A CSV whose header consists of canonical job columns, at least `job_id` and `submit_ms`."""

    format = "csv"

    def match(self, head: Head) -> int:
        names = {name.strip() for name in head.lines[0].split(",")} if head.lines else set()
        known = all(name in schema.JOBS or name.startswith(schema.EXTRA_PREFIX) for name in names)
        return SURE if known and {"job_id", "submit_ms"} <= names else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        rows = 0
        for cells in delimited(source, into):
            rows += len(cells.table)
            names = [name for name in cells.table.columns if name in schema.JOBS or name.startswith("x_")]
            into.add_jobs(cells.frame(**{name: typed(cells, name) for name in names}))
        return rows


def typed(cells: Cells, name: str) -> pl.Expr:
    """The cells of the canonical job column `name` (or of a leftover, as text) in its own type."""
    dtype = schema.JOBS.get(name, pl.String)
    if dtype == pl.Int64:
        return cells.integer(name)
    if dtype == pl.Float64:
        return cells.number(name)
    if dtype == schema.STRINGS:
        return cells.text(name).str.split(LIST_SEPARATOR)
    if dtype == pl.Boolean:
        words = {"true": True, "false": False}
        value = cells.text(name).replace_strict(words, default=None, return_dtype=pl.Boolean)
        return cells.checked(name, value, "neither true nor false")
    if dtype == schema.OUTCOME:
        return cells.checked(name, cells.text(name).cast(schema.OUTCOME, strict=False), "not an outcome")
    return cells.text(name)
