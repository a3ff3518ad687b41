"""How long a device takes for what a step has: rates for each kind of operator, and how sure they are."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from presage.errors import InputError
from presage.estimators._base import Basis
from presage.estimators.spread import Spread

if TYPE_CHECKING:
    from presage.estimators.training.profile import StepProfile

CALCULATING = ("matmul", "conv", "depthwise-conv", "attention")
"""Kinds whose time goes with what they calculate; the time of all others goes with what they move."""
KINDS = (*CALCULATING, "norm", "elementwise", "reduction", "embedding", "copy", "other")

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Factor = Annotated[float, Field(ge=1, allow_inf_nan=False)]


@dataclass(frozen=True)
class Rate:
    """What one kind of operator costs, in seconds."""

    per_flop_s: Amount = 0.0
    per_byte_s: Amount = 0.0


@dataclass(frozen=True)
class DeviceModel:
    """A device. A step takes the sum over its operators, and in 80 % of cases lies within `factor` of that."""

    name: str
    rates: dict[str, Rate]
    """By kind of operator; a kind that is missing costs what `other` does."""
    call_s: Amount
    """What each operator costs, however small."""
    factor: Factor
    basis: Basis = Basis.UNVERIFIED
    overlapped: bool = False
    """Calculating and moving happen at once, and the longer of both counts; else they add up."""
    workloads: int = 0
    """How many different networks it was fitted to."""
    error: Amount | None = None
    """Median relative error, each network foretold from the others; None if it was not fitted."""
    core_gflops: Amount | None = None
    """Peak of the core it describes, where it does: by that other cores are scaled."""
    notes: tuple[str, ...] = ()

    def kind_seconds(self, profile: StepProfile) -> dict[str, float]:
        """Return the seconds of each kind of operator in a step, with its calls."""
        return {kind: self._seconds(kind, each) for kind, each in profile.classes.items()}

    def step(self, profile: StepProfile) -> Spread:
        """Return the seconds of a step."""
        return Spread.around(sum(self.kind_seconds(profile).values()), self.factor)

    def _seconds(self, kind: str, each: Any) -> float:
        rate = self.rates.get(kind, self.rates.get("other", Rate()))
        parts = rate.per_flop_s * each.flops, rate.per_byte_s * each.bytes
        return float(max(parts) if self.overlapped else sum(parts)) + self.call_s * float(each.calls)

    def as_dict(self) -> dict[str, Any]:
        """Return the device as JSON has it."""
        return asdict(self)


_DEVICE = TypeAdapter(DeviceModel)


def parse_device(content: str | bytes, place: str) -> DeviceModel:
    """Return the device in a JSON text. Raises InputError, which speaks of it as `place`."""
    try:
        return _DEVICE.validate_python(json.loads(content))
    except (ValueError, RecursionError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"{place} holds no device that can be used: {where} {first['msg']}".replace(":  ", ": "),
            remedy="Calibrate the device anew",
        ) from None
