"""JSON lines: one object per job with the canonical column names."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from presage.traces.writers._base import TextWriter

if TYPE_CHECKING:
    import polars as pl

    from presage.traces.trace import Trace


class JsonLinesWriter(TextWriter):
    """The job table without columns that are all null; the other tables and the manifest are lost."""

    format = "jsonl"
    suffixes = (".jsonl", ".ndjson")

    def write_text(self, trace: Trace, stream: IO[bytes]) -> None:
        filled_columns(trace.jobs).write_ndjson(stream)


def filled_columns(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs without the columns that hold nothing; `job_id` and `submit_ms` always stay."""
    nulls = jobs.null_count().row(0, named=True)
    kept = [name for name, count in nulls.items() if count < len(jobs) or name in {"job_id", "submit_ms"}]
    return jobs.select(kept)
