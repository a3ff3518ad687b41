"""What `kubectl get pods,jobs,events,nodes -o json` says, in one file or several; also the output of a watch.

Files given together make one trace. An object that stands in several of them counts once, in its newest
version.

A batch Job with its pods is one job, and so are the pods of any other controller whose kind ends in "Job"
(PyTorchJob, MPIJob…) and pods that name the same pod group. `tasks` is how many pods may run at once, and what
the job asks for is that of so many pods; more completions than that are in `x_completions`. Where a gang has
several pods, each is an attempt: its task is the pod's index, or else the place of the failed pod that it
replaces. Every other pod is a job of its own; pods of Deployments, StatefulSets and DaemonSets have the kind
"service". A container that restarts in place keeps its node: that is counted in `restarts`, and is no attempt.

* `submit_ms` is the creation. `eligible_ms` is when a Job was released to make its pods, which for suspended
  Jobs (Kueue) is their admission.
* `start_ms` is when the pod was bound to its node (the condition PodScheduled, or the event Scheduled): from
  then on it holds what it asked for, so pulling its image belongs to the run. When its first container started
  is in `x_container_start_ms`. A gang starts with its first member; `x_all_started_ms` is when it was complete.
* `end_ms` is when the last container ended. For pods that no longer say it, the events Preempted, Evicted and
  Killing do, or the deletion.
* Namespaces are accounts. Queues are those of Kueue, Volcano, KAI, Run:ai and YuniKorn.
* A pod that only events know is counted and not made up.

A failed pod's outcome comes from its reason, from what disrupted it, or from the kernel that killed it for
memory; an exit by signal 9 alone does not say which, and stays a failure.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

import polars as pl

from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers.kubernetes.gangs import gang_key, gangs_of, read_job
from presage.traces.readers.kubernetes.nodes import read_node
from presage.traces.readers.kubernetes.objects import FieldError, located_objects, place_of
from presage.traces.readers.kubernetes.pods import PodEvents, read_pod
from presage.traces.readers.kubernetes.rows import JobRows
from presage.traces.schema import NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from presage.traces.builder import TraceBuilder
    from presage.traces.readers.kubernetes.objects import Located
    from presage.traces.source import Head, Source

T = TypeVar("T")

_KINDS = ("Pod", "Job", "Node", "Event")
_API = re.compile(r'"apiVersion"\s*:\s*"(?:v1|batch/v1|events\.k8s\.io/v1)"')
_KIND = re.compile(r'"kind"\s*:\s*"(?:List|(?:Pod|Job|Node|Event)(?:List)?)"')
_MAX_VERSION_DIGITS = 20


class KubernetesReader(Reader):
    """Pods, Jobs, events and nodes as kubectl prints them in JSON."""

    format = "kubernetes"
    scheduler = "kubernetes"

    def match(self, head: Head) -> int:
        is_object = head.text.lstrip().startswith("{")
        return SURE if is_object and _API.search(head.text) and _KIND.search(head.text) else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        cluster = _Cluster(into)
        rows = cluster.collect(source)
        cluster.pour()
        return rows

    def read(self, sources: Sequence[Source], into: TraceBuilder) -> None:
        into.describe(scheduler=self.scheduler)
        cluster = _Cluster(into)
        for source in sources:
            rows = cluster.collect(source)
            self.finish(source, into, rows)
        cluster.pour()


class _Cluster:
    """All objects of the files that are read together."""

    def __init__(self, into: TraceBuilder) -> None:
        self._into = into
        self._objects: dict[str, dict[str, Located]] = {kind: {} for kind in _KINDS}
        self._ignored: Counter[str] = Counter()

    def collect(self, source: Source) -> int:
        """Take the objects of one file and return how many there were."""
        objects = 0
        for found in located_objects(source, self._into):
            objects += 1
            if found.kind in self._objects and not _is_foreign_job(found):
                self._keep_newest(found)
            else:
                self._ignored[found.kind] += 1
        return objects

    def pour(self) -> None:
        """Give the builder jobs, attempts and nodes."""
        events = self._events()
        pods = list(self._read("Pod", lambda found: read_pod(found, _events_about(found, events))))
        jobs = list(self._read("Job", read_job))
        nodes = list(self._read("Node", read_node))
        self._account_for_events(events)
        if self._ignored:
            self._into.count(objects_ignored=self._ignored.total())
            self._into.note(f"objects of other kinds were not used: {', '.join(sorted(self._ignored))}")
        if nodes:
            self._into.add_nodes(pl.DataFrame(nodes, schema=NODES))
        rows = JobRows({row["node_id"]: row["gpu_type"] for row in nodes})
        for pod in pods:
            if gang_key(pod) is None:
                rows.add_pod(pod)
        for gang in gangs_of(jobs, pods):
            rows.add_gang(gang)
        rows.pour(self._into)

    def _keep_newest(self, found: Located) -> None:
        try:
            key = found.metadata.text("uid") or found.place
            known = self._objects[found.kind].get(key)
            if known is None or _version(found) >= _version(known):
                self._objects[found.kind][key] = found
        except FieldError as error:
            self._reject(found, error)

    def _events(self) -> dict[str, PodEvents]:
        """Return what events say about pods, by the pod's uid where they give one, else by its place."""
        by_pod: dict[str, PodEvents] = {}
        for found in self._objects["Event"].values():
            try:
                about = found.fields.child("involvedObject") or found.fields.child("regarding")
                if about.text("kind") == "Pod":
                    key = about.text("uid") or place_of(about.as_dict())
                    by_pod.setdefault(key, PodEvents()).observe(found.fields)
            except FieldError as error:
                self._reject(found, error)
        return by_pod

    def _read(self, kind: str, read: Callable[[Located], T]) -> Iterator[T]:
        for found in self._objects[kind].values():
            try:
                yield read(found)
            except FieldError as error:
                self._reject(found, error)

    def _reject(self, found: Located, error: FieldError) -> None:
        self._into.reject(found.file, found.line, f"{found.kind} {found.place}: {error}")

    def _account_for_events(self, events: Mapping[str, PodEvents]) -> None:
        pods = self._objects["Pod"]
        known = pods.keys() | {found.place for found in pods.values()}
        gone = sum(key not in known for key in events)
        if gone:
            self._into.count(pods_only_in_events=gone)
            self._into.note(f"{gone:,} pods are known from events only; they are no jobs here")


def _is_foreign_job(found: Located) -> bool:
    """Return whether this is a kind of Job that other controllers than Kubernetes' own define."""
    version = found.fields.raw("apiVersion")
    return found.kind == "Job" and isinstance(version, str) and not version.startswith("batch/")


def _version(found: Located) -> int:
    """Return the resource version, which counts up; 0 where it is missing: then the later in the log wins."""
    version = found.metadata.text("resourceVersion") or ""
    return int(version) if version.isdecimal() and len(version) <= _MAX_VERSION_DIGITS else 0


def _events_about(found: Located, events: Mapping[str, PodEvents]) -> PodEvents:
    uid = found.metadata.text("uid")
    return (events.get(uid) if uid else None) or events.get(found.place) or PodEvents()
