"""Parquet: the canonical tables and the manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.errors import UsageError
from presage.traces.writers._base import STDOUT, Writer

if TYPE_CHECKING:
    from pathlib import Path

    from presage.traces.trace import Trace


class ParquetWriter(Writer):
    """All tables and the manifest; nothing is lost. Side tables go to files beside the named one."""

    format = "parquet"
    suffixes = (".parquet",)

    def write(self, trace: Trace, path: Path) -> None:
        if str(path) == STDOUT:
            raise UsageError(
                "Parquet cannot be written to standard output", remedy="Name a file, or use --to jsonl"
            )
        trace.save(path)
