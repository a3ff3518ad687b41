"""Job logs that come with a call: text of any format that Presage reads, or rows of the job table."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

if TYPE_CHECKING:
    from presage.traces import Trace

MOST_CHARS = 6_000_000
MOST_ROWS = 20_000
_ROWS_FORMAT = "jsonl"

Cell = Annotated[str, Field(max_length=10_000)] | bool | int | Annotated[float, Field(allow_inf_nan=False)] | None


class Log(BaseModel):
    """What happened on a cluster; either `text` or `rows`."""

    model_config = ConfigDict(extra="forbid")

    text: str | None = Field(
        default=None, max_length=MOST_CHARS, description="A log as it is on disk: sacct's output, SWF, CSV…"
    )
    format: str | None = Field(default=None, max_length=40, description="Of the text, if it is not recognised.")
    rows: list[dict[str, Cell]] | None = Field(
        default=None,
        max_length=MOST_ROWS,
        description="Jobs with the columns of the job table: job_id, submit_ms…",
    )
    time_zone: str | None = Field(default=None, max_length=60, description="Of local times in the text.")
    processors: int | None = Field(default=None, ge=1, le=50_000_000, description="Of the machine.")

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Log:
        if (self.text is None) == (self.rows is None):
            raise ValueError("either text or rows must be given")
        return self

    def read(self) -> Trace:
        """Return the log as a trace. Raises InputError, UnknownNameError."""
        from presage.traces import ReadOptions, read_trace

        with tempfile.TemporaryDirectory(prefix="presage-log-") as folder:
            path = Path(folder) / "log"
            path.write_text(self._as_text(), encoding="utf-8", errors="replace", newline="")
            options = ReadOptions(time_zone=self.time_zone) if self.time_zone else None
            trace = read_trace(path, format=self.format if self.rows is None else _ROWS_FORMAT, options=options)
        return trace if self.processors is None else trace.with_processors(self.processors)

    def _as_text(self) -> str:
        if self.rows is None:
            return self.text or ""
        return "".join(json.dumps(row) + "\n" for row in self.rows)


def rejected(trace: Trace) -> dict[str, Any]:
    """Return how much of a log was used, and the first lines that were not, with the reasons."""
    return {"jobs": len(trace), "rejected": len(trace.rejects), "reasons": trace.rejects.head(20).to_dicts()}
