"""Google's Borg trace of 2019: instance events as CSV with a header, as exported from its public tables.

The instances of a collection are the tasks of a job; they are folded as the task events of 2011 are. Alloc sets
are collections too, of the kind `alloc_set`. Requests are normalised. The resource request comes as a text like
`{'cpus': 0.02, 'memory': 0.01}` or in columns of its own.

Samples that went through a spreadsheet have ids like `2.60698E+11`: collections that share their first digits
become one job, and the trace says so. They are good for testing, not for studying.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import Cells, delimited, header
from presage.traces.readers._google import (
    ENDED,
    NORMALISED,
    QUEUED,
    RUNNING,
    Codes,
    attempts,
    gangs,
    stretches,
    times,
)
from presage.traces.readers._times import OWN_ZERO
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

CODES = Codes(
    words=dict(
        enumerate(
            ["submit", "queue", "enable", "schedule", "evict", "fail", "finish", "kill", "lost", "update_pending",
             "update_running"]
        )
    ),
    phases=dict(enumerate([QUEUED] * 3 + [RUNNING] + [ENDED] * 5 + [QUEUED, RUNNING])),
    outcomes={4: Outcome.PREEMPTED, 5: Outcome.FAILED, 6: Outcome.COMPLETED, 7: Outcome.CANCELLED},
    submit=0,
    schedule=3,
)  # fmt: skip
_TYPES = ("instance_events_type", "type")
_KINDS = {"0": "job", "1": "alloc_set"}
_NEEDED = {"time", "collection_id", "instance_index", "machine_id", "priority", "scheduling_class"}


class Borg2019Reader(Reader):
    """Instance events of Google's Borg trace of 2019."""

    format = "borg-2019"
    scheduler = "borg"

    def match(self, head: Head) -> int:
        names = header(head)
        return SURE if names >= _NEEDED and names & set(_TYPES) else NO

    def read(self, sources: Sequence[Source], into: TraceBuilder) -> None:
        # Events of one collection may stand in different files.
        frames: list[pl.DataFrame] = []
        for source in sources:
            events = _events(source, into)
            self.finish(source, into, sum(map(len, events)))
            frames += events
        _pour(frames, into)

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        events = _events(source, into)
        _pour(events, into)
        return sum(map(len, events))


def _events(source: Source, into: TraceBuilder) -> list[pl.DataFrame]:
    return [_typed(cells) for cells in delimited(source, into)]


def _typed(cells: Cells) -> pl.DataFrame:
    kind = next((name for name in _TYPES if name in cells), _TYPES[0])
    cells.required("time")
    cells.required(kind)
    code = cells.integer(kind)
    known = pl.when(code.is_in(list(CODES.phases))).then(code)
    machine = cells.text("machine_id")
    return cells.frame(
        time=cells.integer("time"),
        job=cells.required("collection_id"),
        task=cells.integer("instance_index").fill_null(0),
        event=cells.checked(kind, known, "not a code of the trace"),
        machine=pl.when(machine != "0").then(machine),
        qos=cells.text("scheduling_class"),
        priority=cells.number("priority"),
        kind=cells.text("collection_type").replace_strict(_KINDS, default=None, return_dtype=pl.String),
        alloc=pl.when(cells.text("alloc_collection_id") != "0").then(cells.text("alloc_collection_id")),
        cpus=_request(cells, "cpus"),
        memory=_request(cells, "memory"),
    )


def _request(cells: Cells, resource: str) -> pl.Expr:
    for column in (f"resource_request.{resource}", f"resource_request_{resource}"):
        if column in cells:
            return cells.count(column)
    amount = cells.text("resource_request").str.extract(rf"['\"]{resource}['\"]\s*:\s*['\"]?([0-9.eE+-]+)")
    return amount.cast(pl.Float64, strict=False)


def _pour(frames: list[pl.DataFrame], into: TraceBuilder) -> None:
    into.describe(absolute_time=False)
    into.note(OWN_ZERO)
    into.note(NORMALISED)
    if not any(map(len, frames)):
        return
    events = pl.concat(frames)
    rounded = int(events["job"].str.contains(r"^[\d.]+[eE]\+\d+$").sum())
    if rounded:
        into.note(f"{rounded:,} rows have a rounded collection id: different collections may have become one job")
    tasks = stretches(events, ["job", "task"], CODES)
    runs = tasks.filter(
        pl.col("start").is_not_null()
        | (pl.col("phase") == RUNNING)
        | ((pl.col("phase") == ENDED) & pl.col("machine").is_not_null())
    )
    into.count(stretches_never_run=len(tasks) - len(runs))
    into.add_attempts(attempts(runs, CODES, task="task"))
    jobs = gangs(events, tasks, CODES).sort("queued", nulls_last=True, maintain_order=True)
    into.add_jobs(
        jobs.select(
            "qos", "priority", "kind", "tasks", "cpus_req", "node_list", "outcome",
            job_id="job",
            x_alloc_collection="alloc",
            x_mem_req_normalised="memory",
            **times(),
        )
    )  # fmt: skip
