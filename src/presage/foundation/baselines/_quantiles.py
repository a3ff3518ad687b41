"""What becomes of three quantiles when more is known: that a job has not ended yet, that it has a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Point = Floats | float

LEVELS = (0.1, 0.5, 0.9)
_NARROWEST = 1e-9
GRACE_S = 60.0
GRACE_SHARE = 0.05
"""How far beyond its limit a job may still be seen to run: schedulers look from time to time."""


def outlived(quantiles_s: Floats, age_s: Floats) -> Floats:
    """Return (n, 3): the quantiles of durations known to exceed `age_s` (n,); unchanged where that is 0.

    Between the quantiles the logarithm of the duration is taken to be uniform. Above the last, the chance to
    exceed a duration falls as its inverse: a job that outlived all expectations is as likely as not to take as
    long again.
    """
    known, age = np.log1p(np.maximum(quantiles_s, 0.0)), np.log1p(age_s)
    gone = _level_of(known, age)[:, None]
    found = np.expm1(_value_at(known, gone + np.array(LEVELS) * (1 - gone)))
    return np.where(age_s[:, None] > 0, np.maximum(found, age_s[:, None]), quantiles_s)


def cut_at_limit(quantiles_s: Floats, facts: NDArray[np.void]) -> Floats:
    """Return run times cut at the limits of jobs that have one; the last quantile a little later."""
    has_limit, limit_s = facts["has_limit"] > 0, facts["limit_s"]
    most_s = np.stack([limit_s, limit_s, limit_s * (1 + GRACE_SHARE) + GRACE_S], 1)
    return np.where(has_limit[:, None], np.minimum(quantiles_s, most_s), quantiles_s)


def _level_of(known: Floats, value: Floats) -> Floats:
    """Return (n,): which share of the durations is not above a value; both are logarithms."""
    first, second, last = known.T
    level = np.where(value < first, 0.0, _between(value, first, second, LEVELS[0], LEVELS[1]))
    level = np.where(value < second, level, _between(value, second, last, LEVELS[1], LEVELS[2]))
    return np.where(value < last, level, 1 - (1 - LEVELS[2]) * np.exp(np.minimum(last - value, 0.0)))


def _value_at(known: Floats, level: Floats) -> Floats:
    """Return (n, levels): the logarithms of the durations below which shares of (n, levels) lie."""
    first, second, last = (known[:, [place]] for place in range(3))
    value = np.where(level < LEVELS[0], first, _between(level, LEVELS[0], LEVELS[1], first, second))
    value = np.where(level < LEVELS[1], value, _between(level, LEVELS[1], LEVELS[2], second, last))
    beyond = last + np.log((1 - LEVELS[2]) / np.minimum(1 - level, 1 - LEVELS[2]))
    return np.where(level < LEVELS[2], value, beyond)


def _between(at: Floats, low: Point, high: Point, low_value: Point, high_value: Point) -> Floats:
    """Return the value on the straight line from (low, low_value) to (high, high_value)."""
    span = np.maximum(np.subtract(high, low), _NARROWEST)
    return np.asarray(low_value + np.clip((at - low) / span, 0, 1) * np.subtract(high_value, low_value))
