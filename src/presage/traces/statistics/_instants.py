"""When a trace begins and ends, and when its jobs occupied the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import polars as pl

if TYPE_CHECKING:
    from presage.traces.trace import Trace

_RUN_MS = (pl.col("run_s") * 1000).round().cast(pl.Int64, strict=False)


@dataclass(frozen=True)
class Span:
    """The first submit, the last submit, and the last instant of any kind that the jobs tell of."""

    first_submit_ms: int
    last_submit_ms: int
    last_ms: int

    @property
    def submits_s(self) -> float:
        """The seconds from the first submit to the last."""
        return (self.last_submit_ms - self.first_submit_ms) / 1000

    @property
    def whole_s(self) -> float:
        """The seconds from the first submit to the last known instant."""
        return (self.last_ms - self.first_submit_ms) / 1000


def span_of(trace: Trace) -> Span | None:
    """Return the span of the trace, or None if no submit time is known."""
    first, last_submit, last = trace.jobs.select(
        pl.col("submit_ms").min().alias("first"),
        pl.col("submit_ms").max().alias("last_submit"),
        pl.max_horizontal(pl.col("submit_ms", "start_ms").max(), end_ms().max()).alias("last"),
    ).row(0)
    return None if first is None else Span(first, last_submit, last)


def time_zone_of(trace: Trace) -> str:
    """Return the machine's time zone, or UTC if it is not known or if nobody else knows a zone of that name."""
    name = trace.manifest.time_zone
    if name is None or not trace.manifest.absolute_time:
        return "UTC"
    try:
        return ZoneInfo(name).key
    except (KeyError, ValueError, OSError):
        return "UTC"


def start_ms() -> pl.Expr:
    """When a job began to run, from its end and run time where the log gives no start."""
    return pl.coalesce("start_ms", pl.col("end_ms") - _RUN_MS)


def end_ms() -> pl.Expr:
    """When a job ended, from its start and run time where the log gives no end."""
    return pl.coalesce("end_ms", pl.col("start_ms") + _RUN_MS)
