"""As yesterday, or as a week ago, at the same hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.load._base import PointModel
from presage.foundation.load.rows import DAY, WEEK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.foundation.load.site import Site

    Floats = NDArray[np.float64]


class SeasonalDay(PointModel):
    """The same hour of the day before."""

    period = DAY

    def points(self, site: Site, target: str) -> Floats:
        series = site.levels.of(target)
        then = site.origins[:, None] + site.horizons[None, :] - self.period
        # A log that does not reach back so far has its last hour only.
        known = np.where(then >= 0, then, site.origins[:, None])
        return series[known]


class SeasonalWeek(SeasonalDay):
    """The same hour of the week before."""

    period = WEEK
