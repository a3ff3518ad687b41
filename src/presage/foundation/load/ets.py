"""Exponential smoothing: level, damped trend and a season of 24 hours, all additive (Holt and Winters).

Twenty-four sets of smoothing factors run side by side; at every origin the set speaks whose forecasts for six
hours ahead have been best so far.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.load._base import PointModel
from presage.foundation.load.rows import DAY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.foundation.load.site import Site

    Floats = NDArray[np.float64]

_FACTORS = np.array(list(product((0.1, 0.3, 0.6, 0.9), (0.0, 0.05), (0.02, 0.1, 0.2)))).T
_DAMPING = 0.9
_JUDGED_H = 6


class Ets(PointModel):
    """Damped Holt-Winters with a daily season."""

    def points(self, site: Site, target: str) -> Floats:
        series = site.levels.of(target)
        horizons = site.horizons
        damped = np.cumsum(_DAMPING ** np.arange(1, DAY + 1))
        wanted = {int(origin): place for place, origin in enumerate(site.origins)}
        found = np.empty((len(site.origins), len(horizons)))
        level_rate, trend_rate, season_rate = _FACTORS
        sets = _FACTORS.shape[1]
        level, trend, season = np.full(sets, series[0]), np.zeros(sets), np.zeros((DAY, sets))
        misses, ahead = np.zeros(sets), np.zeros((_JUDGED_H, sets))
        for hour in range(int(site.origins[-1]) + 1):
            value, now = series[hour], hour % DAY
            if hour >= 2 * DAY:
                misses += np.square(value - ahead[hour % _JUDGED_H])
            before = level + _DAMPING * trend
            level = level_rate * (value - season[now]) + (1 - level_rate) * before
            error = level - before
            trend = _DAMPING * trend + trend_rate * error
            season[now] += season_rate * (value - level - season[now])
            ahead[hour % _JUDGED_H] = level + damped[_JUDGED_H - 1] * trend + season[(hour + _JUDGED_H) % DAY]
            if hour in wanted:
                best = int(np.argmin(misses))
                then = level[best] + damped[horizons - 1] * trend[best]
                found[wanted[hour]] = then + season[(hour + horizons) % DAY, best]
        return np.maximum(found, 0.0)
