"""Writers of traces, one file per format, chosen by name or by the ending of the file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from presage.errors import UsageError
from presage.registry import Registry, Spec
from presage.traces.writers._base import STDOUT, TextWriter, Writer

if TYPE_CHECKING:
    from presage.traces.trace import Trace

__all__ = ["STDOUT", "WRITERS", "TextWriter", "Writer", "choose_writer", "write_trace"]

_HERE = "presage.traces.writers"

WRITERS: Registry[type[Writer]] = Registry(
    "output format",
    "presage.writers",
    [
        Spec("parquet", f"{_HERE}.parquet:ParquetWriter", "the canonical tables, nothing lost"),
        Spec("swf", f"{_HERE}.swf:SwfWriter", "Standard Workload Format, 18 columns"),
        Spec("jsonl", f"{_HERE}.jsonl:JsonLinesWriter", "one JSON object per job"),
        Spec("csv", f"{_HERE}.csv:CsvWriter", "the job table with a header"),
    ],
)

_COMPRESSION = {".gz", ".zst"}


def choose_writer(path: str | Path, format: str | None = None) -> Writer:  # noqa: A002
    """Return the writer named `format`, or else the one for the ending of `path`. Raises UsageError."""
    if format:
        return _fitting(WRITERS.get(format), path)
    endings = [suffix for suffix in map(str.lower, Path(path).suffixes) if suffix not in _COMPRESSION]
    writers = WRITERS.load_all().values()
    for writer in writers:
        if endings and endings[-1] in writer.suffixes:
            return _fitting(writer, path)
    known = ", ".join(suffix for writer in writers for suffix in writer.suffixes)
    raise UsageError(
        f"The ending of {str(path)!r} names no output format",
        expected=f"one of {known}, optionally with .gz or .zst",
        remedy="Say which with --to",
    )


def _fitting(writer: type[Writer], path: str | Path) -> Writer:
    ending = Path(path).suffix
    if ending.lower() in _COMPRESSION and not writer.compresses:
        raise UsageError(
            f"{str(path)!r} asks for a compressed file, and {writer.format} is compressed inside",
            remedy=f"Leave out {ending}",
        )
    return writer()


def write_trace(trace: Trace, path: str | Path, format: str | None = None) -> None:  # noqa: A002
    """Write `trace` to `path` in the named format, or the one its ending says."""
    choose_writer(path, format).write(trace, Path(path))
