"""A learned order as arrays: a linear function or a small network over the features of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from presage.errors import UsageError
from presage.policies.cluster_orders import ClusterOrder, FloatArray

FEATURES = (
    "log(1 + r)",
    "log(1 + p)",
    "log(1 + w)",
    "log(1 + w/r)",
    "log(1 + r·p)",
    "log(1 + jobs waiting)",
    "log(1 + processors or GPUs that the user holds)",
    "log(1 + jobs running)",
)
"""What a scorer sees, in the symbols of `presage.policies.orders`."""


@dataclass(frozen=True, eq=False)
class Scorer(ClusterOrder):
    """Scores by `weights · features + bias`, or by a layer of tanh units and a weighted sum of those.

    `first` has one row per unit and one column per feature, and a last column of biases; a linear scorer has one
    row and no `second`. `second` has one weight per unit and a last one for the bias. The lowest score goes first.
    """

    formula: ClassVar[str] = "learned"
    code: ClassVar[int] = 17
    backfilling: ClassVar[str] = "easy"
    first: FloatArray
    second: FloatArray | None = None

    def __post_init__(self) -> None:
        rows, columns = np.shape(self.first)
        units = 1 if self.second is None else len(self.second) - 1
        if columns != len(FEATURES) + 1 or rows != units:
            raise UsageError(
                f"A scorer cannot have first weights of shape {rows} x {columns}",
                expected=f"{units} x {len(FEATURES) + 1}: one row per unit, the last column the biases",
            )

    def numbers(self, capacity: int) -> FloatArray:
        if self.second is None:
            return np.concatenate(([0.0], np.ravel(self.first))).astype(np.float64)
        return np.concatenate(([len(self.first)], np.ravel(self.first), self.second)).astype(np.float64)
