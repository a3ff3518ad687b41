"""From pods and gangs to rows of the canonical tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from presage.traces.readers._spans import with_spans
from presage.traces.readers.kubernetes.pods import queue_of, user_of
from presage.traces.schema import ATTEMPTS, JOBS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from presage.traces.builder import TraceBuilder
    from presage.traces.readers.kubernetes.gangs import Gang
    from presage.traces.readers.kubernetes.pods import Ask, Pod
    from presage.traces.readers.kubernetes.quantities import Amounts

_SERVICES = ("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "ReplicationController", "Node")
"""Owners of pods that run until they are deleted. A node owns the static pods of its own manifest folder."""
_EXTRAS = {
    "x_uid": pl.String(),
    "x_owner": pl.String(),
    "x_container_start_ms": pl.Int64(),
    "x_all_started_ms": pl.Int64(),
    "x_completions": pl.Int64(),
    "x_failed_schedulings": pl.Int64(),
}


class JobRows:
    """Rows of jobs and attempts in the making. `gpu_type_of_node` is what is known of the nodes."""

    def __init__(self, gpu_type_of_node: Mapping[str, str | None]) -> None:
        self._gpu_type_of_node = gpu_type_of_node
        self._jobs: list[dict[str, Any]] = []
        self._attempts: list[dict[str, Any]] = []
        self._ids: set[str] = set()
        self._ownerless = 0

    def add_pod(self, pod: Pod) -> None:
        """Add a pod that is a job of its own."""
        kind = "pod" if pod.owner is None else "service" if pod.owner.kind in _SERVICES else pod.owner.kind
        self._jobs.append(
            {
                "job_id": self._unique_id(pod.namespace, pod.name, pod.uid),
                "name": pod.name,
                "kind": kind,
                "qos": pod.qos,
                "submit_ms": pod.created_ms,
                "start_ms": pod.scheduled_ms,
                "end_ms": pod.ended_ms,
                "limit_s": pod.ask.limit_s,
                "nodes_req": 1,
                "tasks": 1,
                "outcome": pod.outcome,
                "status": pod.status,
                "exit_code": pod.exit_code,
                "signal": pod.signal,
                "restarts": pod.restarts,
                "x_uid": pod.uid,
                "x_owner": str(pod.owner) if pod.owner else None,
                "x_container_start_ms": pod.container_start_ms,
                "x_failed_schedulings": pod.failed_schedulings or None,
                **_asked(pod.namespace, pod.tags, pod.ask, pod.ask.amounts),
                **self._placed([pod]),
            }
        )

    def add_gang(self, gang: Gang) -> None:
        """Add a job and the pods that ran for it."""
        job, decisive = gang.job, gang.decisive_pod
        job_id = self._unique_id(gang.namespace, gang.name, gang.uid)
        container_starts = [pod.container_start_ms for pod in gang.last_pods if pod.container_start_ms is not None]
        replaced = len(gang.pods) - len(gang.tasks)
        self._ownerless += job is None
        self._jobs.append(
            {
                "job_id": job_id,
                "name": gang.name,
                "kind": gang.kind,
                "qos": gang.last_pods[0].qos if gang.tasks else None,
                "submit_ms": gang.created_ms,
                "eligible_ms": job.released_ms if job else None,
                "start_ms": gang.start_ms,
                "end_ms": gang.end_ms,
                "limit_s": (job.limit_s if job else None) or gang.ask.limit_s,
                "tasks": job.tasks if job else len(gang.tasks),
                "outcome": gang.outcome,
                "status": job.status if job else decisive.status if decisive else gang.last_pods[0].status,
                "exit_code": decisive.exit_code if decisive else None,
                "signal": decisive.signal if decisive else None,
                "restarts": replaced + sum(pod.restarts for pod in gang.pods),
                "x_uid": gang.uid,
                "x_owner": str(job.owner) if job and job.owner else None,
                "x_container_start_ms": min(container_starts, default=None),
                "x_all_started_ms": gang.all_started_ms,
                "x_completions": job.completions if job and job.completions != job.tasks else None,
                "x_failed_schedulings": sum(pod.failed_schedulings for pod in gang.pods) or None,
                **_asked(gang.namespace, gang.tags, gang.ask, gang.amounts),
                **self._placed(gang.last_pods),
            }
        )
        if len(gang.pods) > 1:
            self._attempts.extend(_attempts(job_id, gang))

    def pour(self, into: TraceBuilder) -> None:
        """Give the rows to the builder."""
        if self._ownerless:
            into.count(gangs_without_owner=self._ownerless)
            into.note("some gangs have no Job in the log: they count from the creation of their first pod")
        if self._jobs:
            self._jobs.sort(key=lambda row: (row["submit_ms"] is None, row["submit_ms"] or 0))
            into.add_jobs(with_spans(pl.DataFrame(self._jobs, schema={**JOBS, **_EXTRAS}), into))
        if self._attempts:
            into.add_attempts(pl.DataFrame(self._attempts, schema=ATTEMPTS))

    def _unique_id(self, namespace: str, name: str, uid: str | None) -> str:
        """Return `namespace/name`, with the uid behind it where a Job or an earlier object has that name."""
        place = f"{namespace}/{name}"
        job_id = place if place not in self._ids else f"{place}@{uid or len(self._ids)}"
        self._ids.add(job_id)
        return job_id

    def _placed(self, pods: Sequence[Pod]) -> dict[str, Any]:
        nodes = list(dict.fromkeys(pod.node for pod in pods if pod.node))
        with_gpu = [pod.node for pod in pods if pod.node and pod.ask.amounts.gpus]
        types = {self._gpu_type_of_node.get(node) for node in with_gpu}
        return {
            "nodes_alloc": len(nodes) or None,
            "node_list": nodes or None,
            "gpu_type": "|".join(sorted(name for name in types if name)) or None,
        }


def _asked(namespace: str, tags: Mapping[str, str], ask: Ask, amounts: Amounts) -> dict[str, Any]:
    return {
        "executable": ask.image,
        "user": user_of(tags),
        "account": namespace,
        "queue": queue_of(tags),
        "priority": ask.priority,
        "cpus_req": amounts.cpus,
        "gpus_req": amounts.gpus,
        "gpu_type_req": ask.gpu_type,
        "mem_req_bytes": amounts.mem_bytes,
        "constraint": ask.constraint,
    }


def _attempts(job_id: str, gang: Gang) -> list[dict[str, Any]]:
    return [
        {
            "job_id": job_id,
            "task": task,
            "attempt": attempt,
            "queued_ms": pod.created_ms,
            "start_ms": pod.scheduled_ms,
            "end_ms": pod.ended_ms,
            "outcome": pod.outcome,
            "status": pod.status,
            "exit_code": pod.exit_code,
            "node_list": [pod.node] if pod.node else None,
            "cpus": pod.ask.amounts.cpus,
            "gpus": pod.ask.amounts.gpus,
            "mem_bytes": pod.ask.amounts.mem_bytes,
        }
        for task, pods in gang.tasks.items()
        for attempt, pod in enumerate(pods)
    ]
