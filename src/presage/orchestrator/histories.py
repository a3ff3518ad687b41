"""The past of managed jobs, as the log of a cluster would have it: estimators learn from both alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from presage.estimators.history.walltime import CONTINUATION
from presage.estimators.scripts import Script, stamp_of
from presage.estimators.workloads import ScriptWorkload
from presage.orchestrator.jobs import Ending
from presage.orchestrator.outcomes import run_s, working_parts
from presage.traces import Trace
from presage.traces.manifest import Manifest
from presage.traces.schema import JOBS, Outcome

if TYPE_CHECKING:
    from datetime import datetime

    from presage.connectors._base import JobStatus
    from presage.orchestrator.jobs import ManagedJob, SubJob
    from presage.orchestrator.store import Store

MOST_JOBS = 5000
"""Managed jobs that are looked at, the newest."""
_OUTCOMES = {
    Ending.COMPLETED: Outcome.COMPLETED,
    Ending.CONTINUED: Outcome.TIMEOUT,
    Ending.TIMEOUT: Outcome.TIMEOUT,
    Ending.OUT_OF_MEMORY: Outcome.OUT_OF_MEMORY,
    Ending.NODE_FAILURE: Outcome.NODE_FAILURE,
    Ending.PREEMPTED: Outcome.PREEMPTED,
    Ending.FAILED: Outcome.FAILED,
    Ending.CANCELLED: Outcome.CANCELLED,
    Ending.MOVED: Outcome.CANCELLED,
}
_EXTRAS = {"x_comment": pl.String(), "x_managed_job": pl.String()}


def managed_history(
    store: Store, owner: str | None = None, since: datetime | None = None, *, cluster: str | None = None
) -> Trace:
    """Return the sub-jobs that have ended, one row each, of jobs handed over since then, of one owner or all.

    With a `cluster`, ids are the cluster's own, so that its own log and this one can be put together; without one
    they have the cluster's name before them. A sub-job that went on from a checkpoint is of the kind
    `continuation`; one that saved itself and ended before its limit counts as one that reached it.
    """
    rows: dict[str, dict[str, Any]] = {}
    for job in reversed(store.jobs(owner, most=MOST_JOBS)):
        if since is not None and job.created_at < since:
            continue
        begun = min((each.number for each in working_parts(job)), default=0)
        for sub_job in job.sub_jobs:
            if sub_job.ending in _OUTCOMES and cluster in (None, sub_job.place.cluster):
                row = _row(job, sub_job, is_continued=0 < begun < sub_job.number and job.order.is_resumable)
                if row is not None:
                    own = row["job_id"] if cluster else f"{sub_job.place.cluster}/{row['job_id']}"
                    rows[own] = {**row, "job_id": own}
    frame = pl.DataFrame(list(rows.values()), schema={**JOBS, **_EXTRAS}, orient="row")
    return Trace.create(frame, Manifest(scheduler="presage"))


def _row(job: ManagedJob, sub_job: SubJob, *, is_continued: bool) -> dict[str, Any] | None:
    status, place, order = sub_job.status, sub_job.place, job.order
    if status is None or status.end_time is None or sub_job.ending is None:
        return None
    nodes = status.nodes or place.nodes
    script = Script(order.name, order.script)
    # Without a commit: the folder it runs in may be another machine's, and another one's by now.
    workload = ScriptWorkload(order.name, order.arguments, digest=script.digest)
    return {
        "job_id": status.job_id, "name": order.name, "kind": CONTINUATION if is_continued else None,
        "user": job.owner, "account": order.account, "cluster": place.cluster, "qos": order.qos,
        "partition": status.partition or place.partition,
        "submit_ms": _ms(status.submit_time), "start_ms": _ms(status.start_time), "end_ms": _ms(status.end_time),
        "wait_s": _wait_s(status), "run_s": run_s(sub_job), "limit_s": status.walltime_s or place.walltime_s,
        "nodes_req": place.nodes, "cpus_req": _times(place.cores, place.nodes),
        "gpus_req": _times(place.gpus, place.nodes), "gpu_type_req": place.gpu_type,
        "mem_req_bytes": None if place.memory_bytes is None else place.memory_bytes * place.nodes,
        "nodes_alloc": nodes if status.start_time else None, "mem_used_bytes": status.max_rss_bytes,
        "outcome": _OUTCOMES[sub_job.ending].value, "status": sub_job.ending.value,
        "exit_code": status.exit_code, "signal": status.signal,
        "x_comment": str(stamp_of(workload)), "x_managed_job": job.job_id,
    }  # fmt: skip


def _wait_s(status: JobStatus) -> float | None:
    if status.submit_time is None or status.start_time is None:
        return None
    return max(0.0, (status.start_time - status.submit_time).total_seconds())


def _times(amount: int | None, nodes: int) -> float | None:
    return None if amount is None else float(amount * nodes)


def _ms(instant: datetime | None) -> int | None:
    return None if instant is None else round(instant.timestamp() * 1000)
