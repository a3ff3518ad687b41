"""What a trace looks like in numbers: a summary, rhythms of arrival, time series, distributions."""

from __future__ import annotations

from presage.traces.statistics._instants import time_zone_of
from presage.traces.statistics._series import (
    Rhythm,
    TimeSeries,
    arrivals_by_hour,
    arrivals_by_weekday,
    cdf,
    queue_length_over_time,
    user_shares,
    utilisation_over_time,
)
from presage.traces.statistics._summary import Summary, summarise

__all__ = [
    "Rhythm",
    "Summary",
    "TimeSeries",
    "arrivals_by_hour",
    "arrivals_by_weekday",
    "cdf",
    "queue_length_over_time",
    "summarise",
    "time_zone_of",
    "user_shares",
    "utilisation_over_time",
]
