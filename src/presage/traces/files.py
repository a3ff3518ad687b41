"""Files on disk: a failure to write never costs what was there before, and is one clear error, as damage is."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import polars as pl

from presage.errors import OutputError, UnreadableSourceError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path beside `path` to write to; on success it becomes `path`, on failure it goes away.

    A device or a pipe is given itself, because nothing can take its place. Raises UsageError if there is no
    folder for `path`, OutputError if it cannot be written.
    """
    check_place(path)
    with writing(path):
        if path.exists() and not path.is_file():
            yield path
            return
        target = path.resolve() if path.is_symlink() and path.exists() else path
        partial = target.with_name(f".{target.name}.partial")
        try:
            yield partial
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """Raise what `replacing` would raise for a place where no file can be; for calls that work long before it."""
    with writing(path):
        if not path.parent.is_dir():
            raise UsageError(
                f"There is no folder {str(path.parent)!r} to write {path.name} to", remedy="Make it first"
            )
        if path.is_dir():
            raise OutputError(f"{str(path)!r} is a folder", expected="a file to write", remedy="Name a file")


@contextmanager
def writing(place: Path | str) -> Iterator[None]:
    """Turn any failure to write to `place`, a path or the words for it, into OutputError."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader went away, which is no failure of ours
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OutputError(
            f"{place if isinstance(place, str) else repr(str(place))} cannot be written: {reason}",
            remedy="Check the space and the rights there, or name another place",
        ) from None


@contextmanager
def reading_parquet(name: str) -> Iterator[None]:
    """Turn any failure to read the Parquet file called `name` into UnreadableSourceError."""
    try:
        yield
    except FileNotFoundError:
        raise UnreadableSourceError(f"There is no file {name!r}", remedy="Check the name") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise UnreadableSourceError(
            f"{name} is not a Parquet file that can be read: {error}",
            expected="a whole Parquet file",
            remedy="Fetch or make the file again",
        ) from None
