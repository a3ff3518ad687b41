"""Ridge regressions on a site's own past, one per target and horizon, refitted as time passes.

What is regressed is the change from now to then. So a site without a past gets no change, which is persistence,
and the longer the past, the more of the site's own rhythm and habits is in the forecast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.load.levels import TARGETS
from presage.foundation.load.rows import INDEX, own_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.foundation.load.site import Site

    Floats = NDArray[np.float64]

_SHARED = (
    "now_utilisation", "now_queue", "now_work", "drain_request", "drain_history", "held_share", "waiting_share",
    "smallest_waiting", "arrivals_1", "arrivals_24", "arrivals_day", "share_1",
)  # fmt: skip
_USUAL_ERROR = {"utilisation": 0.05, "queue": 0.3, "work": 0.3}
_USUAL_ROWS = 10.0
_ERROR_KEPT = 0.97
_SMALL_ERROR = 0.1
_LEAST_ERROR = 1e-3
_RIDGE = 80.0
"""Rows that speak for no change."""
_HALF_LIFE_H = 45 * 24.0
_REFIT_ROWS = 16


@dataclass(frozen=True, eq=False)
class LocalFit:
    """What the regressions say at every origin, and what they are after the last one."""

    change: Floats
    """(origins, horizons, 3): the expected change of each target from its level now."""
    error: Floats
    """(origins, horizons, 3): the mean error of this expectation lately."""
    factors: Floats
    """(3, horizons, inputs)."""
    ceilings: Floats
    """(origins, 3): levels above which nothing is expected, since none was seen."""

    def at(self, row: Floats) -> tuple[Floats, Floats]:
        """Return change and error (horizons, 3) for a row (horizons, columns) that comes after the last origin."""
        inputs = [inputs_of(row, target) for target in TARGETS]
        change = [(each * factors).sum(-1) for each, factors in zip(inputs, self.factors, strict=True)]
        now = row[:, [INDEX[f"now_{target}"] for target in TARGETS]]
        return bounded(np.stack(change, -1), now, self.ceilings[-1]), self.error[-1]


def fit_site(site: Site) -> LocalFit:
    """Return the regressions of a site.

    What they say at an origin is of its past alone: a row counts once its horizon has come.
    """
    fits = [_fit_target(site, target) for target in TARGETS]
    change, error = (np.stack([fit[part] for fit in fits], -1) for part in (0, 1))
    return LocalFit(change, error, np.stack([fit[2] for fit in fits]), site.levels.ceilings(site.origins))


def bounded(change: Floats, now: Floats, ceiling: Floats) -> Floats:
    """Return the change cut so that it leads neither below zero nor above both the ceiling and now."""
    return np.clip(change, -now, np.maximum(ceiling, now) - now)


def inputs_of(rows: Floats, target: str) -> Floats:
    """Return the inputs (…, F) of a target's regression from rows (…, columns); the last one is a constant."""
    columns = [INDEX[name] for name in _SHARED] + own_columns(target)
    chosen = rows[..., columns]
    return np.concatenate([chosen, np.ones((*chosen.shape[:-1], 1))], -1)


class _Regression:
    """The regressions of one target, one per horizon; rows are given in order."""

    def __init__(self, horizons: int, width: int, usual_error: float) -> None:
        self.moments, self.products = np.zeros((horizons, width, width)), np.zeros((horizons, width))
        self.error, self.weight = np.full(horizons, usual_error * _USUAL_ROWS), np.full(horizons, _USUAL_ROWS)

    def forget(self, hours: float) -> None:
        keep = 0.5 ** (hours / _HALF_LIFE_H)
        self.moments *= keep
        self.products *= keep

    def learn(self, place: int, seen: Floats, came: Floats, said: Floats) -> None:
        """Take in rows (B, F) of one horizon, what came of them, and what had been said of them."""
        misses = np.abs(came - said)
        usual = self.error[place] / self.weight[place]
        # Weights that make least squares count errors and not their squares: most hours change little.
        weighted = seen * (usual / np.maximum(misses, _SMALL_ERROR * usual + 1e-9))[:, None]
        self.moments[place] += weighted.T @ seen
        self.products[place] += weighted.T @ came
        fading = _ERROR_KEPT ** np.arange(len(misses))[::-1]
        kept = _ERROR_KEPT ** len(misses)
        self.error[place] = self.error[place] * kept + (misses * fading).sum()
        self.weight[place] = self.weight[place] * kept + fading.sum()


def _fit_target(site: Site, target: str) -> tuple[Floats, Floats, Floats]:
    inputs = inputs_of(site.rows, target)  # (O, H, F)
    now = site.rows[:, :, INDEX[f"now_{target}"]]
    came = site.levels.truth(target, site.origins, site.horizons) - now
    origins, horizons = site.origins, site.horizons
    ceiling = site.levels.ceilings(origins)[:, TARGETS.index(target), None]
    regression = _Regression(len(horizons), inputs.shape[2], _USUAL_ERROR[target])
    change, error = np.zeros(came.shape), np.zeros(came.shape)
    done = np.zeros(len(horizons), np.int64)
    factors = regression.products
    for begin in range(0, len(origins), _REFIT_ROWS):
        block = slice(begin, begin + _REFIT_ROWS)
        regression.forget(float(origins[begin] - origins[max(0, begin - _REFIT_ROWS)]))
        for place, horizon in enumerate(horizons):
            known = int(np.searchsorted(origins, origins[begin] - horizon, side="right"))
            fresh = slice(done[place], known)
            if known > done[place]:
                regression.learn(place, inputs[fresh, place], came[fresh, place], change[fresh, place])
                done[place] = known
        factors = _solve(regression.moments, regression.products)
        change[block] = bounded((inputs[block] * factors).sum(-1), now[block], ceiling[block])
        error[block] = regression.error / regression.weight
    return change, np.maximum(error, _LEAST_ERROR), factors


def _solve(moments: Floats, products: Floats) -> Floats:
    """Return the factors of every horizon; each input is drawn to zero as far as its own size allows."""
    size = np.einsum("hff->hf", moments)
    rows = np.maximum(size[:, -1:], 1.0)  # the last input is a constant
    penalty = _RIDGE * size / rows + 1e-6
    eye = np.eye(moments.shape[1])
    return np.linalg.solve(moments + penalty[:, :, None] * eye, products[:, :, None])[:, :, 0]
