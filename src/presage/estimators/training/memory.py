"""Memory of a training: what its step was counted to allocate, and what comes on top on the device."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from presage.estimators._base import Basis, Estimate, EstimateRequest, Estimator, Quantity, UnsupportedError
from presage.estimators.spread import Spread, total
from presage.estimators.training.cache import profile_step
from presage.estimators.workloads import TrainingWorkload
from presage.units import format_bytes

if TYPE_CHECKING:
    from presage.estimators.training.profile import StepProfile
    from presage.estimators.workloads import Target

_MIB, _GIB = 1 << 20, 1 << 30

INTERPRETER = Spread(200 * _MIB, 240 * _MIB, 280 * _MIB)
"""Resident beside the tensors of a step on a CPU: Python, torch and its libraries. Measured."""
CUDA_CONTEXT = Spread(0.3 * _GIB, 0.5 * _GIB, 0.8 * _GIB)
"""On a GPU beside what the allocator reserves: the context and the workspaces of libraries. Assumed."""
_COUNTED_FACTOR = 1.01
"""The largest error of 29 networks, against real steps on a CPU, was 0.3 %; this leaves room for others."""
_RESERVED_FACTOR = 1.08
"""How far the reserve of a real allocator may be from the simulated one. Assumed."""


class TrainingMemory(Estimator):
    """Bytes at the peak of a training step: on one GPU, or of all its processes on a node without.

    Every batch size is traced, none interpolated. A profile in the request saves the tracing.
    """

    name = "training-memory"
    quantity = Quantity.MEMORY

    def estimate(self, request: EstimateRequest) -> Estimate:
        """Return the distribution of the peak. Raises UnsupportedError for scripts, InputError as tracing does."""
        workload = request.workload
        if not isinstance(workload, TrainingWorkload):
            raise UnsupportedError("Only the memory of a network's training can be counted")
        on_gpu = _is_gpu(request.target)
        profile = request.profile
        if profile is None or profile.batch != workload.options.batch:
            profile = profile_step(workload, device="gpu" if on_gpu else "cpu")
        spread, notes = _on_gpu(profile) if on_gpu else _on_cpu(profile, workload, request.target)
        checked = profile.verified and not on_gpu
        return Estimate(
            self.quantity, spread, Basis.MODELLED if checked else Basis.UNVERIFIED, self.name, self.version,
            (*notes, *profile.notes), _details(profile, on_gpu=on_gpu),
        )  # fmt: skip


def _on_gpu(profile: StepProfile) -> tuple[Spread, tuple[str, ...]]:
    reserved, context = format_bytes(profile.reserved_bytes), format_bytes(CUDA_CONTEXT.p50)
    notes = [f"Of one GPU: {reserved} held by a simulated caching allocator and about {context} of CUDA context."]
    notes.append("Neither the allocator nor the context could be checked without a GPU.")
    if profile.device != "gpu":
        notes.append("The step was counted with the kernels of a CPU; those of a GPU need somewhat other memory.")
    return total([Spread.around(profile.reserved_bytes, _RESERVED_FACTOR), CUDA_CONTEXT]), tuple(notes)


def _on_cpu(
    profile: StepProfile, workload: TrainingWorkload, target: Target | None
) -> tuple[Spread, tuple[str, ...]]:
    nodes = target.share.nodes if target is not None else 1
    processes = -(-workload.options.workers // nodes)
    one = total([Spread.around(profile.peak_bytes, _COUNTED_FACTOR), INTERPRETER])
    peak, besides = format_bytes(profile.peak_bytes), format_bytes(INTERPRETER.p50)
    notes = [f"Of one node: {peak} of tensors at the peak and about {besides} of Python and torch."]
    notes.append("Data loaders come on top.")
    if processes > 1:
        notes.append(f"{processes} processes on the node, each with its own.")
    return one.times(processes), tuple(notes)


def _details(profile: StepProfile, *, on_gpu: bool) -> dict[str, Any]:
    return {
        "batch": profile.batch,
        "parameter_count": profile.parameter_count,
        "peak_bytes": profile.peak_bytes,
        "reserved_bytes": profile.reserved_bytes,
        "parts_bytes": asdict(profile.parts),
        "besides_bytes": (CUDA_CONTEXT if on_gpu else INTERPRETER).p50,
        "device": "gpu" if on_gpu else "cpu",
        "digest": profile.digest,
        "verified": profile.verified and not on_gpu,
    }


def _is_gpu(target: Target | None) -> bool:
    return target is not None and target.share.gpus > 0
