"""Google's cluster trace of 2011: job events and task events, CSV parts without a header.

Times are microseconds from the log's own zero, 600 s before the trace began; 0 means "before that" and 2^63-1
"after the end", and both are read as missing. Parts of one table belong together: give them all.

Job events give jobs with users and names, and no sizes. Task events give jobs as gangs of tasks, with an attempt
for every stretch of running. There, a job's submit and start are known if the first event seen of it is a
submission; it has ended when all its tasks seen have; it failed if a task finally did, else it was cancelled if
one was killed, else preempted if one was evicted for good.

Requests are normalised by the largest machine, which is not disclosed: `cpus_req` is the sum of such fractions
over the tasks, and memory is in `x_mem_req_normalised`, because no bytes are known.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import Cells, delimited
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
            ["submit", "schedule", "evict", "fail", "finish", "kill", "lost", "update_pending", "update_running"]
        )
    ),
    phases=dict(enumerate([QUEUED, RUNNING, ENDED, ENDED, ENDED, ENDED, ENDED, QUEUED, RUNNING])),
    outcomes={2: Outcome.PREEMPTED, 3: Outcome.FAILED, 4: Outcome.COMPLETED, 5: Outcome.CANCELLED},
    submit=0,
    schedule=1,
)
_USER = r"[A-Za-z0-9+/]{43}="


class _EventsReader(Reader):
    """What the two tables have in common: their parts are read together and folded at the end."""

    columns: ClassVar[tuple[str, ...]]
    row: ClassVar[re.Pattern[str]]
    """What a line looks like."""

    def match(self, head: Head) -> int:
        lines = head.lines[:4]
        whole = lines[:-1] or lines  # the last may be cut off
        return SURE if whole and all(self.row.match(line) for line in whole) else NO

    def read(self, sources: Sequence[Source], into: TraceBuilder) -> None:
        events: list[pl.DataFrame] = []
        for source in sources:
            frames = [self.typed(cells) for cells in delimited(source, into, columns=self.columns, quoted=False)]
            self.finish(source, into, sum(map(len, frames)))
            events += frames
        self._pour(events, into)

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        events = [self.typed(cells) for cells in delimited(source, into, columns=self.columns, quoted=False)]
        self._pour(events, into)
        return sum(map(len, events))

    def _pour(self, frames: list[pl.DataFrame], into: TraceBuilder) -> None:
        into.describe(absolute_time=False)
        into.note(OWN_ZERO)
        if frames:
            events = pl.concat(frames)
            into.count(events_reconstructed=int(events["missing"].count()))
            self.fold(events.drop("missing"), into)

    @abstractmethod
    def typed(self, cells: Cells) -> pl.DataFrame:
        """Return the events of a batch with at least `time`, `missing`, `job` and `event`."""

    @abstractmethod
    def fold(self, events: pl.DataFrame, into: TraceBuilder) -> None:
        """Pour the jobs that `events` tell of."""


class Google2011JobsReader(_EventsReader):
    """Job events of Google's cluster trace of 2011."""

    format = "google-2011-jobs"
    columns = ("time", "missing", "job", "event", "user", "class", "name", "logical_name")
    row = re.compile(rf"^\d+,\d?,\d+,\d,{_USER},[0-3],[^,]*,[^,]*$")

    def typed(self, cells: Cells) -> pl.DataFrame:
        return cells.frame(
            **_event_columns(cells),
            user=cells.text("user"),
            qos=cells.text("class"),
            name=cells.text("name"),
            x_logical_name=cells.text("logical_name"),
        )

    def fold(self, events: pl.DataFrame, into: TraceBuilder) -> None:
        runs = stretches(events, ["job"], CODES)
        started = runs.filter(pl.col("start").is_not_null())
        again = started.filter(pl.len().over("job") > 1)
        if len(again):
            into.add_attempts(attempts(again, CODES, task=None))
        jobs = runs.group_by("job", maintain_order=True).agg(
            pl.exclude("queued").last(),
            queued=pl.col("queued").first(),
            restarts=(pl.col("start").is_not_null().sum().cast(pl.Int64) - 1).clip(0),
        )
        jobs = jobs.sort("queued", nulls_last=True, maintain_order=True)
        unknown = int(jobs["queued"].null_count())
        if unknown:
            into.count(submitted_before_the_trace=unknown)
        into.add_jobs(
            jobs.select(
                "user", "qos", "name", "x_logical_name", "restarts",
                job_id=pl.col("job").cast(pl.String),
                outcome=CODES.outcome("code", "phase"),
                status=CODES.word("code"),
                **times(),
            )
        )  # fmt: skip


class Google2011TasksReader(_EventsReader):
    """Task events of Google's cluster trace of 2011."""

    format = "google-2011-tasks"
    columns = (
        "time", "missing", "job", "task", "machine", "event", "user", "class", "priority",
        "cpus", "memory", "disk", "different_machines",
    )  # fmt: skip
    row = re.compile(rf"^\d+,\d?,\d+,\d+,\d*,\d,{_USER},[0-3],\d+(,[\d.eE-]*){{3}},[01]?$")

    def typed(self, cells: Cells) -> pl.DataFrame:
        apart = cells.text("different_machines") == "1"
        return cells.frame(
            **_event_columns(cells),
            task=cells.checked("task", cells.integer("task"), "not a task index"),
            machine=cells.text("machine"),
            user=cells.text("user"),
            qos=cells.text("class"),
            priority=cells.number("priority"),
            cpus=cells.count("cpus"),
            memory=cells.count("memory"),
            disk=cells.count("disk"),
            constraint=pl.when(apart).then(pl.lit("different machines")),
        )

    def fold(self, events: pl.DataFrame, into: TraceBuilder) -> None:
        into.note(NORMALISED)
        tasks = stretches(events, ["job", "task"], CODES)
        ran = pl.col("start").is_not_null() | pl.col("machine").is_not_null() | (pl.col("phase") == RUNNING)
        runs = tasks.filter(ran)
        into.count(
            machines=int(events["machine"].drop_nulls().n_unique()), stretches_never_run=len(tasks) - len(runs)
        )
        into.add_attempts(attempts(runs, CODES, task="task"))
        jobs = gangs(events, tasks, CODES).sort("queued", nulls_last=True, maintain_order=True)
        into.add_jobs(
            jobs.select(
                "user", "qos", "priority", "constraint", "tasks", "cpus_req", "node_list", "outcome",
                job_id=pl.col("job").cast(pl.String),
                x_mem_req_normalised="memory",
                **times(),
            )
        )  # fmt: skip


def _event_columns(cells: Cells) -> dict[str, pl.Expr]:
    event = cells.integer("event")
    known = pl.when(event.is_in(list(CODES.phases))).then(event)
    cells.required("time")
    cells.required("job")
    cells.required("event")
    return {
        "time": cells.integer("time"),
        "missing": cells.text("missing"),
        "job": cells.integer("job"),
        "event": cells.checked("event", known, "not a code of the trace"),
    }
