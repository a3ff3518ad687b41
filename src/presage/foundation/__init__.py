"""The model of scheduler behaviour: forecasts of waits, run times and outcomes, load, and anomalies.

`presage.foundation.load` and `presage.foundation.anomalies` stand beside the model; `presage.foundation.baselines`
has what it is measured against. Names are loaded when they are first used: the model needs numba, the rest not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from presage.foundation.evaluation import Evaluation, evaluate
    from presage.foundation.forecasting import JobForecast, Quantiles, TraceForecast, forecast
    from presage.foundation.live import JobRequest, LiveForecaster
    from presage.foundation.model import Model
    from presage.foundation.store import Attempt, ModelStore

__all__ = [
    "Attempt",
    "Evaluation",
    "JobForecast",
    "JobRequest",
    "LiveForecaster",
    "Model",
    "ModelStore",
    "Quantiles",
    "TraceForecast",
    "evaluate",
    "forecast",
]

_HOMES = {
    "evaluation": ("Evaluation", "evaluate"),
    "forecasting": ("JobForecast", "Quantiles", "TraceForecast", "forecast"),
    "live": ("JobRequest", "LiveForecaster"),
    "model": ("Model",),
    "store": ("Attempt", "ModelStore"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"presage.foundation.{home}"), name)
    raise AttributeError(f"module 'presage.foundation' has no attribute {name!r}")
