"""How the numbers of a question are brought to one scale before the network reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FURTHEST = 4.0


@dataclass(frozen=True)
class Scaling:
    """The mean and the spread of each number among the questions that a network was trained on."""

    mean: NDArray[np.float32]
    spread: NDArray[np.float32]

    def apply(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the numbers with mean 0 and spread 1, cut at four spreads."""
        scaled: NDArray[np.float32] = np.clip((x - self.mean) / self.spread, -FURTHEST, FURTHEST)
        return scaled
