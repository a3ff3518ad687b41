"""The account of a private training: which tables are released with how much noise, and what that leaves.

The noise of every table is set before anything of the log is looked at. All tables and the steps of the network
are Gaussian mechanisms over the same units, so that their Rényi divergences add up, and one epsilon comes of it.
Labels are another matter, because that a label is named at all can give a unit away: they are named only if so
many units use them that one alone would hardly ever have done. That "hardly ever" is a part of delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers._base import Privacy
from presage.synthesizers._private import noise_for
from presage.synthesizers.sequence.units import MOST_LABELS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from presage.synthesizers._private import Look
    from presage.synthesizers.columns import FloatArray

TABLES_SHARE = 0.5
"""Share of epsilon that tables alone may spend; the network gets what is left of the whole."""
LABELS_SHARE = 0.1
"""Share of delta for labels of single units."""


@dataclass(frozen=True)
class Budget:
    """How much noise each table gets, as lengths of what one unit can change."""

    privacy: Privacy
    """The whole promise; its delta is a power of ten, since one that follows from the number of jobs tells it."""
    noise: dict[str, float]
    label_delta: float
    """How likely a label of a single unit is named, in each column."""

    @classmethod
    def of(cls, privacy: Privacy, weights: Mapping[str, float], label_columns: int) -> Budget:
        """Return a budget for tables of these weights; one of twice the weight has less noise by the root of 2.

        Raises UsageError if no noise is enough.
        """
        told = Privacy(privacy.epsilon, 10.0 ** math.floor(math.log10(privacy.delta) + 1e-9), privacy.unit)
        together = noise_for(Privacy(TABLES_SHARE * told.epsilon, (1 - LABELS_SHARE) * told.delta), 1.0, 1)
        whole = sum(weights.values())
        noise = {name: together * math.sqrt(whole / weight) for name, weight in weights.items()}
        return cls(told, noise, LABELS_SHARE * told.delta / max(label_columns, 1))

    @property
    def rest(self) -> Privacy:
        """What all mechanisms together must keep, without what the labels take of delta."""
        return Privacy(self.privacy.epsilon, (1 - LABELS_SHARE) * self.privacy.delta)

    @property
    def looks(self) -> tuple[Look, ...]:
        """What the tables spend, for the account."""
        return tuple((noise, 1.0, 1) for noise in self.noise.values())

    def released(self, name: str, table: FloatArray, secret: np.random.Generator) -> FloatArray:
        """Return a table with its noise."""
        return table + self.noise[name] * secret.standard_normal(table.shape)

    def least_units(self, name: str) -> float:
        """Return above which number of units a label may be named.

        A unit that brings k labels which nobody else has adds 1 / √k to each; none of them may pass but with the
        probability `label_delta` (Gopi et al., Differentially Private Set Union, 2020).
        """
        return max(
            1 / math.sqrt(labels) - self.noise[name] * NormalDist().inv_cdf(self._rare(labels))
            for labels in range(1, MOST_LABELS + 1)
        )

    def _rare(self, labels: int) -> float:
        """Return how likely each of so many labels may be named, so that any of them is with `label_delta`."""
        return -math.expm1(math.log1p(-self.label_delta) / labels)


def shares_of(noisy: FloatArray) -> FloatArray:
    """Return the shares nearest to a noisy table: none below 0, together 1.

    What the noise took from or gave to all cells alike is taken off again, so that many empty cells do not make up
    a part of the whole by themselves.
    """
    whole = max(float(noisy.sum()), 1.0)
    falling = np.sort(noisy)[::-1]
    over = (np.cumsum(falling) - whole) / np.arange(1, len(noisy) + 1)
    return np.maximum(noisy - over[np.flatnonzero(falling > over)[-1]], 0.0) / whole
