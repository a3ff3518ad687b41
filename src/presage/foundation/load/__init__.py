"""Load and contention in the next hours: utilisation, queue, waiting work, and waits by size."""

from __future__ import annotations

from presage.foundation.load._base import LoadModel
from presage.foundation.load.forecast import Hour, LoadForecast, Range, ScopeForecast, forecast_load
from presage.foundation.load.models import LOAD_MODELS
from presage.foundation.load.tracker import LoadTracker

__all__ = [
    "LOAD_MODELS",
    "Hour",
    "LoadForecast",
    "LoadModel",
    "LoadTracker",
    "Range",
    "ScopeForecast",
    "forecast_load",
]
