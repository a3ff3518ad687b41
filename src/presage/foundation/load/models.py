"""The kinds of load forecast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.registry import Registry, Spec

if TYPE_CHECKING:
    from presage.foundation.load._base import LoadModel

_HERE = "presage.foundation.load"
LOAD_MODELS: Registry[type[LoadModel]] = Registry(
    "load forecast",
    "presage.load_forecasts",
    [
        Spec("presage", f"{_HERE}.learned:Learned", "the site's own past and a network trained on other sites"),
        Spec("persistence", f"{_HERE}.persistence:Persistence", "the level now"),
        Spec("seasonal-day", f"{_HERE}.seasonal:SeasonalDay", "the same hour of the day before"),
        Spec("seasonal-week", f"{_HERE}.seasonal:SeasonalWeek", "the same hour of the week before"),
        Spec("ets", f"{_HERE}.ets:Ets", "damped Holt-Winters with a daily season"),
        Spec("ar", f"{_HERE}.autoregression:Autoregression", "autoregression with seasonal lags"),
    ],
)
