"""CSV: the job table with a header of canonical column names."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import polars as pl

from presage.traces.writers._base import TextWriter
from presage.traces.writers.jsonl import filled_columns

if TYPE_CHECKING:
    from presage.traces.trace import Trace

LIST_SEPARATOR = ";"


class CsvWriter(TextWriter):
    """The job table without columns that are all null, lists joined by semicolons; the rest is lost."""

    format = "csv"
    suffixes = (".csv",)

    def write_text(self, trace: Trace, stream: IO[bytes]) -> None:
        filled = filled_columns(trace.jobs)
        lists = [name for name, dtype in filled.schema.items() if isinstance(dtype, pl.List)]
        filled.with_columns(pl.col(lists).list.join(LIST_SEPARATOR)).write_csv(stream)
