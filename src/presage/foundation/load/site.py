"""One scope seen from several origins: its hourly levels, and a row per origin and horizon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.load.levels import HOUR_S, hourly_levels
from presage.foundation.load.present import Presents
from presage.foundation.load.rows import COLUMNS, make_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.foundation.load.jobs import LoadJobs
    from presage.foundation.load.levels import Levels

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Site:
    """Origins are bins of `levels`, in order; the last one may be the present."""

    levels: Levels
    origins: Ints
    horizons: Ints
    rows: Floats
    """(origins, horizons, columns)."""

    @classmethod
    def build(cls, jobs: LoadJobs, levels: Levels, origins: Ints, horizons: Ints) -> Site:
        """Return the site with its rows; those of an origin depend on nothing that comes after it."""
        presents = Presents(jobs, levels.capacity)
        rows = np.empty((len(origins), len(horizons), len(COLUMNS)))
        for place, origin in enumerate(origins):
            rows[place] = make_rows(levels, int(origin), presents.at(levels.origin_s(int(origin))), horizons)
        return cls(levels, origins, horizons, rows)


def levels_until(jobs: LoadJobs, capacity: float, last_s: float, most_bins: int) -> Levels:
    """Return the hourly levels up to `last_s`, from the first submit on, but not more than `most_bins` hours."""
    first_s = float(jobs.submit_s[0]) if len(jobs) else last_s
    bins = int(np.ceil((last_s - first_s) / HOUR_S))
    return hourly_levels(jobs, capacity, last_s, min(max(bins, 1), most_bins))
