"""GPU models with what their makers say of them: memory, peaks and bandwidth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from presage.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterable

_GB = 10**9
_TB_S = 1e12
_TFLOPS = 1e12


@dataclass(frozen=True)
class GpuModel:
    """A GPU. Peaks are dense, in FLOP/s, by precision: fp32, tf32, bf16, fp16."""

    name: str
    memory_bytes: int
    bandwidth_bytes_s: float
    peak_flops: dict[str, float] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    """Other names that schedulers use, in lower case."""


def _model(name: str, memory_gb: float, bandwidth_tb_s: float, *aliases: str, **tflops: float) -> GpuModel:
    peaks = {precision: peak * _TFLOPS for precision, peak in tflops.items()}
    return GpuModel(name, round(memory_gb * _GB), bandwidth_tb_s * _TB_S, peaks, aliases)


GPU_MODELS: tuple[GpuModel, ...] = (
    _model("v100-16", 16, 0.9, "v100", fp32=15.7, fp16=125),
    _model("v100-32", 32, 0.9, fp32=15.7, fp16=125),
    _model("a100-40", 40, 1.555, "a100", fp32=19.5, tf32=156, bf16=312, fp16=312),
    _model("a100-80", 80, 2.0, fp32=19.5, tf32=156, bf16=312, fp16=312),
    _model("h100", 80, 3.35, "h100-80", fp32=67, tf32=495, bf16=989, fp16=989),
    _model("h200", 141, 4.8, fp32=67, tf32=495, bf16=989, fp16=989),
    _model("b200", 180, 8.0, fp32=75, tf32=1100, bf16=2250, fp16=2250),
    _model("mi250", 128, 3.2, fp32=45, bf16=362, fp16=362),
    _model("mi300x", 192, 5.3, fp32=163, tf32=654, bf16=1307, fp16=1307),
    _model("l4", 24, 0.3, fp32=30, tf32=60, bf16=121, fp16=121),
    _model("t4", 16, 0.32, fp32=8.1, fp16=65),
)


def find_gpu(name: str, own: Iterable[GpuModel] = ()) -> GpuModel:
    """Return the model called `name` or known by that alias, `own` ones first. Raises UnknownNameError."""
    models = (*own, *GPU_MODELS)
    for model in models:
        if name.lower() in (model.name.lower(), *model.aliases):
            return model
    raise UnknownNameError("GPU model", name, [model.name for model in models])
