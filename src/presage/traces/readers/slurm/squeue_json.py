"""`squeue --json` and slurmrestd's list of jobs, from Slurm 22.05 on: the queue at one instant.

It shows the jobs that wait and run, and for some minutes those that have ended. The start and the end of a job
that waits, and the end of one that runs, are only what Slurm expects; the former is kept as `x_expected_start_ms`.
Newer versions say when the answer was made, which tells how long jobs have run; older ones say when they last
looked at a job. Tasks of an array that wait together are one job each, as far as their numbers are told.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import polars as pl

from presage.errors import UnreadableSourceError
from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import json_document
from presage.traces.readers.slurm.json_values import Json, given_columns, not_negative
from presage.traces.readers.slurm.records import HELPERS, add_records
from presage.traces.readers.slurm.squeue import as_queue
from presage.traces.readers.slurm.texts import MIB, STATES, Tres, parse_gres, parse_state, parse_tres
from presage.traces.schema import JOBS, Outcome

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

_LEFTOVERS = ("x_reason", "x_workdir", "x_comment", "x_reservation")
_COLUMNS: dict[str, pl.DataType | type[pl.DataType]] = {**JOBS, **HELPERS, **dict.fromkeys(_LEFTOVERS, pl.String)}
_TASKS = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")
MOST_TASKS = 10_000
"""An array of which more tasks wait is one job."""
_OPEN = (Outcome.PENDING, Outcome.RUNNING)


class SqueueJsonReader(Reader):
    """JSON of Slurm's `squeue`."""

    format = "squeue-json"
    scheduler = "slurm"

    def match(self, head: Head) -> int:
        if head.is_binary or not head.text.lstrip().startswith("{"):
            return NO
        return SURE if '"job_state"' in head.text and '"allocation_nodes"' not in head.text else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        document = json_document(source)
        items = document.get("jobs") if isinstance(document, dict) else None
        if not isinstance(items, list):
            raise UnreadableSourceError(
                f"{source.name} is a JSON document without a list of jobs",
                expected='{"jobs": […]}, as `squeue --json` prints it',
            )
        made_ms = Json(document).time_ms("last_update") or _last_look_ms(items)
        records = []
        for place, item in enumerate(items, start=1):
            job = Json(item)
            if job.integer("job_id") is None:
                into.reject(source.name, None, f"job {place} of the list has no job_id", str(item))
                continue
            record = _record(job, made_ms, into)
            records += [{**record, **identity} for identity in _identities(job)]
        frame = pl.DataFrame(records, schema=_COLUMNS, orient="row")
        unfilled = [name for name in _LEFTOVERS if frame[name].null_count() == len(frame)]
        add_records(as_queue(frame.drop(unfilled)), into, queue=True)
        return len(items)


def _last_look_ms(items: list[Any]) -> int | None:
    looks = [Json(item).time_ms("last_sched_evaluation") for item in items]
    return max((look for look in looks if look is not None), default=None)


def _record(job: Json, made_ms: int | None, into: TraceBuilder) -> dict[str, Any]:
    state = _state(job)
    is_open = state is None or STATES[state].job in _OPEN
    start_ms = job.time_ms("start_time")
    minutes = job.number("time_limit")
    asked, given = _tres(job, "tres_req_str"), _tres(job, "tres_alloc_str")
    per_node = parse_gres(job.text("tres_per_node") or "") or (None, None)
    node_count = job.integer("node_count")
    runs_s = (made_ms - start_ms) / 1000 if made_ms and start_ms and state == "RUNNING" else None
    return {
        **_labels(job),
        "state": state,
        "status": ",".join(job.words("job_state")) or None,
        "submit_ms": job.time_ms("submit_time"),
        "eligible_ms": job.time_ms("eligible_time"),
        "start_ms": start_ms,
        "end_ms": None if is_open else job.time_ms("end_time"),
        "elapsed_s": not_negative(runs_s),
        "suspended_s": not_negative(job.number("total_suspended_time")),
        "limit_s": None if minutes is None or minutes <= 0 else minutes * 60,
        "cpus_req": asked.cpus or not_negative(job.number("cpus")),
        "nodes_req": asked.nodes or node_count,
        "mem_req_bytes": asked.mem_bytes or _memory(job, node_count),
        "gpus_req": _gpus(asked, per_node[0], node_count),
        "gpu_type_req": asked.gpu_type or per_node[1],
        "req_known": asked.cpus is not None,
        **given_columns(given, job.text("nodes"), into),
        "restarts": job.integer("restart_cnt") or None,
        "dependency": job.text("dependency"),
    }


def _identities(job: Json) -> list[dict[str, Any]]:
    """Return ids in sacct's spelling: `123_4` for an array's task, `123+1` for a part of a heterogeneous job.

    Of tasks that wait together it is one for each, or `123_[5-9]` for all if it is not told which they are.
    """
    array, task = job.integer("array_job_id"), job.integer("array_task_id")
    het, offset = job.integer("het_job_id"), job.integer("het_job_offset")
    waiting = job.text("array_task_string")
    if array and waiting:
        numbers = _tasks(waiting)
        if numbers is None:
            return [{"job_id": f"{array}_[{waiting}]", "array_id": str(array)}]
        return [{"job_id": f"{array}_{n}", "array_id": str(array), "array_task": n} for n in numbers]
    if array and task is not None:
        return [{"job_id": f"{array}_{task}", "array_id": str(array), "array_task": task}]
    if het and offset is not None:
        return [{"job_id": f"{het}+{offset}", "het_id": str(het), "het_offset": offset}]
    return [{"job_id": str(job.integer("job_id"))}]


def _tasks(text: str) -> list[int] | None:
    """Return the numbers in `1-3,7,10-20:5%4`; None if there are too many, or the text was cut off."""
    numbers: list[int] = []
    for part in text.partition("%")[0].split(","):
        match = _TASKS.fullmatch(part.strip())
        if not match:
            return None
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if not step or len(numbers) + (last - first) // step >= MOST_TASKS:
            return None
        numbers += range(first, last + 1, step)
    return list(dict.fromkeys(numbers))


def _labels(job: Json) -> dict[str, Any]:
    return {
        "name": job.text("name"),
        "user": job.text("user_name"),
        "group": job.text("group_name"),
        "account": job.text("account"),
        "cluster": job.text("cluster"),
        "partition": job.text("partition"),
        "qos": job.text("qos"),
        "priority": job.number("priority"),
        "constraint": job.text("features"),
        "x_reason": job.text("state_reason"),
        "x_workdir": job.text("current_working_directory"),
        "x_comment": job.text("comment"),
        "x_reservation": job.text("resv_name"),
    }


def _state(job: Json) -> str | None:
    """Return the state's word: the base state, which stands first, unless the job is to run again."""
    states = [state for word in job.words("job_state") if (state := parse_state(word))]
    return next(
        (state for state in states if state in {"REQUEUED", "REQUEUE_HOLD"}), states[0] if states else None
    )


def _tres(job: Json, name: str) -> Tres:
    return parse_tres(job.text(name) or "") or Tres()


def _gpus(asked: Tres, per_node: float | None, nodes: int | None) -> float | None:
    return asked.gpus if asked.gpus is not None or not per_node else per_node * (nodes or 1)


def _memory(job: Json, nodes: int | None) -> int | None:
    per_cpu, per_node = job.number("memory_per_cpu"), job.number("memory_per_node")
    cpus = not_negative(job.number("cpus"))
    mib = per_cpu * cpus if per_cpu and cpus else per_node * (nodes or 1) if per_node else None
    return round(mib * MIB) if mib and 0 < mib * MIB < 2**63 else None
