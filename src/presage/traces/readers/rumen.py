"""Rumen job traces of Hadoop: JSON objects one behind the other, a job each; topologies give nodes and racks.

A damaged object costs itself: reading goes on at the next line that begins one. Hadoop writes -1 for "not
known". Tasks are numbered as in `jhist`; setup and cleanup tasks are among the attempts too.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import polars as pl

from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._hadoop import (
    ATTEMPT_COLUMNS,
    MIB,
    PRIORITIES,
    attempt_rows,
    host,
    hosts,
    number,
    objects,
    text,
    time_ms,
)
from presage.traces.readers._spans import with_spans
from presage.traces.schema import JOBS, NODES, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

_OBJECT_LINE = re.compile(r"^ ?\{", re.MULTILINE)
_RESULTS = {
    "SUCCESS": Outcome.COMPLETED, "SUCCEEDED": Outcome.COMPLETED, "FAILED": Outcome.FAILED,
    "KILLED": Outcome.CANCELLED,
}  # fmt: skip
_MAX_MB = 2**40
_TASK_LISTS = {"mapTasks": "jobMapMB", "reduceTasks": "jobReduceMB", "otherTasks": None}
_JOB_COLUMNS = JOBS | {"x_maps": pl.Int64, "x_reduces": pl.Int64, "x_heap_mb": pl.Int64}


class RumenReader(Reader):
    """Job traces and topologies as Hadoop's Rumen writes them."""

    format = "rumen"

    def match(self, head: Head) -> int:
        start = head.text.lstrip()[:100]
        trace = start.startswith("{") and '"jobID"' in head.text and '"mapTasks"' in head.text
        topology = re.match(r'\{\s*"name"\s*:\s*"<root>"\s*,\s*"children"', start)
        return SURE if trace or topology else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        jobs: list[dict[str, Any]] = []
        attempts: list[dict[str, Any]] = []
        nodes: list[dict[str, str]] = []
        seen = 0
        for line, item in _objects(source, into):
            seen += 1
            job_id = text(item.get("jobID"))
            if job_id is not None:
                runs, rows = _attempts(job_id, item)
                jobs.append(_job(job_id, item, runs))
                attempts += rows
            elif isinstance(item.get("children"), list):
                nodes += _nodes(item)
            else:
                into.reject(source.name, line, "neither a job nor a topology", str(item))
        if jobs:
            into.add_jobs(with_spans(pl.DataFrame(jobs, schema=_JOB_COLUMNS), into))
        if attempts:
            into.add_attempts(pl.DataFrame(attempts, schema=ATTEMPT_COLUMNS))
        if nodes:
            into.add_nodes(pl.DataFrame(nodes, schema={name: NODES[name] for name in ("node_id", "rack")}))
        return seen


def _objects(source: Source, into: TraceBuilder) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for every object of the source; what is none becomes a reject."""
    document = source.read_text()
    decoder = json.JSONDecoder()
    at, line, counted = 0, 1, 0
    while match := re.compile(r"\S").search(document, at):
        at = match.start()
        line += document.count("\n", counted, at)
        counted = at
        try:
            item, at = decoder.raw_decode(document, at)
            if isinstance(item, dict):
                yield line, item
                continue
            problem = "not a JSON object"
        except (ValueError, RecursionError) as error:
            problem = f"not JSON ({error})"
        into.reject(source.name, line, problem, document[counted : counted + 200].partition("\n")[0])
        following = _OBJECT_LINE.search(document, max(at, counted + 1))
        at = following.start() if following else len(document)


def _job(job_id: str, item: dict[str, Any], runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    maps, reduces = number(item.get("totalMaps")), number(item.get("totalReduces"))
    status = text(item.get("outcome"))
    outcome = _RESULTS.get(status or "")
    return {
        "job_id": job_id,
        "name": text(item.get("jobName")),
        "kind": text(item.get("jobtype")),
        "user": text(item.get("user")),
        "queue": text(item.get("queue")),
        "priority": PRIORITIES.get(text(item.get("priority")) or ""),
        "submit_ms": time_ms(item.get("submitTime")),
        "start_ms": time_ms(item.get("launchTime")),
        "end_ms": time_ms(item.get("finishTime")),
        "tasks": None if maps is None and reduces is None else (maps or 0) + (reduces or 0),
        "node_list": hosts(runs),
        "outcome": outcome.value if outcome else None,
        "status": status,
        "x_maps": maps,
        "x_reduces": reduces,
        "x_heap_mb": number(item.get("heapMegabytes")),
    }


def _attempts(job_id: str, item: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Return the attempts of all tasks by attempt id, and their rows."""
    runs: dict[str, dict[str, Any]] = {}
    queued: dict[str, int | None] = {}
    for tasks, memory in _TASK_LISTS.items():
        size_mb = number(item.get(memory)) if memory else None
        for task in objects(item.get(tasks)):
            task_id = text(task.get("taskID")) or f"{job_id} {tasks}"
            queued[task_id] = time_ms(task.get("startTime"))
            for attempt in objects(task.get("attempts")):
                attempt_id = text(attempt.get("attemptID")) or f"{task_id} {len(runs)}"
                result = text(attempt.get("result"))
                outcome = _RESULTS.get(result or "")
                ran_on = text(attempt.get("hostName"))
                runs[attempt_id] = {
                    "x_task_id": task_id,
                    "x_task_type": text(task.get("taskType")),
                    "start_ms": time_ms(attempt.get("startTime")),
                    "end_ms": time_ms(attempt.get("finishTime")),
                    "outcome": outcome.value if outcome else None,
                    "status": result,
                    "node_list": [host(ran_on)] if ran_on else [],
                    "mem_bytes": size_mb * MIB if size_mb and size_mb < _MAX_MB else None,
                }
    rows = attempt_rows(job_id, runs, number(item.get("totalMaps")), queued)
    return runs, [{**row, "node_list": row["node_list"] or None} for row in rows]


def _nodes(topology: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the leaves of a topology with the path to them as their rack."""
    pending = [(topology, "")]
    while pending:
        branch, rack = pending.pop()
        name = (text(branch.get("name")) or "").replace("\\.", ".")
        children = objects(branch.get("children"))
        if not children:
            yield {"node_id": name, "rack": rack}
        inner = "" if name == "<root>" else f"{rack}/{name}"
        pending += [(child, inner) for child in reversed(children)]
