"""What jobs want of nodes and where their members run, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from presage.simulator._cluster import Want
from presage.simulator._compiling import lean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


class Demands(NamedTuple):
    """What every job wants: one entry per job, fields as in Want."""

    tasks: Ints
    cpu: Ints
    mem: Ints
    gpus: Ints
    share: Ints
    types: Ints
    features: Ints
    shape: Ints
    """Jobs that want the same have the same number."""


class Places(NamedTuple):
    """Where members run: those of job j are entries `first[j]` to `first[j + 1]`."""

    first: Ints
    node: Ints
    gpus: Ints


@lean
def want_of(demands: Demands, job: int) -> Want:
    """Return what one job wants."""
    return Want(
        demands.tasks[job], demands.cpu[job], demands.mem[job], demands.gpus[job], demands.share[job],
        demands.types[job], demands.features[job],
    )  # fmt: skip
