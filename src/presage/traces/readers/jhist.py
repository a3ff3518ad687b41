"""Hadoop JobHistory (`.jhist`): the line `Avro-Json`, a line with the schema, then one JSON event per line.

A file holds one MapReduce job. It becomes a job and an attempt for every task attempt, with the host it ran on.
Tasks have Hadoop's numbers, reduce tasks behind map tasks; Hadoop's own names are in `x_task_id` and
`x_task_type`. The job starts when it has been set up (`launchTime`); a second application master is a restart.
The processors and the memory it got are means over the run, from the counters that add them up.

Values of optional fields come bare (Hadoop 0.23, 2.0) or as `{"string": …}` (later); both are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from presage.errors import UnreadableSourceError
from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import json_lines
from presage.traces.readers._hadoop import (
    ATTEMPT_COLUMNS,
    MIB,
    PRIORITIES,
    attempt_rows,
    host,
    hosts,
    number,
    objects,
    plain,
    text,
    time_ms,
)
from presage.traces.readers._spans import with_spans
from presage.traces.schema import JOBS, Outcome

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

_MAGIC, _BINARY_MAGIC = "Avro-Json", b"Avro-Binary"
_JOB_OF = re.compile(r"^(?:job|task|attempt|appattempt)_(\d+_\d+)")
_ATTEMPT_EVENT = re.compile(r"^[A-Z_]+_ATTEMPT_(STARTED|FINISHED|FAILED|KILLED)$")
_ATTEMPT_ENDS = {"FINISHED": Outcome.COMPLETED, "FAILED": Outcome.FAILED, "KILLED": Outcome.CANCELLED}
_JOB_ENDS = {
    "JOB_FINISHED": Outcome.COMPLETED,
    "JOB_FAILED": Outcome.FAILED,
    "JOB_ERROR": Outcome.FAILED,
    "JOB_KILLED": Outcome.CANCELLED,
}
_JOB_COLUMNS = JOBS | {
    "x_maps": pl.Int64, "x_reduces": pl.Int64, "x_diagnostics": pl.String,
    "vcore_ms": pl.Float64, "mb_ms": pl.Float64,
}  # fmt: skip


class JhistReader(Reader):
    """Hadoop JobHistory files in their JSON form."""

    format = "jhist"
    scheduler = "yarn"

    def match(self, head: Head) -> int:
        named = bool(head.lines) and head.lines[0].strip() == _MAGIC
        return SURE if named or head.raw.startswith(_BINARY_MAGIC) else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        if source.head.raw.startswith(_BINARY_MAGIC):
            raise UnreadableSourceError(
                f"{source.name} is a JobHistory file in Avro's binary form",
                expected="the JSON form, whose first line is Avro-Json",
                remedy="Set mapreduce.jobhistory.jhist.format to json, or export it with `mapred job -history`",
            )
        jobs: dict[str, _Job] = {}
        rows = 0
        for line, record in json_lines(source, into, skip=(_MAGIC,)):
            if record.get("type") == "record":  # the schema
                continue
            rows += 1
            kind, event = text(record.get("type")), _event(record)
            job_id = _job_id(event)
            if kind is None or job_id is None:
                into.reject(source.name, line, "not an event of a job", str(record))
                continue
            if not jobs.setdefault(job_id, _Job(job_id)).take(kind, event):
                into.count(events_not_used=1)
        _pour(list(jobs.values()), into)
        return rows


@dataclass
class _Job:
    """What the events of one job have told so far."""

    job_id: str
    columns: dict[str, Any] = field(default_factory=dict)
    masters: int = 0
    tasks: dict[str, int | None] = field(default_factory=dict)
    attempts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def take(self, kind: str, event: dict[str, Any]) -> bool:
        """Take one event; return False if it tells nothing that is kept."""
        if attempt := _ATTEMPT_EVENT.match(kind):
            return self._take_attempt(attempt[1], event)
        if kind == "AM_STARTED":
            self.masters += 1
        elif kind == "TASK_STARTED":
            self.tasks[text(event.get("taskid")) or ""] = time_ms(event.get("startTime"))
        elif kind.startswith("JOB_"):
            self._take_job(kind, event)
        else:
            return kind in {"TASK_FINISHED", "TASK_FAILED", "TASK_UPDATED"}  # their attempts have told it
        return True

    def _take_job(self, kind: str, event: dict[str, Any]) -> None:
        maps, reduces = number(event.get("totalMaps")), number(event.get("totalReduces"))
        told = {
            "name": text(event.get("jobName")),
            "user": text(event.get("userName")),
            "queue": text(event.get("jobQueueName")),
            "submit_ms": time_ms(event.get("submitTime")),
            "start_ms": time_ms(event.get("launchTime")),
            "end_ms": time_ms(event.get("finishTime")),
            "priority": PRIORITIES.get(text(event.get("priority")) or ""),
            "x_maps": maps,
            "x_reduces": reduces,
            "x_diagnostics": text(event.get("diagnostics")),
            "status": text(event.get("jobStatus")),
        }
        self.columns.update({name: value for name, value in told.items() if value is not None})
        if kind in _JOB_ENDS:
            self.columns["outcome"] = _JOB_ENDS[kind].value
            self.columns["status"] = told["status"] or kind.removeprefix("JOB_")
            self.columns["counters"] = _counters(event.get("totalCounters"))

    def _take_attempt(self, step: str, event: dict[str, Any]) -> bool:
        attempt_id, task_id = text(event.get("attemptId")), text(event.get("taskid"))
        if attempt_id is None or task_id is None:
            return False
        attempt = self.attempts.setdefault(attempt_id, {"x_task_id": task_id})
        attempt["x_task_type"] = text(event.get("taskType")) or attempt.get("x_task_type")
        if ran_on := text(event.get("hostname")) or text(event.get("trackerName")):
            attempt["node_list"] = [host(ran_on)]
        if step == "STARTED":
            attempt["start_ms"] = time_ms(event.get("startTime"))
        else:
            attempt["end_ms"] = time_ms(event.get("finishTime"))
            attempt["outcome"] = _ATTEMPT_ENDS[step].value
            attempt["status"] = text(event.get("taskStatus")) or text(event.get("status")) or step
        return True

    def row(self) -> dict[str, Any]:
        """Return the job's row; the counters are still in it."""
        maps, reduces = self.columns.get("x_maps"), self.columns.get("x_reduces")
        standing = Outcome.RUNNING if "start_ms" in self.columns else Outcome.PENDING
        counters = self.columns.get("counters", {})
        cpu_ms = counters.get("CPU_MILLISECONDS")
        return {
            "outcome": standing.value,
            **self.columns,
            "job_id": self.job_id,
            "tasks": None if maps is None and reduces is None else (maps or 0) + (reduces or 0),
            "node_list": hosts(self.attempts),
            "restarts": max(self.masters - 1, 0),
            "cpu_used_s": None if cpu_ms is None else cpu_ms / 1000,
            "vcore_ms": _total(counters, "VCORES_MILLIS_MAPS", "VCORES_MILLIS_REDUCES"),
            "mb_ms": _total(counters, "MB_MILLIS_MAPS", "MB_MILLIS_REDUCES"),
        }


def _pour(jobs: list[_Job], into: TraceBuilder) -> None:
    if not jobs:
        return
    frame = with_spans(pl.DataFrame([job.row() for job in jobs], schema=_JOB_COLUMNS), into)
    run_ms = pl.when(pl.col("run_s") > 0).then(pl.col("run_s") * 1000)
    memory = (pl.col("mb_ms") / run_ms * MIB).round().cast(pl.Int64, strict=False)
    frame = frame.with_columns(cpus_alloc=pl.col("vcore_ms") / run_ms, mem_alloc_bytes=memory)
    into.add_jobs(frame.drop("vcore_ms", "mb_ms"))
    attempts = [
        row for job in jobs for row in attempt_rows(job.job_id, job.attempts, job.columns.get("x_maps"), job.tasks)
    ]
    if attempts:
        into.add_attempts(pl.DataFrame(attempts, schema=ATTEMPT_COLUMNS))


def _event(record: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an event, which stand under the name of its Java class."""
    event = record.get("event")
    if isinstance(event, dict) and len(event) == 1:
        (event,) = event.values()
    return event if isinstance(event, dict) else {}


def _job_id(event: dict[str, Any]) -> str | None:
    for key in ("jobid", "taskid", "applicationAttemptId"):
        if match := _JOB_OF.match(text(event.get(key)) or ""):
            return f"job_{match[1]}"
    return None


def _counters(counters: Any) -> dict[str, int]:
    """Return the counters by name, whatever group they stand in."""
    groups = plain(counters)
    found: dict[str, int] = {}
    for group in objects(groups.get("groups") if isinstance(groups, dict) else None):
        for counter in objects(group.get("counts")):
            name, value = text(counter.get("name")), number(counter.get("value"))
            if name and value is not None:
                found[name] = value
    return found


def _total(counters: dict[str, int], *names: str) -> float | None:
    known = [counters[name] for name in names if name in counters]
    return float(sum(known)) if known else None
