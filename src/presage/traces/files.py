"""Writing files so that a failure in the middle never costs what was there before."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from presage.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path beside `path` to write to; on success it becomes `path`, on failure it goes away."""
    if not path.parent.is_dir():
        raise UsageError(
            f"There is no folder {str(path.parent)!r} to write {path.name} to", remedy="Make it first"
        )
    partial = path.with_name(f".{path.name}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
