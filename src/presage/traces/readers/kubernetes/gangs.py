"""Gangs: a batch Job with the pods that ran for it, or pods that only say that they belong together."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from presage.traces.readers.kubernetes.pods import (
    Ask,
    Owner,
    Pod,
    condition,
    owner_of,
    read_ask,
    required_name,
    tags_of,
)
from presage.traces.readers.kubernetes.quantities import Amounts
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from presage.traces.readers.kubernetes.objects import Fields, Located

_UNFINISHED = (Outcome.RUNNING, Outcome.PENDING)


@dataclass(frozen=True)
class Job:
    """A batch/v1 Job. `tasks` is how many of its pods may run at once, `pods_ended` how many have ended."""

    namespace: str
    name: str
    uid: str | None
    tags: Mapping[str, str] = field(repr=False)
    owner: Owner | None
    ask: Ask
    tasks: int
    completions: int | None
    limit_s: int | None
    created_ms: int | None
    released_ms: int | None
    ended_ms: int | None
    pods_ended: int
    outcome: Outcome
    status: str


@dataclass(frozen=True)
class Gang:
    """Pods that make one job together, by task, and their Job if the log has it; never without both."""

    kind: str
    namespace: str
    name: str
    uid: str | None
    tags: Mapping[str, str] = field(repr=False)
    ask: Ask
    created_ms: int | None
    job: Job | None
    tasks: Mapping[int, list[Pod]]

    @classmethod
    def of_job(cls, job: Job, pods: Sequence[Pod]) -> Gang:
        """Return the Job with those of its pods that the log has.

        What it asks for is what a pod of it does: admission adds defaults that the Job's template lacks.
        """
        identity = (job.namespace, job.name, job.uid, job.tags)
        ask = pods[0].ask if pods else job.ask
        return cls("job", *identity, ask, job.created_ms, job, tasks_of(pods))

    @classmethod
    def of_pods(cls, pods: Sequence[Pod]) -> Gang:
        """Return pods whose common owner or group is not in the log; their first one speaks for it."""
        tasks = tasks_of(pods)
        first = next(iter(tasks.values()))[0]
        created = [pod.created_ms for pod in pods if pod.created_ms is not None]
        owner = first.owner if is_batch(first.owner) else None
        kind = "pod-group" if owner is None else "job" if owner.kind == "Job" else owner.kind
        name = owner.name if owner else first.group or first.name
        identity = (first.namespace, name, owner.uid if owner else None, first.tags)
        return cls(kind, *identity, first.ask, min(created, default=None), None, tasks)

    @property
    def pods(self) -> list[Pod]:
        return [pod for attempts in self.tasks.values() for pod in attempts]

    @property
    def last_pods(self) -> list[Pod]:
        return [attempts[-1] for attempts in self.tasks.values()]

    @property
    def decisive_pod(self) -> Pod | None:
        """The pod that failed last; if none failed, the one that ended last."""
        over = [pod for pod in self.last_pods if pod.is_over]
        failed = [pod for pod in over if pod.outcome != Outcome.COMPLETED]
        return max(failed or over, key=lambda pod: pod.ended_ms or 0, default=None)

    @property
    def amounts(self) -> Amounts:
        """What the pods that may run at once ask for together."""
        if self.job is not None:
            return self.ask.amounts.times(self.job.tasks)
        return Amounts.total([pod.ask.amounts for pod in self.last_pods])

    @property
    def outcome(self) -> Outcome | None:
        """How it stands or ended. A Job failed of what its last failed pod died of."""
        decisive = self.decisive_pod
        if self.job is not None and self.job.outcome not in _UNFINISHED:
            died_of = decisive.outcome if decisive else None
            return died_of if self.job.outcome == Outcome.FAILED and died_of else self.job.outcome
        outcomes = [pod.outcome for pod in self.last_pods]
        for standing in _UNFINISHED:
            if standing in outcomes:
                return standing
        if self.job is not None:
            return self.job.outcome
        return decisive.outcome if decisive and None not in outcomes else None

    @property
    def start_ms(self) -> int | None:
        """When the first of its members got its node, counting each member's last attempt."""
        return min(self._starts(), default=None)

    @property
    def all_started_ms(self) -> int | None:
        """When the last of its members got its node; None while one is missing."""
        starts = self._starts()
        wanted = max(len(self.tasks), self.job.tasks if self.job else 1)
        return max(starts) if len(starts) == wanted else None

    @property
    def end_ms(self) -> int | None:
        """When its last pod ended; as its Job says where pods are missing from the log."""
        if self.outcome in (*_UNFINISHED, None):
            return None
        ends = [pod.ended_ms for pod in self.pods if pod.ended_ms is not None]
        if self.job is not None and (not ends or len(ends) < self.job.pods_ended):
            return self.job.ended_ms
        return max(ends, default=None)

    def _starts(self) -> list[int]:
        return [pod.scheduled_ms for pod in self.last_pods if pod.scheduled_ms is not None]


def gang_key(pod: Pod) -> str | None:
    """Return what the pods of one gang have in common; None for a pod that is a job of its own."""
    if pod.owner is not None and is_batch(pod.owner):
        return pod.owner.uid or f"{pod.namespace}/{pod.owner.kind}/{pod.owner.name}"
    return f"group {pod.namespace}/{pod.group}" if pod.group else None


def is_batch(owner: Owner | None) -> bool:
    """Return whether the owner runs its pods as one job: a Job, or a kind like PyTorchJob."""
    return owner is not None and owner.kind.endswith("Job")


def gangs_of(jobs: Sequence[Job], pods: Sequence[Pod]) -> list[Gang]:
    """Return all Jobs with their pods, and the gangs whose owner is not among `jobs`."""
    members: dict[str, list[Pod]] = {}
    for pod in pods:
        key = gang_key(pod)
        if key is not None:
            members.setdefault(key, []).append(pod)
    gangs = []
    for job in jobs:
        keys = (job.uid, f"{job.namespace}/Job/{job.name}")
        own = next((members.pop(key) for key in keys if key in members), [])
        gangs.append(Gang.of_job(job, own))
    return gangs + [Gang.of_pods(own) for own in members.values()]


def read_job(found: Located) -> Job:
    """Return the Job. Raises FieldError."""
    metadata, spec, status = found.metadata, found.fields.child("spec"), found.fields.child("status")
    template_tags = tags_of(spec.child("template", "metadata"))
    completions = spec.whole("completions")
    sizes = [size for size in (spec.whole("parallelism"), completions) if size]
    outcome, word = _standing(status, deleted=found.deleted)
    return Job(
        namespace=metadata.text("namespace") or "default",
        name=required_name(metadata),
        uid=metadata.text("uid"),
        tags=template_tags | tags_of(metadata),
        owner=owner_of(metadata),
        ask=read_ask(spec.child("template", "spec"), template_tags),
        tasks=min(sizes, default=1),
        completions=completions,
        limit_s=spec.whole("activeDeadlineSeconds"),
        created_ms=metadata.time_ms("creationTimestamp"),
        released_ms=status.time_ms("startTime"),
        ended_ms=_ended_ms(found),
        pods_ended=(status.whole("succeeded") or 0) + (status.whole("failed") or 0),
        outcome=outcome,
        status=word,
    )


def tasks_of(pods: Sequence[Pod]) -> dict[int, list[Pod]]:
    """Return the pods of a gang by task: the attempts of each, first to last.

    Indexed pods tell their task. Any other pod takes the place of the pod that failed first, of those that had
    failed when it was created; if none had, it is a new task.
    """
    indexed: dict[int, list[Pod]] = {}
    others: list[list[Pod]] = []
    failures: list[tuple[int, int]] = []  # a heap of (when, task) of those not replaced yet
    for pod in sorted(pods, key=lambda pod: (pod.created_ms or 0, pod.name)):
        if pod.index is not None:
            indexed.setdefault(pod.index, []).append(pod)
            continue
        if failures and failures[0][0] <= (pod.created_ms or 0):
            _, task = heappop(failures)
            others[task].append(pod)
        else:
            task = len(others)
            others.append([pod])
        if pod.is_over and pod.outcome != Outcome.COMPLETED:
            heappush(failures, (pod.ended_ms or 0, task))
    return dict(sorted(indexed.items())) | dict(enumerate(others, start=max(indexed, default=-1) + 1))


def _standing(status: Fields, *, deleted: bool) -> tuple[Outcome, str]:
    """Return how a Job stands, and the words it has for it."""
    if condition(status, "Complete"):
        return Outcome.COMPLETED, "Complete"
    failed = condition(status, "Failed")
    if failed is not None:
        reason = failed.text("reason")
        outcome = Outcome.TIMEOUT if reason == "DeadlineExceeded" else Outcome.FAILED
        return outcome, f"Failed/{reason}" if reason else "Failed"
    if deleted:
        return Outcome.CANCELLED, "Deleted"
    if condition(status, "Suspended"):
        return Outcome.PENDING, "Suspended"
    return (Outcome.RUNNING, "Active") if status.whole("active") else (Outcome.PENDING, "Waiting")


def _ended_ms(found: Located) -> int | None:
    status = found.fields.child("status")
    failed = condition(status, "Failed")
    times = (
        status.time_ms("completionTime"),
        failed.time_ms("lastTransitionTime") if failed else None,
        found.metadata.time_ms("deletionTimestamp") if found.deleted else None,
    )
    return next((time for time in times if time is not None), None)
