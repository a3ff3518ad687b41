"""SWIM workloads: Facebook's Hadoop jobs, tab separated and without a header.

Six columns: job, submit s, gap s since the job before, bytes read by maps, shuffled, and written by reduces.
There are no run times and no users; the sizes of the data are kept under `x_`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from presage.traces.readers._base import LIKELY, NO, Reader
from presage.traces.readers._cells import delimited
from presage.traces.readers._times import milliseconds, note_own_zero

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

COLUMNS = ("job", "submit", "gap", "map_input", "shuffle", "reduce_output")
_ROW = re.compile(r"^job\d+(\t\d+){5}\s*$")


class SwimReader(Reader):
    """Hadoop workloads of the SWIM project."""

    format = "swim"

    def match(self, head: Head) -> int:
        lines = head.lines[:4]
        whole = lines[:-1] or lines  # the last may be cut off
        return LIKELY if whole and all(_ROW.match(line) for line in whole) else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        rows = 0
        for cells in delimited(source, into, delimiter="\t", columns=COLUMNS, quoted=False):
            rows += len(cells.table)
            jobs = cells.frame(
                job_id=cells.required("job"),
                submit_ms=milliseconds(cells.seconds("submit")),
                x_gap_s=cells.number("gap"),
                x_map_input_bytes=cells.bytes("map_input"),
                x_shuffle_bytes=cells.bytes("shuffle"),
                x_reduce_output_bytes=cells.bytes("reduce_output"),
            )
            note_own_zero(jobs["submit_ms"], into)
            into.add_jobs(jobs)
        return rows
