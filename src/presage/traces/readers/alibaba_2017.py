"""Alibaba's cluster trace of 2017: `batch_task.csv`, with or without a header.

A row is a task: instances of one program with the same request. Tasks of one Alibaba job form a graph that the
trace does not show, and each has its own size, so every task is a job here; tasks of the same Alibaba job share
`array_id`. `tasks` is its instances, processors are those of all instances together. Memory is given as a
fraction of an undisclosed size and stays a leftover, per instance.

The second time is that of the last change of state: an end for tasks that ended, nothing for those that wait or
run. When a task's first instance began is not in this file, so there are no waits and no run times. Times count
from the trace's zero; negative ones lie before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from presage.traces.readers._base import LIKELY, NO, SURE, Reader
from presage.traces.readers._cells import Cells, delimited, header
from presage.traces.readers._times import OWN_ZERO
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

_CPUS = "number_of_cpus_requested_per_instance_in_the_task"
_MEMORY = "normalized_memory_requested_per_instance_in_the_task"
_COLUMNS = (
    "task_create_time", "task_end_time", "job_id", "task_id", "number_of_instances", "status", _CPUS, _MEMORY,
)  # fmt: skip
_STATES = {
    "Ready": Outcome.PENDING,
    "Waiting": Outcome.PENDING,
    "Running": Outcome.RUNNING,
    "Terminated": Outcome.COMPLETED,
    "Failed": Outcome.FAILED,
    "Cancelled": Outcome.CANCELLED,
}
_ENDED = ["Terminated", "Failed", "Cancelled"]
_CPU_HUNDREDTHS = 100


class Alibaba2017Reader(Reader):
    """Batch tasks of Alibaba's cluster trace of 2017."""

    format = "alibaba-2017"

    def match(self, head: Head) -> int:
        if header(head) >= set(_COLUMNS):
            return SURE
        fields = head.lines[0].split(",") if head.lines else []
        headless = len(fields) == len(_COLUMNS) and fields[5].strip() in _STATES
        return LIKELY if headless and fields[4].strip().isdecimal() else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        into.describe(absolute_time=False)
        into.note(OWN_ZERO)
        columns = None if header(source.head) >= set(_COLUMNS) else _COLUMNS
        rows = 0
        for cells in delimited(source, into, columns=columns):
            rows += len(cells.table)
            into.add_jobs(_with_possible_ends(_tasks(cells), into))
        return rows


def _tasks(cells: Cells) -> pl.DataFrame:
    instances = cells.integer("number_of_instances")
    status = cells.text("status")
    return cells.frame(
        job_id=pl.concat_str(cells.required("job_id"), pl.lit("."), cells.required("task_id")),
        array_id=cells.text("job_id"),
        array_task=cells.integer("task_id"),
        submit_ms=cells.epoch_ms("task_create_time"),
        end_ms=pl.when(status.is_in(_ENDED)).then(cells.epoch_ms("task_end_time")),
        cpus_req=cells.count(_CPUS) / _CPU_HUNDREDTHS * instances,
        tasks=instances,
        outcome=cells.outcome("status", _STATES),
        status=status,
        x_mem_fraction=cells.count(_MEMORY),
    )


def _with_possible_ends(tasks: pl.DataFrame, into: TraceBuilder) -> pl.DataFrame:
    backwards = (pl.col("end_ms") < pl.col("submit_ms")).fill_null(False)
    impossible = tasks.select(backwards.sum()).item()
    if impossible:
        into.count(ends_before_submit=impossible)
        into.note("some tasks end before they were created: their end is read as missing")
    return tasks.with_columns(end_ms=pl.when(~backwards).then("end_ms"))
