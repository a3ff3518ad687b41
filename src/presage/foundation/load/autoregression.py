"""Autoregression with seasonal lags, fitted on the site's own past by least squares, anew every week."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.load._base import PointModel, level_now
from presage.foundation.load.rows import DAY, WEEK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.foundation.load.site import Site

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_LAGS = (0, 1, 2, 3, 4, 5, 23, 24, 47, 167)
_ROWS_PER_FACTOR = 6


class Autoregression(PointModel):
    """One regression per horizon on the level now, the last hours, and the same hour yesterday and a week ago."""

    def points(self, site: Site, target: str) -> Floats:
        series = site.levels.of(target)
        now = level_now(site, target)
        truth = site.levels.truth(target, site.origins, site.horizons)
        found = np.empty(truth.shape)
        for column, horizon in enumerate(site.horizons):
            inputs = _inputs(series, now, site.origins, int(horizon))
            found[:, column] = now + _refitted(inputs, truth[:, column] - now, site.origins, int(horizon))
        return np.maximum(found, 0.0)


def _inputs(series: Floats, now: Floats, origins: Ints, horizon: int) -> Floats:
    """Return (origins, factors): earlier values relative to that of now; where there is none, no difference."""
    places = [origins - lag for lag in _LAGS] + [origins + horizon - DAY, origins + horizon - WEEK]
    columns = [np.where(place >= 0, series[np.maximum(place, 0)] - now, 0.0) for place in places]
    return np.column_stack([*columns, now, np.ones(len(origins))])


def _refitted(inputs: Floats, came: Floats, origins: Ints, horizon: int) -> Floats:
    change = np.zeros(len(origins))
    begin = 0
    while begin < len(origins):
        end = int(np.searchsorted(origins, origins[begin] + WEEK))
        known = int(np.searchsorted(origins, origins[begin] - horizon, side="right"))
        if known >= _ROWS_PER_FACTOR * inputs.shape[1]:
            seen = inputs[:known]
            moments = seen.T @ seen + 1e-3 * np.eye(inputs.shape[1])
            change[begin:end] = inputs[begin:end] @ np.linalg.solve(moments, seen.T @ came[:known])
        begin = end
    return change
