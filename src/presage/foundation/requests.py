"""Jobs that were not submitted yet, described in words: `cpus=64, limit=2h, like=4711`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from presage.errors import UsageError
from presage.traces import schema
from presage.traces.schema import Outcome
from presage.units import parse_bytes, parse_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.traces import Trace

_TEXTS = ("user", "group", "account", "queue", "partition", "qos", "name", "executable", "gpu_type")
_NUMBERS = {"cpus": "cpus_req", "nodes": "nodes_req", "gpus": "gpus_req"}
_PLACES = {"partition": "partition", "queue": "queue", "qos": "QOS", "gpu_type_req": "GPU type"}
KEYS = ("like", *_NUMBERS, "limit", "memory", *_TEXTS)
_UNKNOWN_LATER = (
    "start_ms", "end_ms", "eligible_ms", "wait_s", "run_s", "suspended_s", "cpus_alloc", "nodes_alloc",
    "gpus_alloc", "gpu_type", "mem_alloc_bytes", "node_list", "cpu_used_s", "mem_used_bytes", "gpu_used_s",
    "status", "exit_code", "signal", "restarts",
)  # fmt: skip


def with_new_jobs(trace: Trace, texts: Sequence[str], now_ms: int) -> tuple[Trace, list[str]]:
    """Return the trace with one more job for each text, submitted at `now_ms`, and their ids (new-1, new-2, …).

    A text is `key=value, …` with the keys of KEYS; `like=ID` takes everything from a job of the trace that is not
    said otherwise. Raises UsageError for a text that cannot be understood or a job that is not there.
    """
    rows = [_row(trace, text) for text in texts]
    ids = [f"new-{number}" for number in range(1, len(rows) + 1)]
    taken = set(ids) & set(trace.jobs["job_id"])
    if taken:
        raise UsageError(f"The trace has a job called {min(taken)!r} already", remedy="Rename it")
    when = {"submit_ms": now_ms, "outcome": Outcome.PENDING.value}
    frame = pl.DataFrame(
        [{**row, **when, "job_id": job_id} for row, job_id in zip(rows, ids, strict=True)],
        schema={name: kind for name, kind in trace.jobs.schema.items() if name in schema.JOBS},
    )
    jobs = pl.concat([trace.jobs, frame], how="diagonal")
    return trace.with_jobs(jobs), ids


def doubts_about(trace: Trace, new_ids: Sequence[str]) -> list[str]:
    """Return what is odd about new jobs of a trace: places the log has never seen, more than the machine has."""
    is_new = pl.col("job_id").is_in(list(new_ids))
    seen, asked = trace.jobs.filter(~is_new), trace.jobs.filter(is_new)
    doubts = []
    for row in asked.iter_rows(named=True):
        doubts += [
            f"{row['job_id']}: no job of the log has the {noun} {row[column]!r}, of which nothing is known"
            for column, noun in _PLACES.items()
            if row[column] is not None and row[column] not in set(seen[column].drop_nulls())
        ]
        doubts += [
            f"{row['job_id']}: {row[column]:,g} {noun} are more than the machine has ({most:,g})"
            for column, noun, most in _most(trace)
            if most and (row[column] or 0) > most
        ]
    return doubts


def _most(trace: Trace) -> list[tuple[str, str, float | None]]:
    machine = trace.manifest.machine
    return [
        ("cpus_req", "processors", machine.cpus), ("nodes_req", "nodes", machine.nodes),
        ("gpus_req", "GPUs", machine.gpus),
    ]  # fmt: skip


def _row(trace: Trace, text: str) -> dict[str, Any]:
    pairs = dict(_pair(part) for part in text.split(",") if part.strip())
    row = _like(trace, pairs.pop("like")) if "like" in pairs else {}
    for key, value in pairs.items():
        column, parsed = _parsed(key, value)
        if key == "nodes" and "cpus" not in pairs:
            row["cpus_req"] = _cpus_for(row, trace, float(parsed))
        row[column] = parsed
    return row


def _pair(part: str) -> tuple[str, str]:
    key, equals, value = (piece.strip() for piece in part.partition("="))
    if not equals or not value or key not in KEYS:
        raise UsageError(
            f"A job cannot be described by {part.strip()!r}", expected=f"key=value with {', '.join(KEYS)}"
        )
    return key, value


def _parsed(key: str, value: str) -> tuple[str, Any]:
    if key in _TEXTS:
        return ("gpu_type_req" if key == "gpu_type" else key), value
    if key == "limit":
        return "limit_s", parse_seconds(value)
    if key == "memory":
        return "mem_req_bytes", _memory(value)
    number = _number(key, value)
    return _NUMBERS[key], int(number) if key == "nodes" else number


def _memory(value: str) -> int:
    count = parse_bytes(value)
    if not count:
        raise UsageError(f"memory cannot be {value!r}", expected="a number above 0")
    return count


def _number(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e18:
        raise UsageError(f"{key} cannot be {value!r}", expected="a number above 0")
    return number


def _like(trace: Trace, job_id: str) -> dict[str, Any]:
    found = trace.jobs.filter(pl.col("job_id") == job_id)
    if not len(found):
        raise UsageError(f"The trace has no job {job_id!r}", expected="the id of a job of the trace")
    row = found.row(0, named=True)
    size = {"cpus_req": row["cpus_req"] or row["cpus_alloc"], "gpus_req": row["gpus_req"] or row["gpus_alloc"]}
    kept = {name: value for name, value in row.items() if name in schema.JOBS and name not in _UNKNOWN_LATER}
    return {**kept, **size, "nodes_req": row["nodes_req"] or row["nodes_alloc"]}


def _cpus_for(row: dict[str, Any], trace: Trace, nodes: float) -> float:
    """Return the processors of so many nodes: as many on each as the job to resemble has, or the machine has."""
    machine = trace.manifest.machine
    if row.get("cpus_req") and row.get("nodes_req"):
        return float(row["cpus_req"]) / float(row["nodes_req"]) * nodes
    return (machine.cpus / machine.nodes if machine.cpus and machine.nodes else 1.0) * nodes
