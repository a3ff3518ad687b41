"""Devices nobody measured: from what their makers say, and how much of it steps usually get.

All of it is modelled and unverified: there was no GPU and no node of many cores to check it on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from presage.estimators._base import Basis, UnsupportedError
from presage.estimators.training.devices.model import KINDS, DeviceModel, Rate
from presage.estimators.workloads import Precision

if TYPE_CHECKING:
    from presage.clusters.gpus import GpuModel
    from presage.clusters.systems import NodeType

GPU_FACTOR = 2.0
"""80 % of steps are thought to lie within this factor; an assumption."""
CPU_FACTOR = 1.7
GPU_CALL_S = 5e-6
"""From one kernel to the next when a step is launched operator by operator."""
SHARE_OF_PEAK = {"matmul": 0.75, "conv": 0.65, "attention": 0.5, "depthwise-conv": 0.1}
"""Of the fp32 peak."""
SHARE_OF_TENSOR_PEAK = {"matmul": 0.45, "conv": 0.3, "attention": 0.3}
"""Of the peaks of tensor cores, which outrun what feeds them. Depthwise convolutions find no use for them."""
SHARE_OF_BANDWIDTH = 0.7
CONTENTION = 0.02
"""What each further core takes from all others: n cores do the work of n / (1 + 0.02·(n - 1))."""

_PEAKS = {
    Precision.FP32: ("fp32",),
    Precision.TF32: ("tf32", "fp32"),
    Precision.AMP_BF16: ("bf16", "fp32"),
    Precision.AMP_FP16: ("fp16", "bf16", "fp32"),
    Precision.BF16: ("bf16", "fp32"),
}


def gpu_device(gpu: GpuModel, precision: Precision) -> DeviceModel:
    """Return a GPU as a roofline: the longer of calculating and moving, for each kind of operator.

    Raises UnsupportedError for a GPU of which no peak is known.
    """
    number = next((each for each in _PEAKS[precision] if gpu.peak_flops.get(each, 0) > 0), None)
    if number is None or gpu.bandwidth_bytes_s <= 0:
        raise UnsupportedError(
            f"Nobody said how fast the GPU {gpu.name} is",
            expected="its peak in fp32 and its bandwidth",
            remedy="Add them to its entry in the catalogue",
        )
    moved = 1 / (SHARE_OF_BANDWIDTH * gpu.bandwidth_bytes_s)
    rates = {kind: Rate(_calculated_s(kind, gpu, number), moved) for kind in KINDS}
    notes = [f"{gpu.name} was not measured: its time is a roofline with the usual shares of its {number} peak."]
    if number != _PEAKS[precision][0]:
        notes.append(f"{gpu.name} has no {_PEAKS[precision][0]}; its {number} was taken.")
    return DeviceModel(gpu.name, rates, GPU_CALL_S, GPU_FACTOR, overlapped=True, notes=tuple(notes))


def node_device(core: DeviceModel, node: NodeType, cores: int) -> DeviceModel:
    """Return so many cores of a node, from one core that was measured and what is known of the node's own.

    Calculating gets faster with every core, less and less; moving only until the node's bandwidth is reached.
    """
    faster = node.core_gflops / core.core_gflops if node.core_gflops and core.core_gflops else 1.0
    calculating = faster * together(cores)
    limit = node.memory_bandwidth_bytes_s
    rates = {
        kind: Rate(rate.per_flop_s / calculating, _moved_s(rate.per_byte_s, cores, limit))
        for kind, rate in core.rates.items()
    }
    notes = [f"{cores} cores of {node.name} were not measured: they are {core.name}, scaled."]
    if node.core_gflops is None:
        notes.append(f"The peak of a core of {node.name} is not known; it was taken to be like {core.name}.")
    name = f"{cores} cores of {node.name}"
    return replace(
        core, name=name, rates=rates, factor=max(CPU_FACTOR, core.factor), basis=Basis.UNVERIFIED,
        error=None, workloads=0, core_gflops=node.core_gflops, notes=(*core.notes, *notes),
    )  # fmt: skip


def on_cores(core: DeviceModel, cores: int) -> DeviceModel:
    """Return so many cores of the machine on which one was measured; one is as it was."""
    if cores <= 1:
        return core
    rates = {
        kind: Rate(rate.per_flop_s / together(cores), rate.per_byte_s / together(cores))
        for kind, rate in core.rates.items()
    }
    note = f"One core was measured; {cores} of them are modelled."
    return replace(
        core, name=f"{cores} cores, {core.name}", rates=rates, factor=max(CPU_FACTOR, core.factor),
        basis=Basis.UNVERIFIED, notes=(*core.notes, note),
    )  # fmt: skip


def together(cores: int) -> float:
    """Return how many times the work of one core several do."""
    return cores / (1 + CONTENTION * (cores - 1))


def _calculated_s(kind: str, gpu: GpuModel, number: str) -> float:
    if kind not in SHARE_OF_PEAK:
        return 0.0
    if number != "fp32" and kind in SHARE_OF_TENSOR_PEAK:
        return 1 / (SHARE_OF_TENSOR_PEAK[kind] * gpu.peak_flops[number])
    return 1 / (SHARE_OF_PEAK[kind] * gpu.peak_flops.get("fp32", gpu.peak_flops[number]))


def _moved_s(per_byte_s: float, cores: int, limit_bytes_s: float | None) -> float:
    alone = per_byte_s / together(cores)
    return max(alone, min(per_byte_s, 1 / limit_bytes_s)) if limit_bytes_s and per_byte_s else alone
