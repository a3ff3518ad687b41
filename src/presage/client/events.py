"""What a running job tells: lines of JSON in a file of its own folder, which needs no network on a compute node.

    {"time": "2026-03-01T10:00:00.123Z", "kind": "progress", "done": 12.5, "total": 50, "unit": "epochs", …}

Kinds: `started` (with what it resumes from), `progress`, `performance` (metrics), `utilization` (of processors,
memory and GPUs), `checkpoint` (a file), `finished`. A line is written in one piece and never changed. Events that
may be told over the network too have a `sub_job` and a `sequence`, by which whoever hears them twice knows.
"""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EVENTS_FILE = "events.jsonl"
_MOST_LINE_BYTES = 64 * 1024

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Event:
    """One thing that a job told."""

    time: datetime
    kind: str
    values: dict[str, Any]


class EventFile:
    """Appends events. A job never fails because it cannot tell of its progress: a failure is logged once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._failed = False

    def tell(self, kind: str, at: datetime | None = None, /, **values: Any) -> None:
        """Write one event, of now unless another time is named."""
        self.write(event_document(kind, at or datetime.now(UTC), values))

    def write(self, document: dict[str, Any]) -> None:
        """Write one event that is JSON already."""
        line = json.dumps(document)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # One write to a file opened for appending: lines of several processes do not mix.
            # A pipe in its place fails at once instead of waiting for a reader.
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o644)
            try:
                os.write(handle, line.encode() + b"\n")
            finally:
                os.close(handle)
        except OSError as error:
            if not self._failed:
                log.warning("Progress cannot be written to %s: %s; the job goes on", self.path, error)
            self._failed = True


def read_events(path: Path, offset: int = 0) -> Iterator[tuple[Event, int]]:
    """Give the whole lines from `offset` on, each with the offset behind it; what is no event is passed over.

    Raises OSError for a file that is there and cannot be read.
    """
    for event, behind in read_lines(path, offset):
        if event is not None:
            yield event, behind


def read_lines(path: Path, offset: int = 0) -> Iterator[tuple[Event | None, int]]:
    """Give an event, or None, for every whole line from `offset` on, each with the offset behind it.

    A file that has become shorter is read from its beginning; of a line that is too long its parts are given.
    """
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size < offset:
                offset = 0
            file.seek(offset)
            while line := file.readline(_MOST_LINE_BYTES):
                if not line.endswith(b"\n") and len(line) < _MOST_LINE_BYTES:
                    return
                offset += len(line)
                yield _parse(line), offset
    except FileNotFoundError:
        return


def open_regular(path: Path) -> BinaryIO:
    """Return a file to read that is one: a pipe or a device in its place would never end. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a file", str(path))
    return os.fdopen(handle, "rb")


def event_document(kind: str, at: datetime, values: dict[str, Any]) -> dict[str, Any]:
    """Return an event as JSON has it; values named like its own parts are left out."""
    named = {name: each for name, each in values.items() if name not in ("time", "kind")}
    return {"time": at.isoformat(timespec="milliseconds"), "kind": kind, **_plain(named)}


def event_in(document: Any) -> Event | None:
    """Return the event in a document, whose members it takes; None if there is none."""
    try:
        when = datetime.fromisoformat(document.pop("time"))
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return Event(when, str(document.pop("kind")), document)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _parse(line: bytes) -> Event | None:
    try:
        event = event_in(json.loads(line))
    except (ValueError, RecursionError):
        event = None
    if event is None:
        log.info("Not an event: %.80r", line)
    return event


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: scalars of numpy and torch as numbers, what is not finite as None."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
