"""What a plan is made of: answers about memory, wall time and wait, each asked for once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeGuard

from presage.errors import UsageError, closest
from presage.estimators._base import (
    NOTHING_KNOWN,
    Basis,
    Estimate,
    EstimateRequest,
    Knowledge,
    Quantity,
    UnsupportedError,
)
from presage.planner.places import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from presage.clusters.systems import System
    from presage.estimators._base import Estimator
    from presage.estimators.repository import Repository
    from presage.estimators.spread import Spread
    from presage.estimators.training.profile import StepProfile
    from presage.estimators.workloads import ScriptWorkload, Target, TrainingWorkload

    Workload = TrainingWorkload | ScriptWorkload


class Estimates(Protocol):
    """Who is asked. Every method raises UnsupportedError, with the reason, if it has no answer."""

    def memory(self, workload: Workload, target: Target) -> Estimate:
        """Return bytes at the peak: of one GPU if the target has any, else of one node."""

    def walltime(self, workload: Workload, target: Target) -> Estimate:
        """Return seconds from start to end, as if nothing limited them."""

    def wait(self, workload: Workload, target: Target) -> Estimate:
        """Return seconds in the queue of a job that asks for the target's `walltime_s`."""


class AskedEstimates:
    """Asks the registered estimators, with what is known of each system or else of all."""

    def __init__(
        self,
        knowledge: Knowledge = NOTHING_KNOWN,
        *,
        by_system: dict[str, Knowledge] | None = None,
        profiling: Callable[[TrainingWorkload, str], StepProfile] | None = None,
        repository: Repository | None = None,
    ) -> None:
        """Make one; `profiling` traces steps of networks that are in no file, for `cpu` or `gpu`.

        With a `repository`, what was learned there from jobs that ended corrects what is said of trainings.
        """
        self._knowledge = knowledge
        self._by_system = by_system or {}
        self._profiling = profiling
        self._repository = repository
        self._refitted: dict[Quantity, Estimator | None] = {}

    def memory(self, workload: Workload, target: Target) -> Estimate:
        """Return what the first estimator of memory says that has an answer."""
        return self._ask(Quantity.MEMORY, workload, target)

    def walltime(self, workload: Workload, target: Target) -> Estimate:
        """Return what the first estimator of wall time says that has an answer."""
        return self._ask(Quantity.WALLTIME, workload, target)

    def wait(self, workload: Workload, target: Target) -> Estimate:
        """Return what the first estimator of waits says that has an answer."""
        return self._ask(Quantity.WAIT, workload, target)

    def _ask(self, quantity: Quantity, workload: Workload, target: Target) -> Estimate:
        from presage.estimators.asking import ask

        known = self._by_system.get(target.system, self._knowledge)
        profile = None
        if self._profiling is not None and quantity is not Quantity.WAIT and _is_training(workload):
            profile = self._profiling(workload, "gpu" if target.share.gpus else "cpu")
        request = EstimateRequest(quantity, workload, target, profile)
        corrected = self._corrected(request)
        return corrected if corrected is not None else ask(request, known)

    def _corrected(self, request: EstimateRequest) -> Estimate | None:
        """Return the answer of an estimator that learned from jobs of the kind; None if there is none."""
        if self._repository is None or not _is_training(request.workload):
            return None
        if request.quantity not in self._refitted:
            self._refitted[request.quantity] = self._repository.refitted(request.quantity)
        estimator = self._refitted[request.quantity]
        try:
            return None if estimator is None else estimator.estimate(request)
        except UnsupportedError:
            return None


@dataclass(frozen=True)
class Stated:
    """Amounts that somebody named; times by patterns of places, of which the first that matches counts."""

    memory_bytes: Spread | None = None
    walltimes_s: dict[str, Spread] = field(default_factory=dict)
    waits_s: dict[str, Spread] = field(default_factory=dict)

    def check_places(self, systems: Iterable[System]) -> None:
        """Raise UsageError if a pattern names no place of the systems: what was stated would be lost."""
        queues = [(system.name, each.name, each.node_types) for system in systems for each in system.partitions]
        waits = {(system, partition) for system, partition, _ in queues}
        times = {(system, partition, node) for system, partition, nodes in queues for node in nodes}
        for what, patterns, places in (("wait", self.waits_s, waits), ("time", self.walltimes_s, times)):
            for pattern in patterns:
                if not any(matches(pattern, *place) for place in places):
                    raise _no_place(what, pattern, [f"{system}/{partition}" for system, partition, _ in queues])


class StatedEstimates:
    """Answers with what was stated, and asks somebody else, if there is anybody, about the rest."""

    def __init__(self, stated: Stated, others: Estimates | None = None) -> None:
        self._stated = stated
        self._others = others

    def memory(self, workload: Workload, target: Target) -> Estimate:
        """Return the stated memory, or what the others say."""
        return self._or_ask(Quantity.MEMORY, self._stated.memory_bytes, workload, target)

    def walltime(self, workload: Workload, target: Target) -> Estimate:
        """Return the stated time on such nodes, or what the others say."""
        return self._or_ask(Quantity.WALLTIME, _on_nodes(self._stated.walltimes_s, target), workload, target)

    def wait(self, workload: Workload, target: Target) -> Estimate:
        """Return the stated wait in that partition, or what the others say."""
        return self._or_ask(Quantity.WAIT, _in_queue(self._stated.waits_s, target), workload, target)

    def _or_ask(self, quantity: Quantity, known: Spread | None, workload: Workload, target: Target) -> Estimate:
        if known is not None:
            return Estimate(quantity, known, Basis.STATED, "stated", "1")
        if self._others is None:
            raise UnsupportedError(f"nobody stated the {quantity.value} for {target.system}/{target.partition}")
        answer: Estimate = getattr(self._others, quantity.value)(workload, target)
        return answer


class RememberedEstimates:
    """Asks another about each distinct thing once, and remembers that it had no answer, too.

    Memory depends on the workload and the GPU; wall time on the nodes and how much of them; only waits depend
    on the partition.
    """

    def __init__(self, others: Estimates) -> None:
        self._others = others
        self._known: dict[Hashable, Estimate | UnsupportedError] = {}

    def memory(self, workload: Workload, target: Target) -> Estimate:
        """Return what the other said of this workload on such devices."""
        device = target.gpu.name if target.gpu else ("cpu", target.share.cores, target.node_type.name)
        key = (Quantity.MEMORY, workload, device, target.share.gpus, target.share.nodes)
        return self._once(key, lambda: self._others.memory(workload, target))

    def walltime(self, workload: Workload, target: Target) -> Estimate:
        """Return what the other said of this workload on so much of such nodes."""
        key = (Quantity.WALLTIME, workload, target.system, target.partition, target.node_type, target.share)
        return self._once(key, lambda: self._others.walltime(workload, target))

    def wait(self, workload: Workload, target: Target) -> Estimate:
        """Return what the other said of such a job in that queue."""
        share = target.share
        key = (
            Quantity.WAIT, workload if not _is_training(workload) else None, target.system, target.partition,
            target.node_type.name, share, target.walltime_s, target.spot,
        )  # fmt: skip
        return self._once(key, lambda: self._others.wait(workload, target))

    def _once(self, key: Hashable, ask: Callable[[], Estimate]) -> Estimate:
        if key not in self._known:
            try:
                self._known[key] = ask()
            except UnsupportedError as error:
                self._known[key] = error
        answer = self._known[key]
        if isinstance(answer, UnsupportedError):
            raise answer
        return answer


def _no_place(what: str, pattern: str, known: list[str]) -> UsageError:
    near = closest(pattern, known)
    return UsageError(
        f"A {what} was stated for {pattern!r}, which none of the systems has",
        expected=f"a place like {', '.join(known[:6])}",
        remedy=f"Did you mean {near!r}?" if near else "",
    )


def _in_queue(amounts: dict[str, Spread], target: Target) -> Spread | None:
    found = (each for pattern, each in amounts.items() if matches(pattern, target.system, target.partition))
    return next(found, None)


def _on_nodes(amounts: dict[str, Spread], target: Target) -> Spread | None:
    names = (target.system, target.partition, target.node_type.name)
    found = (each for pattern, each in amounts.items() if matches(pattern, *names))
    return next(found, None)


def _is_training(workload: Workload) -> TypeGuard[TrainingWorkload]:
    from presage.estimators.workloads import TrainingWorkload

    return isinstance(workload, TrainingWorkload)
