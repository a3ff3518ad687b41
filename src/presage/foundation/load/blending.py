"""One forecast from several: whichever mix of them would have been best on a site's recent past counts most."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_RECENT = 320
_PARTS = 4
"""A mix gives each forecast a whole number of so many parts."""
_SHARPNESS = 4.0


def blend_weights(experts: Floats, truths: Floats, origins: Ints, horizons: Ints, delay_h: int = 0) -> Floats:
    """Return (experts, origins, horizons): the share of each forecast at each origin and horizon.

    `experts` is (K, origins, horizons), `truths` (origins, horizons); a truth counts at the origins at which its
    horizon and the delay have passed. Without any, all mixes count the same.
    """
    mixes = _mixes(len(experts))  # (G, K)
    misses = np.abs(truths - np.einsum("gk,koh->goh", mixes, experts))
    there = np.isfinite(truths)
    sums = _running(np.where(there, misses, 0.0))
    counts = _running(there.astype(np.float64))
    shares = np.empty(experts.shape)
    for column, horizon in enumerate(horizons):
        known = np.searchsorted(origins, origins - horizon - delay_h, side="right")
        first = np.maximum(known - _RECENT, 0)
        count = counts[known, column] - counts[first, column]
        mean = (sums[:, known, column] - sums[:, first, column]) / np.maximum(count, 1)
        best = mean.min(0)
        lag = (mean - best) / np.maximum(best, 1e-6) * np.sqrt(count)
        trust = np.exp(-_SHARPNESS * lag)
        shares[:, :, column] = np.einsum("go,gk->ko", trust / trust.sum(0), mixes)
    return shares


def _running(values: Floats) -> Floats:
    """Return sums over the origins before each, along the last axis but one, with one entry more."""
    sums = np.cumsum(values, -2)
    return np.concatenate([np.zeros_like(sums[..., :1, :]), sums], -2)


@lru_cache
def _mixes(experts: int) -> Floats:
    parts = [mix for mix in product(range(_PARTS + 1), repeat=experts) if sum(mix) == _PARTS]
    return np.array(parts, np.float64) / _PARTS
