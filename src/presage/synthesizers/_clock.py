"""What time it is where a machine stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from presage.synthesizers.columns import FloatArray, IntArray

DAY_MS, HOUR_MS = 86_400_000, 3_600_000
THURSDAY = 3
"""The day of the week on which 1970 began; Monday is 0."""
_FAR_MS = 250_000_000_000_000
"""About 8,000 years: calendars end there."""
KINDS_OF_HOURS = 2 * 24
"""How many `kind_of_hour` tells apart."""


def hours_of_week(times_ms: IntArray, time_zone: str | None, first_day: int = THURSDAY) -> IntArray:
    """Return the hour of the local week of each time, 0 to 167 from Monday midnight.

    `first_day` is the day of the week at time 0. A zone that is not known counts as UTC.
    """
    local_ms = times_ms
    if time_zone not in (None, "UTC") and (np.abs(times_ms) < _FAR_MS).all():
        try:
            moments = pl.Series(times_ms).cast(pl.Datetime("ms", "UTC")).dt.convert_time_zone(str(time_zone))
            local_ms = moments.dt.replace_time_zone(None).dt.epoch("ms").to_numpy()
        except pl.exceptions.PolarsError:  # Polars brings its own list of zones
            local_ms = times_ms
    hours: IntArray = (local_ms // DAY_MS + first_day) % 7 * 24 + local_ms % DAY_MS // HOUR_MS
    return hours


def kind_of_hour(hours: FloatArray) -> IntArray:
    """Return which hour of a weekday, or of a day of the weekend, each hour since a Monday is."""
    whole = hours.astype(np.int64) % (7 * 24)
    return whole % 24 + 24 * (whole >= 5 * 24)
