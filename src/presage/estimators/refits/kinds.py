"""Which jobs are alike, so that what happened to some tells of the next."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from presage.estimators.workloads import TrainingWorkload

if TYPE_CHECKING:
    from presage.estimators._base import EstimateRequest
    from presage.estimators.workloads import Target

_MOST_CHARS = 200
HERE = "this machine"


@dataclass(frozen=True)
class JobKind:
    """Trainings of one network, by where it comes from, in one kind of place."""

    family: str
    """Where the network comes from, what it takes, and in which numbers it is trained."""
    place: str
    """`system/node type` and whether its GPUs are used."""

    @property
    def digest(self) -> str:
        """What predictions of the kind are found by."""
        return hashlib.sha256(f"{self.family}\0{self.place}".encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.family} on {self.place}"


def kind_of(request: EstimateRequest) -> JobKind | None:
    """Return the kind of the job that is asked about; None for scripts, whose own past is asked anew each time."""
    workload = request.workload
    if not isinstance(workload, TrainingWorkload):
        return None
    shapes = ", ".join("x".join(str(size) for size in shape) for shape in workload.inputs)
    words = (workload.model, shapes, workload.options.precision.value)
    return JobKind(_plain(" ".join(word for word in words if word)), _plain(_place_of(request.target)))


def _place_of(target: Target | None) -> str:
    if target is None:
        return HERE
    return f"{target.system}/{target.node_type.name}{' (GPU)' if target.share.gpus else ''}"


def _plain(text: str) -> str:
    """Return a text as every database takes it, and fit to be shown."""
    return "".join(sign if sign.isprintable() else " " for sign in text[:_MOST_CHARS])
