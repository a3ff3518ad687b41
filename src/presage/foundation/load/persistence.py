"""Tomorrow will be as now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.load._base import PointModel, level_now

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.foundation.load.site import Site


class Persistence(PointModel):
    """The level at this instant, for every horizon."""

    def points(self, site: Site, target: str) -> NDArray[np.float64]:
        return np.repeat(level_now(site, target)[:, None], len(site.horizons), 1)
