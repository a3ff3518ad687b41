"""Where the bytes of a log come from: a file, a pipe or standard input, plain or compressed, read in blocks.

Nothing here knows a format. What this module promises to readers: a stream that is cut off, damaged or empty
is one clear error; a line that is too long is reported and skipped; text that is not UTF-8 is read as Latin-1
line by line and counted; memory stays bounded by the block size.
"""

from __future__ import annotations

import bz2
import io
import lzma
import shutil
import sys
import tempfile
import weakref
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import zstandard

from presage.errors import UnreadableSourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Reject = Callable[[int, str, str], None]
    """Called with line number, reason, beginning of the text."""

STDIN = "-"
PARQUET_MAGIC = b"PAR1"
HEAD_BYTES = 64 * 1024
BLOCK_BYTES = 8 * 1024 * 1024
DEFAULT_MAX_LINE_BYTES = 16 * 1024 * 1024
_COMPRESSED_CHUNK_BYTES = 64 * 1024  # small, so that a decompression bomb cannot fill the memory in one step
_REJECT_TEXT_CHARS = 200
_BOM = b"\xef\xbb\xbf"
_MAGIC_BYTES = 6

_DECOMPRESSORS: dict[bytes, tuple[str, Callable[[], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda: zlib.decompressobj(wbits=31)),
    b"\x28\xb5\x2f\xfd": ("zstd", lambda: zstandard.ZstdDecompressor().decompressobj()),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\x00": ("xz", lzma.LZMADecompressor),
}


@dataclass(frozen=True)
class Head:
    """The beginning of a source: what readers recognise their format by."""

    name: str
    """The file's name without folders and without .gz, .zst …"""
    raw: bytes
    tail: bytes = b""
    """The end of a Parquet file, which has its column names there; empty for every other."""

    @cached_property
    def is_binary(self) -> bool:
        """True if this is no text in any encoding that the readers take."""
        return b"\0" in self.raw

    @cached_property
    def text(self) -> str:
        """The beginning as text, for recognition only."""
        return self.raw.removeprefix(_BOM).decode("utf-8", errors="replace")

    @cached_property
    def lines(self) -> list[str]:
        """The non-blank lines of the beginning, the last possibly cut off."""
        return [line for line in self.text.splitlines() if line.strip()]


class Source:
    """One log to read. `where` is a path, or "-" for standard input."""

    def __init__(
        self,
        where: str | Path,
        *,
        max_line_bytes: int = DEFAULT_MAX_LINE_BYTES,
        on_bytes: Callable[[int], None] | None = None,
    ) -> None:
        self.is_stdin = str(where) == STDIN
        self.path = None if self.is_stdin else Path(where)
        self.name = "<stdin>" if self.is_stdin else Path(where).name
        self.max_line_bytes = max_line_bytes
        self.lines_not_utf8 = 0
        self._on_bytes = on_bytes
        self._spool: IO[bytes] | None = None

    @cached_property
    def head(self) -> Head:
        """The beginning of the decompressed bytes. Raises UnreadableSourceError if there are none."""
        with self._open(on_bytes=None) as stream:
            raw = b"".join(_chunks(stream, HEAD_BYTES))
        if not raw.strip():
            raise UnreadableSourceError(
                f"{self.name} is empty", expected="a job log", remedy="Check how the file was made"
            )
        bare = Path(self.name)
        while bare.suffix.lower() in {".gz", ".zst", ".bz2", ".xz"}:
            bare = bare.with_suffix("")
        return Head(bare.name, raw, self._tail() if raw.startswith(PARQUET_MAGIC) else b"")

    @cached_property
    def plain_path(self) -> Path | None:
        """The path, where the bytes on disk are those of the log: neither compressed nor out of a pipe."""
        with self._raw() as raw:
            compressed = _codec(_read(raw, _MAGIC_BYTES, self.name)) is not None
        return None if compressed or self._spool is not None else self.path

    def size_bytes(self) -> int | None:
        """Return the size on disk, None for standard input and pipes."""
        return self.path.stat().st_size if self.path and self.path.is_file() else None

    def open(self) -> IO[bytes]:
        """Return the decompressed bytes from the beginning."""
        return self._open(self._on_bytes)

    def read_bytes(self) -> bytes:
        """Return all decompressed bytes; for formats that are one document."""
        with self.open() as stream:
            return b"".join(_chunks(stream, None))

    def read_text(self) -> str:
        """Return the whole document as text."""
        return self._decode(self.read_bytes().removeprefix(_BOM))

    def blocks(self, reject: Reject, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, bytes]]:
        """Yield (number of the first line, bytes of whole lines), each block ending in a newline.

        A line longer than `max_line_bytes` is rejected and left out.
        """
        pending = b""
        line = 1
        with self.open() as stream:
            while chunk := stream.read(block_bytes):
                cut = chunk.rfind(b"\n") + 1
                if cut:
                    block = b"".join((pending, memoryview(chunk)[:cut]))
                    pending = chunk[cut:]
                    yield line, self._without_long_lines(block, line, reject)
                    line += block.count(b"\n")
                    continue
                pending += chunk
                if len(pending) > self.max_line_bytes:
                    self._reject_long(reject, line, pending)
                    _skip_line(stream, block_bytes)
                    pending = b""
                    line += 1
        if pending:
            yield line, self._without_long_lines(pending + b"\n", line, reject)

    def lines(self, reject: Reject) -> Iterator[tuple[int, str]]:
        """Yield (line number, text without its end) for every line that is not blank."""
        for first, block in self.blocks(reject, block_bytes=1024 * 1024):
            for number, raw in enumerate(block.split(b"\n")[:-1], start=first):
                line = self._decode(raw.removeprefix(_BOM) if number == 1 else raw).rstrip("\r")
                if line and not line.isspace():
                    yield number, line

    def as_utf8(self, block: bytes) -> bytes:
        """Return `block` as valid UTF-8, reading the lines that are not as Latin-1."""
        if block.isascii():
            return block
        try:
            block.decode()
        except UnicodeDecodeError:
            return b"\n".join(self._decode(line).encode() for line in block.split(b"\n"))
        return block

    def _decode(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.lines_not_utf8 += 1
            return raw.decode("latin-1")

    def _without_long_lines(self, block: bytes, first_line: int, reject: Reject) -> bytes:
        if len(block) <= self.max_line_bytes:
            return block
        lines = block.split(b"\n")
        for offset, line in enumerate(lines):
            if len(line) > self.max_line_bytes:
                self._reject_long(reject, first_line + offset, line)
                lines[offset] = b""  # keeps the numbers of the lines behind it
        return b"\n".join(lines)

    def _reject_long(self, reject: Reject, line: int, raw: bytes) -> None:
        limit_mib = self.max_line_bytes / 2**20
        text = raw[:_REJECT_TEXT_CHARS].decode("utf-8", errors="replace")
        reject(line, f"the line is longer than {limit_mib:g} MiB", text)

    def _open(self, on_bytes: Callable[[int], None] | None) -> IO[bytes]:
        raw = self._raw()
        try:
            prefix = _codec(_read(raw, _MAGIC_BYTES, self.name))
        except UnreadableSourceError:
            raw.close()
            raise
        raw.seek(0)
        if prefix is not None:
            codec, make = _DECOMPRESSORS[prefix]
            return io.BufferedReader(_Inflated(raw, prefix, codec, make, self.name, on_bytes))
        return io.BufferedReader(_Plain(raw, self.name, on_bytes))

    def _raw(self) -> IO[bytes]:
        """Return the bytes as they come, from the beginning."""
        if self._spool is None:
            stream = _stdin() if self.is_stdin else self._open_file()
            if not self.is_stdin and stream.seekable():
                return stream
            self._spool = self._spooled(stream)
            if not self.is_stdin:
                stream.close()
        self._spool.seek(0)
        return io.BufferedReader(_Borrowed(self._spool))

    def _tail(self) -> bytes:
        if self.plain_path is not None:  # no need to read through it
            with self._raw() as file:
                file.seek(max(0, file.seek(0, io.SEEK_END) - HEAD_BYTES))
                return _read(file, HEAD_BYTES, self.name)
        tail = b""
        with self._open(on_bytes=None) as stream:
            for chunk in _chunks(stream, None):
                tail = (tail + chunk)[-HEAD_BYTES:]
        return tail

    def _open_file(self) -> IO[bytes]:
        assert self.path is not None  # noqa: S101  (narrowing for the type checker)
        try:
            if self.path.is_dir():
                raise UnreadableSourceError(
                    f"{self.path} is a folder", expected="a file", remedy="Name the files inside it"
                )
            return self.path.open("rb")
        except FileNotFoundError:
            raise UnreadableSourceError(
                f"There is no file {str(self.path)!r}", remedy="Check the name; '-' reads standard input"
            ) from None
        except OSError as error:
            raise UnreadableSourceError(f"{self.path} cannot be opened: {error.strerror}") from None

    def _spooled(self, stream: IO[bytes]) -> IO[bytes]:
        # Recognition and reading both start at the beginning, which a pipe gives only once.
        spool: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=64 * 1024 * 1024)  # noqa: SIM115
        weakref.finalize(self, spool.close)
        try:
            shutil.copyfileobj(stream, spool)
        except OSError as error:
            raise UnreadableSourceError(
                f"{self.name} cannot be read into a temporary file: {error.strerror or error}",
                remedy="Check where it comes from, and the space for temporary files (TMPDIR names the folder)",
            ) from None
        return spool


class _Borrowed(io.RawIOBase):
    """A stream whose `close` leaves the spooled bytes open."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._stream.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        chunk = self._stream.read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)


class _Plain(io.RawIOBase):
    """Uncompressed bytes that report progress."""

    def __init__(self, raw: IO[bytes], name: str, on_bytes: Callable[[int], None] | None) -> None:
        self._raw = raw
        self._name = name
        self._on_bytes = on_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = _read(self._raw, len(buffer), self._name)
        buffer[: len(chunk)] = chunk
        if self._on_bytes:
            self._on_bytes(len(chunk))
        return len(chunk)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Inflated(io.RawIOBase):
    """Decompressed bytes of any codec with the standard library's decompressor-object protocol."""

    def __init__(
        self,
        raw: IO[bytes],
        magic: bytes,
        codec: str,
        make: Callable[[], Any],
        name: str,
        on_bytes: Callable[[int], None] | None,
    ) -> None:
        self._raw = raw
        self._magic = magic
        self._codec = codec
        self._make = make
        self._name = name
        self._on_bytes = on_bytes
        self._decompressor = make()
        self._ready = memoryview(b"")
        self._produced = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            if not self._advance():
                return 0
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()

    def _advance(self) -> bool:
        """Decompress one more chunk; return False at the end of the stream."""
        chunk = self._next_chunk()
        if not chunk:
            if not self._decompressor.eof:
                self._fail(f"ends in the middle of its {self._codec} stream")
            return False
        try:
            self._ready = memoryview(self._decompressor.decompress(chunk))
        except (zlib.error, OSError, lzma.LZMAError, EOFError, zstandard.ZstdError) as error:
            self._fail(f"is damaged: {error}")
        self._produced += len(self._ready)
        return True

    def _next_chunk(self) -> bytes:
        if self._decompressor.eof:
            rest: bytes = self._decompressor.unused_data or _read(self._raw, _COMPRESSED_CHUNK_BYTES, self._name)
            rest = rest.lstrip(b"\0")  # tape padding is harmless
            if not rest:
                return b""
            if not rest.startswith(self._magic[: len(rest)]):
                self._fail(f"has bytes behind its {self._codec} stream that are no {self._codec}")
            self._decompressor = self._make()
            return rest
        chunk = _read(self._raw, _COMPRESSED_CHUNK_BYTES, self._name)
        if self._on_bytes:
            self._on_bytes(len(chunk))
        return chunk

    def _fail(self, what: str) -> None:
        raise UnreadableSourceError(
            f"{self._name} {what}, after {self._produced:,} decompressed bytes",
            expected="a whole file",
            remedy="Fetch it again; to use what is there, pipe it: zcat FILE | presage trace stats -",
        )


def _codec(beginning: bytes) -> bytes | None:
    """Return the magic number of the compression that `beginning` shows, None if it shows none."""
    return next((magic for magic in _DECOMPRESSORS if beginning.startswith(magic)), None)


def _stdin() -> IO[bytes]:
    if sys.stdin is None:
        raise UnreadableSourceError("Standard input is closed", remedy="Name a file, or pipe a log in")
    return sys.stdin.buffer


def _read(stream: IO[bytes], size: int, name: str) -> bytes:
    try:
        return stream.read(size)
    except OSError as error:
        raise UnreadableSourceError(f"{name} cannot be read: {error.strerror or error}") from None


def _chunks(stream: IO[bytes], most_bytes: int | None) -> Iterator[bytes]:
    left = most_bytes
    while left is None or left > 0:
        chunk = stream.read(BLOCK_BYTES if left is None else left)
        if not chunk:
            return
        yield chunk
        if left is not None:
            left -= len(chunk)


def _skip_line(stream: IO[bytes], most_bytes: int) -> None:
    """Read to the end of the present line, `most_bytes` at a time."""
    while (piece := stream.readline(most_bytes)) and not piece.endswith(b"\n"):
        pass
