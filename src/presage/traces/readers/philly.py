"""Microsoft's Philly GPU clusters, 2017: the job log with its attempts, the machine list, and a flattened CSV.

`philly` reads `cluster_job_log` (one JSON list of jobs, each with its scheduling attempts) and
`cluster_machine_list` (CSV). `philly-flat` reads the CSV that later papers made of it: submit time, duration,
GPUs and virtual cluster, without ids, waits or outcomes; its jobs are numbered in the file's order.

Times are local and carry no zone. The utilisation logs beside them say PDT and PST, so they are read as Pacific
time; a zone in the read options overrides that.

Philly places all GPUs of a job at once or none: what an attempt got is taken as what was asked for. A job whose
last attempt has no end was still running when the log was taken, whatever its status says. An attempt that was
not the last ended in an unknown way and was queued again at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from presage.errors import UnreadableSourceError
from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import LINE, Cells, delimited, header, json_document, records
from presage.traces.readers._spans import unfolded, with_spans
from presage.traces.schema import OUTCOME, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

HOME_ZONE = "America/Los_Angeles"
_JOB_KEYS = ('"jobid"', '"attempts"', '"submitted_time"')
_MACHINE_COLUMNS = {"machineId", "number of GPUs", "single GPU mem"}
_FLAT_COLUMNS = {"timestamp", "duration", "num_gpus", "gpu_time", "cluster"}
_MISSING = ("None",)
_OUTCOMES = {"Pass": Outcome.COMPLETED, "Killed": Outcome.CANCELLED, "Failed": Outcome.FAILED}
_GIB = 2**30


class PhillyReader(Reader):
    """The Philly job log with its attempts, and the machine list."""

    format = "philly"

    def match(self, head: Head) -> int:
        is_job_log = head.text.lstrip().startswith("[") and all(key in head.text for key in _JOB_KEYS)
        return SURE if is_job_log or header(head) >= _MACHINE_COLUMNS else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        zone = _describe(into)
        if header(source.head) >= _MACHINE_COLUMNS:
            return _read_machines(source, into)
        return _read_job_log(source, into, zone)


class PhillyFlatReader(Reader):
    """The flattened CSV of the Philly job log."""

    format = "philly-flat"

    def match(self, head: Head) -> int:
        return SURE if header(head) == _FLAT_COLUMNS else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        zone = _describe(into)
        rows = 0
        for cells in delimited(source, into):
            rows += len(cells.table)
            gpus = cells.count("num_gpus")
            into.add_jobs(
                cells.frame(
                    job_id=(pl.col(LINE) - 1).cast(pl.String),
                    partition=cells.text("cluster"),
                    submit_ms=cells.local_ms("timestamp", zone),
                    run_s=cells.seconds("duration"),
                    gpus_req=gpus,
                    gpus_alloc=gpus,
                )
            )
        return rows


def _describe(into: TraceBuilder) -> str:
    """Tell the manifest what is known of Philly and return the zone of its times."""
    zone = into.options.time_zone or HOME_ZONE
    into.describe(
        time_zone=zone,
        licence="CC-BY-4.0",
        acknowledgement="Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters, USENIX ATC 2019",
    )
    if into.options.time_zone is None:
        into.note(f"the log's local times carry no zone and were read as {zone}")
    return zone


def _read_machines(source: Source, into: TraceBuilder) -> int:
    rows = 0
    for cells in delimited(source, into):
        rows += len(cells.table)
        gib = cells.text("single GPU mem").str.extract(r"^(\d+)\s*GB$").cast(pl.Int64, strict=False)
        into.add_nodes(
            cells.frame(
                node_id=cells.required("machineId"),
                gpus=cells.count("number of GPUs"),
                gpu_mem_bytes=cells.checked("single GPU mem", gib, "not a size in GB") * _GIB,
            )
        )
    return rows


def _read_job_log(source: Source, into: TraceBuilder, zone: str) -> int:
    document = json_document(source)
    if not isinstance(document, list):
        raise UnreadableSourceError(f"{source.name} is JSON, and no list", expected="a list of Philly jobs")
    logged = dict(_well_formed(document, source, into))
    cells = records(((number, _job_record(job)) for number, job in logged.items()), source, into, missing=_MISSING)
    jobs = with_spans(unfolded(_jobs(cells, zone), ("submit_ms", "start_ms", "end_ms"), zone), into)
    if len(jobs):
        into.add_jobs(jobs.drop("x_number"))
        kept = [(number, logged[number]) for number in jobs["x_number"]]
        _add_attempts(kept, jobs, source, into, zone)
    return len(document)


def _well_formed(document: list[Any], source: Source, into: TraceBuilder) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (position, job) for the items that have the shape of a job, the attempts in the order of the log."""
    for number, item in enumerate(document, start=1):
        problem = _problem(item)
        if problem:
            into.reject(source.name, None, f"item {number} {problem}", repr(item)[:200])
        else:
            yield number, item


def _problem(item: Any) -> str | None:
    if not isinstance(item, dict):
        return "is no JSON object"
    attempts = item.get("attempts") or []
    if not isinstance(attempts, list) or not all(isinstance(attempt, dict) for attempt in attempts):
        return "has attempts that are no list of objects"
    for attempt in attempts:
        places = attempt.get("detail") or []
        if not isinstance(places, list) or not all(
            isinstance(place, dict) and isinstance(place.get("gpus", []), list) for place in places
        ):
            return "has an attempt whose detail is no list of machines"
    return None


def _job_record(job: dict[str, Any]) -> dict[str, Any]:
    attempts = job.get("attempts") or []
    last = attempts[-1] if attempts else {}
    return {
        "jobid": job.get("jobid"),
        "user": job.get("user"),
        "vc": job.get("vc"),
        "status": job.get("status"),
        "submitted_time": job.get("submitted_time"),
        "attempts": len(attempts),
        **_attempt_record(last),
    }


def _attempt_record(attempt: dict[str, Any]) -> dict[str, Any]:
    places = attempt.get("detail") or []
    machines = dict.fromkeys(str(place["ip"]) for place in places if place.get("ip") is not None)
    return {
        "start_time": attempt.get("start_time"),
        "end_time": attempt.get("end_time"),
        "gpus": sum(len(place.get("gpus", [])) for place in places) if places else None,
        "machines": "\n".join(machines),
    }


def _jobs(cells: Cells, zone: str) -> pl.DataFrame:
    gpus = cells.count("gpus")
    nodes = cells.text("machines").str.split("\n")
    attempts = cells.integer("attempts")
    start_ms = cells.local_ms("start_time", zone)
    end_ms = cells.local_ms("end_time", zone)
    running = pl.lit(Outcome.RUNNING.value, OUTCOME)
    return cells.frame(
        x_number=pl.col(LINE),
        job_id=cells.required("jobid"),
        user=cells.text("user"),
        partition=cells.text("vc"),
        submit_ms=cells.local_ms("submitted_time", zone),
        start_ms=start_ms,
        end_ms=end_ms,
        gpus_req=gpus,
        gpus_alloc=gpus,
        nodes_alloc=nodes.list.len().cast(pl.Int64),
        node_list=nodes,
        outcome=pl.when(start_ms.is_not_null() & end_ms.is_null())
        .then(running)
        .otherwise(cells.outcome("status", _OUTCOMES)),
        status=cells.text("status"),
        restarts=(attempts - 1).clip(lower_bound=0),
    )


def _add_attempts(
    logged: list[tuple[int, dict[str, Any]]], jobs: pl.DataFrame, source: Source, into: TraceBuilder, zone: str
) -> None:
    """Add the attempts of every job that has more than one."""
    rows = [
        (
            number,
            {"number": number, "attempt": i, "last": i == len(job["attempts"]) - 1, **_attempt_record(attempt)},
        )
        for number, job in logged
        if len(job.get("attempts") or []) > 1
        for i, attempt in enumerate(job["attempts"])
    ]
    if not rows:
        return
    cells = records(rows, source, into, missing=_MISSING)
    attempts = cells.frame(
        x_number=cells.integer("number"),
        attempt=cells.integer("attempt"),
        is_last=cells.text("last") == "true",
        start_ms=cells.local_ms("start_time", zone),
        end_ms=cells.local_ms("end_time", zone),
        gpus=cells.count("gpus"),
        node_list=cells.text("machines").str.split("\n"),
    )
    of_job = jobs.select("x_number", "job_id", "submit_ms", "outcome", "status")
    attempts = unfolded(attempts, ("start_ms", "end_ms"), zone).join(of_job, on="x_number", maintain_order="left")
    first = pl.col("attempt") == 0
    previous_end_ms = pl.col("end_ms").shift(1).over("x_number")
    into.add_attempts(
        attempts.select(
            "job_id",
            "attempt",
            "start_ms",
            "end_ms",
            "node_list",
            "gpus",
            queued_ms=pl.when(first).then("submit_ms").otherwise(previous_end_ms),
            outcome=pl.when("is_last").then("outcome"),
            status=pl.when("is_last").then("status"),
        )
    )
