"""Applications as the YARN ResourceManager lists them: `/ws/v1/cluster/apps`, or one of them.

`startedTime` is when the ResourceManager took the application in, `launchTime` (Hadoop 2.9 and later) when its
master was launched; without it, start, wait and run are not known and the elapsed time is kept as `x_elapsed_s`.
What an application got is its mean over the run, from the vcore- and MB-seconds that YARN adds up, or what it
holds now if it has not ended. What it asked for is known only while it asks: held plus outstanding containers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from presage.errors import UnreadableSourceError
from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import Cells, json_document, records
from presage.traces.readers._spans import with_spans
from presage.traces.schema import OUTCOME, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

_MIB = 2**20
_GPU = "yarn.io/gpu"
_ANY_NODE = "*"
_STATES = {
    "NEW": Outcome.PENDING, "NEW_SAVING": Outcome.PENDING, "SUBMITTED": Outcome.PENDING,
    "ACCEPTED": Outcome.PENDING, "RUNNING": Outcome.RUNNING, "FINAL_SAVING": Outcome.RUNNING,
    "FINISHING": Outcome.RUNNING, "FAILED": Outcome.FAILED, "KILLED": Outcome.CANCELLED,
}  # fmt: skip
_FINAL = {"SUCCEEDED": Outcome.COMPLETED, "FAILED": Outcome.FAILED, "KILLED": Outcome.CANCELLED}
_LEFTOVER_TEXTS = {"applicationTags": "x_application_tags", "diagnostics": "x_diagnostics"}
_LEFTOVER_NUMBERS = {
    "memorySeconds": "x_memory_mb_s",
    "vcoreSeconds": "x_vcore_s",
    "runningContainers": "x_running_containers",
    "preemptedMemorySeconds": "x_preempted_memory_mb_s",
    "preemptedVcoreSeconds": "x_preempted_vcore_s",
    "preemptedResourceMB": "x_preempted_mb",
    "preemptedResourceVCores": "x_preempted_vcores",
    "numAMContainerPreempted": "x_preempted_am_containers",
    "numNonAMContainerPreempted": "x_preempted_containers",
}


class YarnReader(Reader):
    """Applications from the REST interface of the YARN ResourceManager."""

    format = "yarn"
    scheduler = "yarn"

    def match(self, head: Head) -> int:
        start = "".join(head.text[:400].split())
        fits = start.startswith(('{"apps":', '{"app":')) and '"application_' in head.text
        return SURE if fits or start.startswith('{"apps":{"app":[') else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        apps = list(_apps(json_document(source), source))
        good = []
        for number, app in enumerate(apps, start=1):
            if isinstance(app, dict) and app.get("id"):
                good.append((number, _flat(app)))
            else:
                into.reject(source.name, None, f"application {number} is no object with an id", str(app))
        if good:
            _pour(records(good, source, into), into)
        return len(apps)


def _apps(document: Any, source: Source) -> Iterator[Any]:
    """Yield the applications of a list (a bare object if it has one entry) or of the answer about a single one."""
    apps = document.get("apps", document) if isinstance(document, dict) else document
    if isinstance(apps, dict):
        apps = apps.get("app")
    if isinstance(apps, dict):
        apps = [apps]
    if apps is not None and not isinstance(apps, list):
        raise UnreadableSourceError(
            f"{source.name} holds no YARN applications",
            expected='{"apps": {"app": […]}} or {"app": {…}}',
            remedy="Save the answer of /ws/v1/cluster/apps, or name the right --format",
        )
    yield from apps or []


def _flat(app: dict[str, Any]) -> dict[str, Any]:
    """Return the application with what its nested parts tell about GPUs and outstanding requests."""
    seconds = _pairs(app.get("resourceSecondsMap"))
    asks = [ask for ask in _as_list(app.get("resourceRequests")) if ask.get("resourceName") == _ANY_NODE]
    return {
        **app,
        "gpu_seconds": seconds.get(_GPU),
        "ask_vcores": _asked(asks, "vCores"),
        "ask_mb": _asked(asks, "memory"),
    }


def _pairs(resources: Any) -> dict[str, Any]:
    """Return a resource map, which is written as an object or as a list of entries with key and value."""
    if not isinstance(resources, dict):
        return {}
    entries = _as_list(resources.get("entry"))
    return {str(entry.get("key")): entry.get("value") for entry in entries} if entries else resources


def _as_list(value: Any) -> list[dict[str, Any]]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict)]


def _asked(asks: list[dict[str, Any]], resource: str) -> float | None:
    amounts = [
        (ask.get("numContainers"), ask["capability"].get(resource))
        for ask in asks
        if isinstance(ask.get("capability"), dict)
    ]
    known = [n * size for n, size in amounts if isinstance(n, int | float) and isinstance(size, int | float)]
    return sum(known) if known else None


def _pour(cells: Cells, into: TraceBuilder) -> None:
    frame = cells.frame(
        job_id=cells.text("id"),
        name=cells.text("name"),
        kind=cells.text("applicationType"),
        user=cells.text("user"),
        queue=cells.text("queue"),
        priority=cells.number("priority"),
        submit_ms=pl.coalesce(_time(cells, "submitTime"), _time(cells, "startedTime")),
        start_ms=_time(cells, "launchTime"),
        end_ms=_time(cells, "finishedTime"),
        constraint=pl.coalesce(cells.text("appNodeLabelExpression"), cells.text("amNodeLabelExpression")),
        state=cells.text("state"),
        final=cells.text("finalStatus"),
        x_elapsed_s=_amount(cells, "elapsedTime") / 1000,
        held_cpus=_amount(cells, "allocatedVCores"),
        held_mb=_amount(cells, "allocatedMB"),
        ask_cpus=_amount(cells, "ask_vcores"),
        ask_mb=_amount(cells, "ask_mb"),
        gpu_s=_amount(cells, "gpu_seconds"),
        **{name: cells.text(key) for key, name in _LEFTOVER_TEXTS.items()},
        **{name: _amount(cells, key) for key, name in _LEFTOVER_NUMBERS.items()},
    )
    if not len(frame):
        return
    if not frame["start_ms"].count():
        into.note("the log has no launch times: starts, waits and run times are not known")
    finished = pl.col("state") == "FINISHED"
    jobs = with_spans(frame, into).with_columns(
        status=pl.when(finished & (pl.col("final") != "UNDEFINED")).then("final").otherwise("state"),
        outcome=pl.when(finished).then(_word("final", _FINAL)).otherwise(_word("state", _STATES)),
    )
    into.add_jobs(_with_sizes(jobs).drop("state", "final", "held_cpus", "held_mb", "ask_cpus", "ask_mb", "gpu_s"))


def _with_sizes(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs with what they asked for and what they got."""

    def mean(total: str) -> pl.Expr:
        return pl.when(pl.col("run_s") > 0).then(pl.col(total) / pl.col("run_s"))

    def asked(held: str, ask: str) -> pl.Expr:
        return (
            pl.when(pl.col("end_ms").is_null())
            .then(pl.sum_horizontal(held, ask, ignore_nulls=True))
            .replace(0, None)
        )

    def whole_bytes(mb: pl.Expr) -> pl.Expr:
        return (mb * _MIB).round().cast(pl.Int64, strict=False)

    return jobs.with_columns(
        cpus_req=asked("held_cpus", "ask_cpus"),
        mem_req_bytes=whole_bytes(asked("held_mb", "ask_mb")),
        cpus_alloc=pl.coalesce(mean("x_vcore_s"), "held_cpus"),
        mem_alloc_bytes=whole_bytes(pl.coalesce(mean("x_memory_mb_s"), "held_mb")),
        gpus_alloc=mean("gpu_s"),
    )


def _time(cells: Cells, column: str) -> pl.Expr:
    value = cells.epoch_ms(column, per_second=1000)
    return pl.when(value > 0).then(value)


def _amount(cells: Cells, column: str) -> pl.Expr:
    # -1 stands for "no longer known" once an application has ended.
    value = cells.number(column)
    return pl.when(value >= 0).then(value)


def _word(column: str, words: dict[str, Outcome]) -> pl.Expr:
    known = {word: outcome.value for word, outcome in words.items()}
    return pl.col(column).replace_strict(known, default=None, return_dtype=OUTCOME)
