"""`sacct --json` and slurmrestd's list of accounted jobs, from Slurm 21.08 (v0.0.37) to 25.05.

The shape changed over the years: a state was one word and became a list, numbers became objects that say whether
they are set, memory moved from `required/memory` to `memory_per_cpu` and `memory_per_node`. All are read. Mind the
names in a step: what it used stands under `tres/requested`, and only what it wrote under `tres/consumed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from presage.errors import UnreadableSourceError
from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import json_document
from presage.traces.readers.slurm.json_values import Json, given_columns, not_negative
from presage.traces.readers.slurm.records import HELPERS, add_records
from presage.traces.readers.slurm.texts import MIB, STATES, Tres, parse_state, tres_of
from presage.traces.schema import JOBS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

_LEFTOVERS = ("x_reason", "x_workdir", "x_submitline", "x_comment", "x_reservation", "x_flags")
_COLUMNS: dict[str, pl.DataType | type[pl.DataType]] = {**JOBS, **HELPERS, **dict.fromkeys(_LEFTOVERS, pl.String)}


class SacctJsonReader(Reader):
    """JSON of Slurm's `sacct`."""

    format = "sacct-json"
    scheduler = "slurm"

    def match(self, head: Head) -> int:
        if head.is_binary or not head.text.lstrip().startswith(("{", "[")):
            return NO
        is_accounting = '"allocation_nodes"' in head.text or "openapi/db" in head.text.replace("\\", "")
        return SURE if is_accounting and '"job_id"' in head.text else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        jobs, rows = _read(source, into)
        add_records(jobs, into)
        return rows

    def read(self, sources: Sequence[Source], into: TraceBuilder) -> None:
        into.describe(scheduler=self.scheduler)
        frames = []
        for source in sources:
            jobs, rows = _read(source, into)
            self.finish(source, into, rows)
            frames.append(jobs)
        # A job's records may stand in different documents.
        add_records(pl.concat(frames), into)


def _read(source: Source, into: TraceBuilder) -> tuple[pl.DataFrame, int]:
    document = json_document(source)
    items = document.get("jobs") if isinstance(document, dict) else document
    if not isinstance(items, list):
        raise UnreadableSourceError(
            f"{source.name} is a JSON document without a list of jobs",
            expected='{"jobs": […]}, as `sacct --json` prints it',
        )
    records = []
    for place, item in enumerate(items, start=1):
        job = Json(item)
        if job.integer("job_id") is None:
            into.reject(source.name, None, f"job {place} of the list has no job_id", str(item))
            continue
        records.append(_record(job, into))
    steps = sum(len(Json(item).objects("steps")) for item in items)
    if steps:
        into.count(steps_folded=steps)
    frame = pl.DataFrame(records, schema=_COLUMNS, orient="row")
    filled = [name for name in frame.columns if name not in _LEFTOVERS or frame[name].null_count() < len(frame)]
    return frame.select(filled), len(items)


def _record(job: Json, into: TraceBuilder) -> dict[str, Any]:
    asked = _tres(job.objects("tres", "requested"), mem_unit=MIB)
    given = _tres(job.objects("tres", "allocated"), mem_unit=MIB)
    minutes = job.number("time", "limit")
    return {
        **_identity(job),
        **_labels(job),
        **_state(job),
        **_used(job),
        "submit_ms": job.time_ms("time", "submission"),
        "eligible_ms": job.time_ms("time", "eligible"),
        "start_ms": job.time_ms("time", "start"),
        "end_ms": job.time_ms("time", "end"),
        "elapsed_s": not_negative(job.number("time", "elapsed")),
        "suspended_s": not_negative(job.number("time", "suspended")),
        "limit_s": None if minutes is None or minutes <= 0 else minutes * 60,
        "cpus_req": not_negative(job.number("required", "CPUs")) or asked.cpus,
        "nodes_req": asked.nodes,
        "mem_req_bytes": asked.mem_bytes or _required_memory(job, asked),
        "gpus_req": asked.gpus,
        "gpu_type_req": asked.gpu_type,
        "req_known": asked.cpus is not None,
        **given_columns(given, job.text("nodes"), into),
        "nodes_alloc": given.nodes or job.integer("allocation_nodes") or None,
    }


def _identity(job: Json) -> dict[str, Any]:
    """Return ids in sacct's spelling: `123_4` for an array's task, `123+1` for a part of a heterogeneous job."""
    number = str(job.integer("job_id"))
    array, task = job.integer("array", "job_id"), job.integer("array", "task_id")
    het, offset = job.integer("het", "job_id"), job.integer("het", "job_offset")
    pending = job.text("array", "task")
    if array and task is not None:
        return {"job_id": f"{array}_{task}", "array_id": str(array), "array_task": task}
    if array and pending:
        return {"job_id": f"{array}_[{pending}]", "array_id": str(array)}
    if het and offset is not None:
        return {"job_id": f"{het}+{offset}", "het_id": str(het), "het_offset": offset}
    return {"job_id": number}


def _labels(job: Json) -> dict[str, Any]:
    return {
        "name": job.text("name"),
        "user": job.text("user") or job.text("association", "user"),
        "group": job.text("group"),
        "account": job.text("account") or job.text("association", "account"),
        "cluster": job.text("cluster") or job.text("association", "cluster"),
        "partition": job.text("partition"),
        "qos": job.text("qos"),
        "priority": job.number("priority"),
        "constraint": job.text("constraints"),
        "x_reason": job.text("state", "reason"),
        "x_workdir": job.text("working_directory"),
        "x_submitline": job.text("submit_line"),
        "x_comment": job.text("comment", "job"),
        "x_reservation": job.text("reservation", "name"),
        "x_flags": ",".join(job.words("flags")) or None,
    }


def _state(job: Json) -> dict[str, Any]:
    words = job.words("state", "current")
    states = [state for word in words if (state := parse_state(word))]
    # A record of a job that goes on says so beside its base state.
    state = next((word for word in states if STATES[word].goes_on), states[0] if states else None)
    signal = job.integer("exit_code", "signal", "signal_id") or job.integer("exit_code", "signal", "id")
    code = job.integer("exit_code", "return_code")
    if signal:
        code = code or 0
    elif state == "FAILED" and code == 0:
        code = None  # 22.05 says 0 whatever the job returned
    return {
        "state": state,
        "status": ",".join(words) or None,
        "exit_code": code,
        "signal": signal or None,
        "restarts": job.integer("restart_cnt"),
    }


class _Usage(NamedTuple):
    mem_bytes: int | None
    cpu_s: float | None


def _used(job: Json) -> dict[str, Any]:
    steps = [_usage(step) for step in job.objects("steps")]
    memory = [step.mem_bytes for step in steps if step.mem_bytes is not None]
    cpu_s = [step.cpu_s for step in steps if step.cpu_s is not None]
    own_cpu_s = _cpu_s(job)
    return {
        "mem_used_bytes": max(memory, default=None),
        "cpu_used_s": max(sum(cpu_s), own_cpu_s or 0.0) if cpu_s or own_cpu_s is not None else None,
    }


def _usage(step: Json) -> _Usage:
    total = _tres(step.objects("tres", "requested", "total")).mem_bytes
    largest_task = _tres(step.objects("tres", "requested", "max")).mem_bytes
    return _Usage(total if total is not None else largest_task, _cpu_s(step))


def _cpu_s(item: Json) -> float | None:
    seconds = not_negative(item.number("time", "total", "seconds"))
    return None if seconds is None else seconds + (item.number("time", "total", "microseconds") or 0.0) / 1e6


def _tres(items: list[Json], mem_unit: int = 1) -> Tres:
    amounts: dict[str, float] = {}
    for item in items:
        kind, name, count = item.text("type"), item.text("name"), not_negative(item.number("count"))
        if kind and count is not None:
            amounts[f"{kind}/{name}" if name else kind] = count * mem_unit if kind == "mem" else count
    return tres_of(amounts)


def _required_memory(job: Json, asked: Tres) -> int | None:
    per_cpu = not_negative(job.number("required", "memory_per_cpu"))
    per_node = not_negative(job.number("required", "memory_per_node"))
    cpus = not_negative(job.number("required", "CPUs")) or asked.cpus
    mib = per_cpu * cpus if per_cpu and cpus else per_node * (asked.nodes or 1) if per_node else None
    return round(mib * MIB) if mib and mib * MIB < 2**63 else None
