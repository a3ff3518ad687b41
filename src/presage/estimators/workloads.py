"""What is to be estimated, the training of a network or a batch script, and what of a system it would have."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from presage.clusters.charges import ChargeRule, Share
from presage.clusters.gpus import GpuModel
from presage.clusters.systems import NodeType


class Precision(StrEnum):
    """In which numbers a network is trained."""

    FP32 = "fp32"
    TF32 = "tf32"
    """fp32 in memory, tensor cores in products."""
    AMP_BF16 = "amp-bf16"
    """fp32 weights, products in bf16 (autocast)."""
    AMP_FP16 = "amp-fp16"
    BF16 = "bf16"
    """Weights, gradients and activations in bf16."""


class Attention(StrEnum):
    """How attention is computed, which decides whether its matrix is ever in memory."""

    AS_WRITTEN = "as-written"
    MATERIALISED = "materialised"
    FLASH = "flash"


class Sharding(StrEnum):
    """What several GPUs of one training share."""

    NONE = "none"
    DDP = "ddp"
    FSDP = "fsdp"
    """Weights, gradients and optimizer state in parts (ZeRO stage 3)."""


@dataclass(frozen=True)
class TrainingOptions:
    """How one step of a training is done. Everything here changes what a step takes."""

    batch: int = 32
    """Samples of one device in one pass forward and backward."""
    optimizer: str = "adamw"
    precision: Precision = Precision.FP32
    accumulation: int = 1
    """Passes before the weights change."""
    activation_checkpointing: bool = False
    attention: Attention = Attention.AS_WRITTEN
    sharding: Sharding = Sharding.NONE
    workers: int = 1
    """Devices over which the batches are spread."""


@dataclass(frozen=True)
class TrainingWorkload:
    """The training of a network."""

    model: str
    """Where it comes from: `train.py:build_model`, `hf:CONFIG`, `onnx:FILE`, `keras:FILE`, or just a name."""
    inputs: tuple[tuple[int, ...], ...]
    """Shape of each input, without the batch."""
    input_kinds: tuple[str, ...] = ()
    """`float` or `int:N` (whole numbers below N) for each input; all float if empty."""
    options: TrainingOptions = TrainingOptions()
    samples: int | None = None
    epochs: float | None = None
    name: str = ""

    @property
    def steps(self) -> float | None:
        """Changes of the weights in the whole training; None if nobody said how much is to be learned."""
        if self.samples is None or self.epochs is None:
            return None
        together = self.options.batch * self.options.workers * self.options.accumulation
        return self.epochs * -(-self.samples // together)


@dataclass(frozen=True)
class ScriptWorkload:
    """A batch script, known by what it asks for and by its own past."""

    script: str
    """Its path, or its name where only that is known."""
    arguments: tuple[str, ...] = ()
    digest: str = ""
    """Of the script's text; the same script has the same."""
    commit: str = ""
    """Of the working tree it runs in, if that is one of git's."""
    user: str = ""
    account: str = ""
    qos: str = ""
    name: str = ""
    walltime_s: float | None = None
    """The limit it asks for."""


@dataclass(frozen=True)
class Target:
    """Where a workload would run: so much of some nodes of a system."""

    system: str
    partition: str
    node_type: NodeType
    share: Share
    gpu: GpuModel | None = None
    walltime_s: float | None = None
    """The limit it would ask for."""
    settings: dict[str, str] = field(default_factory=dict)
    charge: ChargeRule | None = None
    """By which a run there is paid; None: nobody said."""
    spot: bool = False
    """On nodes that may be taken away."""


def one_gpu(model: GpuModel) -> Target:
    """Return one GPU of a model, wherever it may be."""
    node = NodeType("any node", cores=1, memory_bytes=1 << 40, gpus=1, gpu=model.name)
    return Target("any", "any", node, Share(1, 1, 1), gpu=model)
