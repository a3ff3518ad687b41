"""Traces of the Gavel scheduler and of its successor Shockwave: one job per line, separated by tabs, no header.

Four layouts are read, told by the number of fields (7, 9, 10 or 12). A job is a training run: its type, the
command, how many steps it has to do and on how many GPUs. How long a step takes depends on where it runs, so
there are no run times, except for Shockwave's, which come with a duration. Jobs are numbered in the file's
order. Job types, commands and steps are Gavel's own in every trace, also where the arrivals are a real
cluster's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from presage.errors import UnreadableSourceError
from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import LINE, Cells, delimited
from presage.traces.readers._times import OWN_ZERO

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

_START = ("job_type", "command")
_STEPS = ("steps_flag", "needs_data", "total_steps")
_LAYOUTS = {
    7: (*_START, *_STEPS, "arrival_s", "gpus"),
    9: (*_START, *_STEPS, "gpus", "weight", "slo", "arrival_s"),
    10: (*_START, "folder", *_STEPS, "gpus", "weight", "slo", "arrival_s"),
    12: (*_START, "folder", *_STEPS, "gpus", "mode", "weight", "slo", "duration_s", "arrival_s"),
}
_INVENTED = ("kind", "executable", "x_total_steps")


class GavelReader(Reader):
    """Traces of the Gavel and Shockwave schedulers."""

    format = "gavel"

    def match(self, head: Head) -> int:
        fields = head.lines[0].split("\t") if head.lines else []
        layout = _LAYOUTS.get(len(fields))
        if layout is None:
            return NO
        cell = dict(zip(layout, map(str.strip, fields), strict=True))
        numbers = cell["total_steps"].isdecimal() and cell["gpus"].isdecimal() and cell["needs_data"] in {"0", "1"}
        return SURE if numbers and cell["steps_flag"].startswith("-") else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        into.describe(absolute_time=False, synthetic_columns=_INVENTED)
        into.note(OWN_ZERO)
        into.note("job types, commands and steps are Gavel's own, whatever the arrivals are")
        rows = 0
        for cells in delimited(source, into, delimiter="\t", columns=_layout(source), quoted=False):
            rows += len(cells.table)
            into.add_jobs(_jobs(cells))
        return rows


def _layout(source: Source) -> tuple[str, ...]:
    fields = len(source.head.lines[0].split("\t")) if source.head.lines else 0
    if fields not in _LAYOUTS:
        raise UnreadableSourceError(
            f"The first line of {source.name} has {fields} fields separated by tabs",
            expected=f"{', '.join(map(str, _LAYOUTS))} fields, as Gavel's traces have",
            remedy="Check the format: `presage trace formats` lists them",
        )
    return _LAYOUTS[fields]


def _jobs(cells: Cells) -> pl.DataFrame:
    gpus = cells.integer("gpus")
    return cells.frame(
        job_id=pl.col(LINE).cast(pl.String),
        kind=cells.text("job_type"),
        executable=cells.text("command"),
        priority=cells.number("weight"),
        submit_ms=cells.epoch_ms("arrival_s"),
        run_s=cells.seconds("duration_s"),
        tasks=gpus,
        gpus_req=gpus.cast(pl.Float64),
        x_total_steps=cells.integer("total_steps"),
        x_slo=cells.number("slo"),
        x_mode=cells.text("mode"),
    )
