"""What a kind of load forecast must do, and what those share that know points only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.load.calibration import error_quantiles, recent_of
from presage.foundation.load.rows import INDEX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.foundation.load.site import Site

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

USUAL_ERROR = {"utilisation": 0.1, "queue": 0.6, "work": 0.6}


class LoadModel(ABC):
    """Forecasts the levels of a site.

    What is said of an origin depends on what was known at that origin alone: neither later bins of the levels nor
    rows of later origins may have any influence, so that any origin of an old log can be taken for the present.
    """

    @abstractmethod
    def forecast(self, site: Site, target: str, places: Ints) -> Floats:
        """Return (places, horizons, 3): p10, p50 and p90 of `target`, on the scale of `site.levels`.

        `places` are indices into `site.origins`, `target` is one of `levels.TARGETS`.
        """


class PointModel(LoadModel):
    """A forecast of single values, whose intervals are made of its own recent errors."""

    @abstractmethod
    def points(self, site: Site, target: str) -> Floats:
        """Return (origins, horizons), under the same promise as `LoadModel`."""

    def forecast(self, site: Site, target: str, places: Ints) -> Floats:
        points = self.points(site, target)
        errors = site.levels.truth(target, site.origins, site.horizons) - points
        found = np.empty((len(places), len(site.horizons), 3))
        for row, place in enumerate(places):
            for column, horizon in enumerate(site.horizons):
                recent = errors[recent_of(site.origins, int(place), int(horizon)), column]
                low, high = error_quantiles(recent, USUAL_ERROR[target])
                point = points[place, column]
                found[row, column] = min(point + low, point), point, max(point + high, point)
        return np.maximum(found, 0.0)


def level_now(site: Site, target: str) -> Floats:
    """Return (origins,): the level of a target at the instant of each origin."""
    return site.rows[:, 0, INDEX[f"now_{target}"]]
