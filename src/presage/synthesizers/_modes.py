"""Numbers of many peaks as the peak that a value belongs to and its place in it: mode-specific normalisation.

The peaks are the components of a Gaussian mixture, found by expectation and maximisation (Xu et al. 2019, 4.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from presage.synthesizers.columns import FloatArray, IntArray

SPREADS = 4.0
"""A place of 1 is this many standard deviations from the middle of its mode."""
_LEAST_SHARE = 0.005
_LEAST_SPREAD = 1e-3
_MOST_VALUES = 20_000
_ROUNDS = 100


@dataclass(frozen=True)
class Modes:
    """Where values gather: middle, standard deviation and share of each place, by ascending middle."""

    middles: FloatArray
    spreads: FloatArray
    shares: FloatArray

    def __len__(self) -> int:
        return len(self.middles)

    @classmethod
    def one(cls) -> Modes:
        """Return the modes of values that are normal already."""
        return cls(np.zeros(1), np.ones(1), np.ones(1))

    @classmethod
    def fit(cls, values: FloatArray, most: int, rng: np.random.Generator) -> Modes:
        """Return at most `most` modes of `values`; those of hardly any value are left out."""
        if len(values) > _MOST_VALUES:
            values = rng.choice(values, _MOST_VALUES, replace=False)
        least = max(_LEAST_SPREAD * float(np.ptp(values)), _LEAST_SPREAD)
        middles = np.unique(np.quantile(values, (np.arange(most) + 0.5) / most))
        found = cls(
            middles,
            np.full(len(middles), max(float(values.std()) / len(middles), least)),
            np.full(len(middles), 1 / len(middles)),
        )
        for _ in range(_ROUNDS):
            found = found._improved(values, least)
        kept = found.shares >= _LEAST_SHARE
        order = np.argsort(found.middles[kept])
        shares = found.shares[kept][order]
        return cls(found.middles[kept][order], found.spreads[kept][order], shares / shares.sum())

    def encode(self, values: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Return a mode for each value, drawn by how likely it is, and the value's place in it, -1 to 1."""
        reached = self._chances(values).cumsum(axis=1)  # (N, M)
        codes = np.minimum((rng.random((len(values), 1)) > reached).sum(axis=1), len(self) - 1)
        places = (values - self.middles[codes]) / (SPREADS * self.spreads[codes])
        return codes, np.clip(places, -1, 1)

    def decode(self, codes: IntArray, places: FloatArray) -> FloatArray:
        """Return the values at these places in these modes."""
        return self.middles[codes] + np.clip(places, -1, 1) * SPREADS * self.spreads[codes]

    def _chances(self, values: FloatArray) -> FloatArray:
        """Return how likely each value is of each mode, (N, M); rows make 1."""
        apart = (values[:, None] - self.middles) / self.spreads
        log = np.log(np.maximum(self.shares, 1e-12)) - np.log(self.spreads) - 0.5 * apart**2
        chances: FloatArray = np.exp(log - log.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        return chances

    def _improved(self, values: FloatArray, least: float) -> Modes:
        chances = self._chances(values)
        weights = np.maximum(chances.sum(axis=0), 1e-9)
        middles = (chances * values[:, None]).sum(axis=0) / weights
        variances = (chances * (values[:, None] - middles) ** 2).sum(axis=0) / weights
        return Modes(middles, np.maximum(np.sqrt(variances), least), weights / len(values))
