"""What goes over the wire for a managed job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from presage.orchestrator.jobs import order_document

if TYPE_CHECKING:
    from presage.orchestrator.jobs import ManagedJob, SubJob
    from presage.orchestrator.store import Happened


def job_document(job: ManagedJob, *, with_order: bool = False) -> dict[str, Any]:
    """Return a job as it is told to its owner."""
    progress = job.progress
    document: dict[str, Any] = {
        "job_id": job.job_id,
        "name": job.order.name,
        "owner": job.owner,
        "state": job.state,
        "phase": job.phase.value,
        "reason": job.reason,
        "created_at": job.created_at.isoformat(),
        "progress": None
        if progress is None or not progress.is_known
        else {"done": progress.done, "total": progress.total, "left_s": progress.left_s},
        "metrics": (progress.metrics or None) if progress is not None else None,
        "utilization": (progress.utilization or None) if progress is not None else None,
        "sub_jobs": [_sub_job_document(each) for each in job.sub_jobs],
    }
    if with_order:
        document["order"] = order_document(job.order)
    return document


def event_document(event: Happened) -> dict[str, Any]:
    """Return an event as it is told."""
    return {
        "number": event.number,
        "job_id": event.job_id,
        "at": event.at.isoformat(),
        "kind": event.kind,
        "values": event.values,
    }


def _sub_job_document(sub_job: SubJob) -> dict[str, Any]:
    status = sub_job.status
    return {
        "number": sub_job.number,
        "cluster": sub_job.place.cluster,
        "partition": sub_job.place.partition,
        "cluster_job_id": sub_job.cluster_job_id,
        "state": status.state.value if status is not None else "submitting",
        "ending": sub_job.ending.value if sub_job.ending else None,
        "reason": sub_job.reason,
        "walltime_s": sub_job.place.walltime_s,
        "memory_bytes": sub_job.place.memory_bytes,
        "start_time": status.start_time.isoformat() if status and status.start_time else None,
        "end_time": status.end_time.isoformat() if status and status.end_time else None,
    }
