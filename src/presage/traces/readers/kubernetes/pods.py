"""Pods: what they asked for, when they held a node, how they ended; told by the pod and by events about it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from presage.traces.readers.kubernetes.objects import FieldError
from presage.traces.readers.kubernetes.quantities import Amounts, amounts, gpu_types, requests
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from presage.traces.readers.kubernetes.objects import Fields, Located

_QUEUE_TAGS = (
    "kueue.x-k8s.io/queue-name", "scheduling.volcano.sh/queue-name", "volcano.sh/queue-name",
    "kai.scheduler/queue", "runai/queue", "yunikorn.apache.org/queue", "queue",
)  # fmt: skip
_USER_TAGS = (
    "user", "username", "hub.jupyter.org/username", "workflows.argoproj.io/creator",
    "notebooks.kubeflow.org/creator", "sparkoperator.k8s.io/submitted-by-user", "owner", "created-by",
)  # fmt: skip
_GROUP_TAGS = (
    "kueue.x-k8s.io/pod-group-name", "scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name",
    "scheduling.k8s.io/group-name",
)  # fmt: skip
_INDEX_TAG = "batch.kubernetes.io/job-completion-index"
_REASONS = {
    "Evicted": Outcome.PREEMPTED,
    "Preempting": Outcome.PREEMPTED,
    "Preempted": Outcome.PREEMPTED,
    "DeadlineExceeded": Outcome.TIMEOUT,
    "NodeLost": Outcome.NODE_FAILURE,
    "NodeShutdown": Outcome.NODE_FAILURE,
    "Shutdown": Outcome.NODE_FAILURE,
    "Terminated": Outcome.NODE_FAILURE,
}
"""A failed pod's `status.reason`. The kubelet writes `Terminated` when it shuts its node down."""
_DISRUPTIONS = {
    "PreemptionByScheduler": Outcome.PREEMPTED,
    "EvictionByEvictionAPI": Outcome.PREEMPTED,
    "TerminationByKubelet": Outcome.PREEMPTED,
    "DeletionByTaintManager": Outcome.NODE_FAILURE,
    "DeletionByPodGC": Outcome.NODE_FAILURE,
}
"""Reasons of the condition `DisruptionTarget`."""
_ASSIGNED = re.compile(r"assigned \S+ to (\S+)")
_FIRST_SIGNAL_EXIT = 129
_LAST_SIGNAL_EXIT = 128 + 64


@dataclass(frozen=True)
class Ask:
    """What a pod spec asks for."""

    amounts: Amounts
    gpu_type: str | None
    limit_s: int | None
    priority: int | None
    image: str | None
    constraint: str | None


@dataclass
class PodEvents:
    """What events say about one pod."""

    scheduled_ms: int | None = None
    node: str | None = None
    disrupted_ms: int | None = None
    disruption: Outcome | None = None
    killed_ms: int | None = None
    failed_schedulings: int = 0

    def observe(self, event: Fields) -> None:
        """Take one event, of the core API or of events.k8s.io."""
        reason = event.text("reason")
        time_ms = _event_time(event)
        if reason == "Scheduled":
            self.scheduled_ms = time_ms
            match = _ASSIGNED.search(event.text("message") or event.text("note") or "")
            self.node = match[1] if match else self.node
        elif reason in {"Preempted", "Evicted"}:
            self.disrupted_ms, self.disruption = time_ms, Outcome.PREEMPTED
        elif reason == "TaintManagerEviction":
            self.disrupted_ms, self.disruption = time_ms, Outcome.NODE_FAILURE
        elif reason == "Killing":
            self.killed_ms = time_ms
        elif reason == "FailedScheduling":
            series = event.child("series")
            self.failed_schedulings += series.whole("count") or event.whole("count") or 1


@dataclass(frozen=True)
class Owner:
    """The controller that made an object."""

    kind: str
    name: str
    uid: str | None

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True)
class Pod:
    """A pod that was, is or will be on a node. `scheduled_ms` to `ended_ms` is how long it held its request."""

    namespace: str
    name: str
    uid: str | None
    tags: Mapping[str, str] = field(repr=False)
    owner: Owner | None
    ask: Ask
    qos: str | None
    node: str | None
    index: int | None
    created_ms: int | None
    scheduled_ms: int | None
    container_start_ms: int | None
    ended_ms: int | None
    outcome: Outcome | None
    status: str | None
    exit_code: int | None
    signal: int | None
    restarts: int
    failed_schedulings: int

    @property
    def group(self) -> str | None:
        return _first(self.tags, _GROUP_TAGS)

    @property
    def is_over(self) -> bool:
        return self.outcome not in (Outcome.RUNNING, Outcome.PENDING, None)


def queue_of(tags: Mapping[str, str]) -> str | None:
    """Return the queue that labels or annotations name."""
    return _first(tags, _QUEUE_TAGS)


def user_of(tags: Mapping[str, str]) -> str | None:
    """Return the person that labels or annotations name."""
    return _first(tags, _USER_TAGS)


def tags_of(metadata: Fields) -> dict[str, str]:
    """Return annotations and labels together; where both have a name, the label counts."""
    return metadata.tags("annotations") | metadata.tags("labels")


def read_ask(spec: Fields, tags: Mapping[str, str]) -> Ask:
    """Return what a pod spec asks for. Raises FieldError."""
    needed = requests(spec)
    selector = spec.tags("nodeSelector")
    containers = spec.items("containers")
    return Ask(
        amounts=amounts(needed, tags),
        gpu_type=gpu_types(spec, tags, needed),
        limit_s=spec.whole("activeDeadlineSeconds"),
        priority=_priority(spec),
        image=containers[0].text("image") if containers else None,
        constraint=",".join(f"{key}={value}" for key, value in sorted(selector.items())) or None,
    )


def read_pod(found: Located, events: PodEvents) -> Pod:
    """Return the pod, with what it does not say filled from `events`. Raises FieldError."""
    metadata, spec, status = found.metadata, found.fields.child("spec"), found.fields.child("status")
    tags = tags_of(metadata)
    containers = status.items("containerStatuses")
    ends = _terminations([*status.items("initContainerStatuses"), *containers])
    outcome = _outcome(status, ends, events, deleted=found.deleted)
    node = spec.text("nodeName") or events.node
    scheduled_ms = _scheduled_ms(status, containers, events, node)
    if outcome == Outcome.PENDING and scheduled_ms is not None:
        outcome = Outcome.RUNNING  # it holds its node while the image is pulled
    is_over = outcome not in (Outcome.RUNNING, Outcome.PENDING)
    decisive = _decisive(ends) if is_over else None
    exit_code = decisive.whole("exitCode") if decisive else None
    return Pod(
        namespace=metadata.text("namespace") or "default",
        name=required_name(metadata),
        uid=metadata.text("uid"),
        tags=tags,
        owner=owner_of(metadata),
        ask=read_ask(spec, tags),
        qos=status.text("qosClass"),
        node=node,
        index=_index(tags),
        created_ms=metadata.time_ms("creationTimestamp"),
        scheduled_ms=scheduled_ms,
        container_start_ms=_container_start_ms(containers),
        ended_ms=_ended_ms(found, events) if is_over else None,
        outcome=outcome,
        status="/".join(part for part in (status.text("phase"), status.text("reason")) if part) or None,
        exit_code=exit_code,
        signal=_signal(decisive, exit_code),
        restarts=max((container.whole("restartCount") or 0 for container in containers), default=0),
        failed_schedulings=events.failed_schedulings,
    )


def required_name(metadata: Fields) -> str:
    """Return the object's name. Raises FieldError if it has none."""
    name = metadata.text("name")
    if name is None:
        raise FieldError("metadata.name is missing")
    return name


def owner_of(metadata: Fields) -> Owner | None:
    """Return the controller that made the object."""
    for reference in metadata.items("ownerReferences"):
        kind, name = reference.text("kind"), reference.text("name")
        if reference.raw("controller") is True and kind and name:
            return Owner(kind, name, reference.text("uid"))
    return None


def condition(status: Fields, kind: str, state: str = "True") -> Fields | None:
    """Return the condition of that type and state."""
    return next(
        (c for c in status.items("conditions") if c.text("type") == kind and c.text("status") == state), None
    )


def _outcome(status: Fields, ends: Sequence[Fields], events: PodEvents, *, deleted: bool) -> Outcome | None:
    phase = status.text("phase")
    if phase == "Succeeded":
        return Outcome.COMPLETED
    disruption = condition(status, "DisruptionTarget")
    why = _REASONS.get(status.text("reason") or "")
    why = why or (_DISRUPTIONS.get(disruption.text("reason") or "") if disruption else None) or events.disruption
    if phase == "Failed":
        killed_for_memory = any(end.text("reason") == "OOMKilled" for end in ends)
        return why or (Outcome.OUT_OF_MEMORY if killed_for_memory else Outcome.FAILED)
    if deleted or events.disruption:
        return why or Outcome.CANCELLED
    if phase == "Unknown":
        return why
    return Outcome.RUNNING if phase == "Running" else Outcome.PENDING


def _scheduled_ms(status: Fields, containers: Sequence[Fields], events: PodEvents, node: str | None) -> int | None:
    scheduled = condition(status, "PodScheduled")
    times = [scheduled.time_ms("lastTransitionTime") if scheduled else None, events.scheduled_ms]
    if node:
        times += [status.time_ms("startTime"), _container_start_ms(containers)]
    return next((time for time in times if time is not None), None)


def _ended_ms(found: Located, events: PodEvents) -> int | None:
    status = found.fields.child("status")
    not_ready = condition(status, "Ready", "False")
    disruption = condition(status, "DisruptionTarget")
    # Before the pod has come to its last phase, the end of some containers is not the end of all.
    final = status.text("phase") in {"Succeeded", "Failed"}
    times = (
        _finished_ms(status.items("containerStatuses")) if final else None,
        events.disrupted_ms,
        events.killed_ms,
        disruption.time_ms("lastTransitionTime") if disruption else None,
        found.metadata.time_ms("deletionTimestamp"),
        _finished_ms(status.items("initContainerStatuses")) if final else None,
        not_ready.time_ms("lastTransitionTime") if not_ready else None,
    )
    return next((time for time in times if time is not None), None)


def _finished_ms(containers: Sequence[Fields]) -> int | None:
    ends = [end.time_ms("finishedAt") or 0 for end in _terminations(containers)]
    return max(ends, default=0) or None


def _decisive(ends: Sequence[Fields]) -> Fields | None:
    """Return the end that tells how the pod ended: the first that failed, else the last."""
    return next((end for end in ends if end.whole("exitCode")), ends[-1] if ends else None)


def _terminations(containers: Sequence[Fields]) -> list[Fields]:
    """Return the final states of the containers that have one, in the order in which they ended."""
    ends = [end for container in containers if (end := container.child("state", "terminated"))]
    return sorted(ends, key=lambda end: end.time_ms("finishedAt") or 0)


def _container_start_ms(containers: Sequence[Fields]) -> int | None:
    starts = []
    for container in containers:
        for name in ("running", "terminated"):
            # A container that never ran is written as started at the epoch, or at the year 1.
            start = container.child("state", name).time_ms("startedAt")
            if start is not None and start > 0:
                starts.append(start)
    return min(starts, default=None)


def _signal(end: Fields | None, exit_code: int | None) -> int | None:
    if end is None or exit_code is None:
        return None
    named = end.whole("signal")
    return named or (exit_code - 128 if _FIRST_SIGNAL_EXIT <= exit_code <= _LAST_SIGNAL_EXIT else None)


def _index(tags: Mapping[str, str]) -> int | None:
    text = tags.get(_INDEX_TAG)
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 9:
        raise FieldError(f"{_INDEX_TAG}: {text[:40]!r} is no index")
    return int(text)


def _priority(spec: Fields) -> int | None:
    value = spec.raw("priority")
    return value if isinstance(value, int) and abs(value) < 2**31 else None


def _event_time(event: Fields) -> int | None:
    names = ("eventTime", "firstTimestamp", "deprecatedFirstTimestamp", "lastTimestamp", "deprecatedLastTimestamp")
    return next((time for name in names if (time := event.time_ms(name)) is not None), None)


def _first(tags: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((tags[name] for name in names if tags.get(name)), None)
