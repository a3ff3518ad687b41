"""A training with all its batch sizes on all devices asked about: each traced once, then memory and time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from presage.estimators._base import EstimateRequest, Quantity, UnsupportedError
from presage.estimators.asking import ask
from presage.estimators.training.cache import profile_step
from presage.estimators.training.walltime import TrainingWalltime
from presage.fanout import memory_of_machine_bytes
from presage.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from presage.estimators._base import Estimate
    from presage.estimators.repository import Repository
    from presage.estimators.training.measuring.steps import StepTimes
    from presage.estimators.training.profile import StepProfile
    from presage.estimators.workloads import Target, TrainingWorkload

    Profiling = Callable[[TrainingWorkload, str], StepProfile]
    """Takes a workload and `cpu` or `gpu`."""
    Measuring = Callable[[TrainingWorkload], StepTimes]

HERE = "this machine"


@dataclass(frozen=True)
class TrainingEstimate:
    """What one variant of a training needs in one place."""

    workload: TrainingWorkload
    target: Target | None
    profile: StepProfile
    memory: Estimate
    walltime: Estimate | None = None
    reasons: dict[str, str] = field(default_factory=dict)
    """Why a quantity has no estimate."""

    @property
    def place(self) -> str:
        """Where, in words."""
        if self.target is None:
            return HERE
        if self.target.system == "any" and self.target.gpu:
            return f"one {self.target.gpu.name}"
        device = self.target.gpu.name if self.target.gpu else f"{self.target.share.cores} cores"
        return f"{self.target.system}/{self.target.node_type.name} ({device})"

    @property
    def limit_bytes(self) -> int:
        """What may be had there of that memory."""
        if self.target is None:
            return memory_of_machine_bytes()
        return self.target.gpu.memory_bytes if self.target.gpu else self.target.node_type.memory_bytes

    @property
    def fits(self) -> bool:
        """Whether nine of ten cases fit."""
        return self.memory.spread.p90 <= self.limit_bytes

    @property
    def verdict(self) -> str:
        """Whether it fits, in words."""
        sign = "of" if self.fits else ">"
        return f"{format_bytes(self.memory.spread.p90)} {sign} {format_bytes(self.limit_bytes)}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as it is told to machines."""
        options = self.workload.options
        return {
            "model": self.workload.model, "batch": options.batch, "precision": options.precision.value,
            "optimizer": options.optimizer, "place": self.place, "fits": self.fits,
            "parameters": self.profile.parameter_count, "flops_per_step": self.profile.flops,
            "memory": self.memory.as_dict(), "walltime": self.walltime.as_dict() if self.walltime else None,
            "reasons": self.reasons,
        }  # fmt: skip


def estimate_training(
    workloads: Sequence[TrainingWorkload],
    targets: Sequence[Target | None] = (None,),
    *,
    profiling: Profiling | None = None,
    measuring: Measuring | None = None,
    repository: Repository | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[TrainingEstimate]:
    """Return an estimate for every workload on every target; None is this machine.

    `profiling` traces a step (by default a named source, through the cache); with `measuring` some real steps
    refine the time; with a `repository`, estimators that were added to it are asked first. Raises InputError where
    a network cannot be traced or trained.
    """
    found: list[TrainingEstimate] = []
    total = len(workloads) * len(targets)
    for workload in workloads:
        times = measuring(workload) if measuring is not None else None
        for target in targets:
            if progress is not None:
                progress(len(found), total, f"batch {workload.options.batch}")
            found.append(_estimated(workload, target, profiling or _traced, times, repository))
    return found


def _estimated(
    workload: TrainingWorkload,
    target: Target | None,
    profiling: Profiling,
    times: StepTimes | None,
    repository: Repository | None,
) -> TrainingEstimate:
    device = "gpu" if target is not None and target.share.gpus else "cpu"
    profile = profiling(workload, device)
    memory = ask(EstimateRequest(Quantity.MEMORY, workload, target, profile), repository=repository)
    if workload.steps is None:
        reason = "Time cannot be estimated: nobody said how many samples are learned, and in how many epochs"
        return TrainingEstimate(workload, target, profile, memory, reasons={"walltime": reason})
    request = EstimateRequest(Quantity.WALLTIME, workload, target, profile)
    try:
        walltime = (
            TrainingWalltime().refine(request, times) if times is not None else ask(request, repository=repository)
        )
    except UnsupportedError as error:
        return TrainingEstimate(workload, target, profile, memory, reasons={"walltime": str(error)})
    return TrainingEstimate(workload, target, profile, memory, walltime)


def _traced(workload: TrainingWorkload, device: str) -> StepProfile:
    return profile_step(workload, device=device)
