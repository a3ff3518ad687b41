"""The contract of a trace writer."""

from __future__ import annotations

import gzip
import io
import sys
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, ClassVar

import zstandard

from presage.traces.files import replacing, writing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from presage.traces.trace import Trace

STDOUT = "-"


class Writer(ABC):
    """Writes traces in one format.

    `write` either produces the whole file or leaves what was there before. A writer may lose what its format
    cannot say, and says so in its class docstring.
    """

    format: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    """File name endings, in small letters and without compression, that choose this writer."""
    compresses: ClassVar[bool] = False
    """Whether a further ending .gz or .zst compresses the file; False for formats that are compressed inside."""

    @abstractmethod
    def write(self, trace: Trace, path: Path) -> None:
        """Write `trace` to `path`."""


class TextWriter(Writer):
    """A writer of text, compressed by the ending of the path (.gz, .zst); "-" is standard output."""

    compresses = True

    @abstractmethod
    def write_text(self, trace: Trace, stream: IO[bytes]) -> None:
        """Write `trace` to `stream` as UTF-8."""

    def write(self, trace: Trace, path: Path) -> None:
        if str(path) == STDOUT:
            # Not written to the pipe directly: polars would report a reader that went away as any other error.
            buffer = io.BytesIO()
            self.write_text(trace, buffer)
            with writing("Standard output"):
                sys.stdout.buffer.write(buffer.getbuffer())
                sys.stdout.flush()
            return
        with replacing(path) as partial, _compressed(partial, path.suffix.lower()) as stream:
            self.write_text(trace, stream)


@contextmanager
def _compressed(path: Path, suffix: str) -> Iterator[IO[bytes]]:
    with path.open("wb") as raw:
        if suffix == ".gz":
            # No name and no time inside, so that the same trace gives the same bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as stream:
                yield stream  # type: ignore[misc]  # GzipFile writes bytes like any IO[bytes]
        elif suffix == ".zst":
            with zstandard.ZstdCompressor(level=6).stream_writer(raw, closefd=False) as stream:
                yield stream
        else:
            yield raw
