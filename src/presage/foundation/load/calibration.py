"""Intervals made honest by a site's own recent errors: a bound that was passed too often moves out, or in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.load.network import QUANTILES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

RECENT = 160
"""Errors that count, newest first."""
_PRIOR = 15.0
"""Errors that speak for the interval as it is."""
_LEAST_SPREAD = 1e-4
_INWARD = 0.6
_ENOUGH = 40


def recent_of(origins: Ints, place: int, horizon: int) -> slice:
    """Return the earlier origins whose horizon has come when that of `place` is now."""
    known = int(np.searchsorted(origins, origins[place] - horizon, side="right"))
    return slice(max(0, known - RECENT), known)


def recalibrate(quantiles: Floats, truths: Floats) -> tuple[float, float]:
    """Return by which factors to stretch the lower and the upper half of an interval.

    `quantiles` (N, 3) were forecast and `truths` (N,) came; missing ones do not count. Below 1 is narrower.
    """
    there = np.isfinite(truths)
    quantiles, truths = quantiles[there], truths[there]
    low, middle, high = quantiles.T
    below = (middle - truths) / np.maximum(middle - low, _LEAST_SPREAD)
    above = (truths - middle) / np.maximum(high - middle, _LEAST_SPREAD)
    return _stretch(below), _stretch(above)


def stretched(quantiles: Floats, factors: Floats, least: Floats) -> Floats:
    """Return quantiles (…, 3) with lower and upper half stretched by factors (…, 2), to `least` (…) at least."""
    low, middle, high = (quantiles[..., index] for index in range(3))
    below = np.maximum(np.maximum(middle - low, _LEAST_SPREAD) * factors[..., 0], least)
    above = np.maximum(np.maximum(high - middle, _LEAST_SPREAD) * factors[..., 1], least)
    return np.stack([middle - below, middle, middle + above], -1)


def least_spread(usual: float, horizon: int, known: int) -> float:
    """Return how wide half an interval is at least when only so many errors of that horizon are known yet.

    `usual` is that of a day ahead when nothing is known. Five days of errors, one every three hours, make it zero.
    """
    return float(usual * np.sqrt(horizon / 24) * max(0.0, 1 - known / _ENOUGH))


def error_quantiles(errors: Floats, usual: float) -> tuple[float, float]:
    """Return the outer quantiles of errors; with few of them, drawn towards `usual` on either side."""
    errors = errors[np.isfinite(errors)]
    if not len(errors):
        return -usual, usual
    trust = len(errors) / (len(errors) + _PRIOR)
    low, high = np.quantile(errors, [QUANTILES[0], QUANTILES[-1]])
    return float(trust * low - (1 - trust) * usual), float(trust * high + (1 - trust) * usual)


def _stretch(scores: Floats) -> float:
    if not len(scores):
        return 1.0
    # One more error at the far end keeps the promise for finitely many.
    rank = min(QUANTILES[-1] * (len(scores) + 1) / len(scores), 1.0)
    found = float(np.quantile(scores, rank))
    trust = len(scores) / (len(scores) + _PRIOR)
    return float(np.clip(trust * found + (1 - trust), 1 - _INWARD, 20.0))
