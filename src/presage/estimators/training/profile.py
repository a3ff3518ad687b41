"""What one step of a training takes, as counted on a step that computes nothing: plain numbers, no torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from presage.errors import InputError

PROFILE_VERSION = 1


@dataclass(frozen=True)
class OperatorClass:
    """All operators of one kind in a step, forward and backward together."""

    calls: int
    flops: float
    bytes: float
    """Read and written."""


@dataclass(frozen=True)
class MemoryParts:
    """Where the peak of a step goes, in bytes; the parts at the instant of the peak add up to it."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    """Everything else that is alive then: saved for backward, temporary, inputs."""


@dataclass(frozen=True)
class StepProfile:
    """One step of one network with one set of options, device-independent."""

    digest: str
    """Of the graph and all options: two steps with the same take the same."""
    batch: int
    parameter_count: int
    parameter_bytes: int
    peak_bytes: int
    reserved_bytes: int
    """What a caching allocator would hold at the peak."""
    parts: MemoryParts
    classes: dict[str, OperatorClass]
    """By kind: matmul, conv, depthwise-conv, attention, norm, elementwise, reduction, embedding, copy, other."""
    largest_layer_bytes: int = 0
    """Parameters of the largest module that is gathered at once when weights are sharded."""
    verified: bool = True
    """False: something in it (precision, kernel, sharding) is modelled and could not be checked without a GPU."""
    notes: tuple[str, ...] = ()
    version: int = PROFILE_VERSION
    device: str = "cpu"
    """Whose kernels were counted: `cpu` or `gpu`. A GPU's dropout, attention and optimizers are others."""
    extra: dict[str, float] = field(default_factory=dict)

    @property
    def flops(self) -> float:
        """Floating-point operations of the step."""
        return sum(each.flops for each in self.classes.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the profile as JSON has it."""
        return asdict(self)


_PROFILE = TypeAdapter(StepProfile)


def parse_profile(document: Any) -> StepProfile:
    """Return the profile in a JSON document. Raises InputError saying what is wrong with it."""
    try:
        return _PROFILE.validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"A profile of a training step cannot be used: {place}: {first['msg']}",
            remedy="Make it anew with this version",
        ) from None
