"""The contract of a trace reader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from presage.traces.manifest import SourceFile
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

SURE = 100
"""Nothing else looks like this: a magic number, a header that names the format's own columns."""
LIKELY = 60
"""The shape fits and little else has it."""
POSSIBLE = 20
"""The shape fits, and so would others'."""
NO = 0


class Reader(ABC):
    """Turns logs of one format into canonical tables.

    A reader keeps no state between calls. It never raises for a bad row: it calls `into.reject` with file,
    line and reason. It raises `UnreadableSourceError` only when the source as a whole cannot be used (a JSON
    document that does not parse). Missing values become null; a value that cannot be true (a negative run
    time that is not the format's mark for "unknown") becomes null with a note. It converts units and zones,
    and computes nothing that the log does not imply.
    """

    format: ClassVar[str]
    """The registered name, as in `--format`."""
    scheduler: ClassVar[str | None] = None
    """The scheduler that writes this format, if there is only one."""

    @abstractmethod
    def match(self, head: Head) -> int:
        """Return how surely `head` is this format: NO, POSSIBLE, LIKELY or SURE. Must be fast and never raise."""

    @abstractmethod
    def read_one(self, source: Source, into: TraceBuilder) -> int | None:
        """Pour one source into `into` and return the number of records seen (rejected ones included)."""

    def read(self, sources: Sequence[Source], into: TraceBuilder) -> None:
        """Pour all sources of this format into `into`. Override it when files only make sense together."""
        if self.scheduler:
            into.describe(scheduler=self.scheduler)
        for source in sources:
            rows = self.read_one(source, into)
            self.finish(source, into, rows)

    def finish(self, source: Source, into: TraceBuilder, rows: int | None) -> None:
        """Record a source that has been read."""
        into.add_source(SourceFile(source.name, self.format, rows))
        if source.lines_not_utf8:
            lines = counted(source.lines_not_utf8, "line")
            into.note(f"{lines} of {source.name} not UTF-8, read as Latin-1")
