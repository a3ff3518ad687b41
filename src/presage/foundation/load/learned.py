"""The forecast that knows the jobs: a site's own regressions, and a network trained on many other sites.

The regressions (`local`) say what to expect by the site's own past. The network looks at the same rows and says,
in units of the regressions' recent error, where the median and the outer quantiles lie. The median is a blend of
the network's, the regressions' and the level now, by how good each was lately; the site's recent errors stretch or
shrink the intervals around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from presage.errors import PresageError
from presage.foundation.load._base import LoadModel
from presage.foundation.load.blending import blend_weights
from presage.foundation.load.calibration import least_spread, recalibrate, recent_of, stretched
from presage.foundation.load.levels import CLASSES, TARGETS, TOLD_AFTER_H
from presage.foundation.load.local import LocalFit, bounded, fit_site
from presage.foundation.load.network import QUANTITIES, Network
from presage.foundation.load.rows import INDEX
from presage.foundation.load.training import Lesson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from presage.foundation.load.site import Site

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

WEIGHTS = Path(__file__).parent / "weights" / "load.safetensors"
_DELAYS_H = (0,) * len(TARGETS) + (TOLD_AFTER_H,) * len(CLASSES)
_UNKNOWN = (0.25, 1.0, 1.5) + (2.0,) * len(CLASSES)
"""How far from the median a quantity may well be in a day where nothing is known of a site."""
_SHARED_H = 2
_NOW = [INDEX[f"now_{target}"] for target in TARGETS]
_WAITS = [INDEX[f"recent_wait_{size}"] for size in CLASSES]


@dataclass(frozen=True, eq=False)
class _Told:
    """What was said at all origins of a site, before recalibration."""

    local: LocalFit
    shares: Floats
    """(K, origins, horizons, quantities): how much each forecast counts in the blend."""
    quantiles: Floats
    """(origins, horizons, quantities, 3)."""
    truths: Floats
    """(origins, horizons, quantities), as far as known by now."""


@dataclass(frozen=True, eq=False)
class Settled:
    """All that a forecast for one more row of a site needs: it takes milliseconds."""

    networks: tuple[Network, ...]
    local: LocalFit
    shares: Floats
    """(K, horizons, quantities)."""
    factors: Floats
    """(horizons, quantities, 2)."""
    least: Floats
    """(horizons, quantities)."""

    def forecast(self, row: Floats) -> Floats:
        """Return (horizons, quantities, 3) for a row (horizons, columns) that comes after the last origin."""
        change, error = self.local.at(row)
        experts, spread = _experts(row, change, error, self.local.ceilings[-1], self.networks)
        middle = (self.shares * experts).sum(0)
        quantiles = middle[..., None] + spread
        return np.maximum(stretched(quantiles, self.factors, self.least), 0.0)


class Learned(LoadModel):
    """Regressions on the site's own past, a shared network, a blend of them, and recalibrated intervals."""

    def __init__(self, networks: Sequence[Network] | None = None) -> None:
        self._networks = tuple(networks) if networks is not None else shipped_networks()
        self._last: tuple[Site, _Told] | None = None

    def forecast(self, site: Site, target: str, places: Ints) -> Floats:
        return self._recalibrated(site, QUANTITIES.index(target), places)

    def waits(self, site: Site, size: str, places: Ints) -> Floats:
        """Return (places, horizons, 3): quantiles of log(1 + wait in s) of a job of that size submitted then."""
        return self._recalibrated(site, QUANTITIES.index(f"wait_{size}"), places)

    def settle(self, site: Site) -> Settled:
        """Return what the site has taught so far, for forecasts from its last origin on.

        What was found for single horizons is shared by those up to two hours away, so that fans have no teeth.
        """
        told = self._told(site)
        last = len(site.origins) - 1
        found = [self._factors(site, quantity, last) for quantity in range(len(QUANTITIES))]
        factors, least = (np.stack([each[part] for each in found], 1) for part in (0, 1))
        near = (np.abs(site.horizons[:, None] - site.horizons) <= _SHARED_H).astype(np.float64)
        near /= near.sum(1, keepdims=True)
        shares = np.einsum("hg,kgq->khq", near, told.shares[:, last])
        return Settled(self._networks, told.local, shares, np.einsum("hg,gqs->hqs", near, factors), least)

    def _recalibrated(self, site: Site, quantity: int, places: Ints) -> Floats:
        said = self._told(site).quantiles[:, :, quantity]
        found = np.empty((len(places), *said.shape[1:]))
        for row, place in enumerate(places):
            found[row] = stretched(said[place], *self._factors(site, quantity, int(place)))
        return np.maximum(found, 0.0)

    def _factors(self, site: Site, quantity: int, place: int) -> tuple[Floats, Floats]:
        """Return by what to stretch the halves of intervals at one origin, (horizons, 2), and to what at least."""
        told = self._told(site)
        factors, least = np.empty((len(site.horizons), 2)), np.empty(len(site.horizons))
        for column, horizon in enumerate(site.horizons):
            recent = recent_of(site.origins, place, int(horizon) + _DELAYS_H[quantity])
            said, came = told.quantiles[recent, column, quantity], told.truths[recent, column, quantity]
            factors[column] = recalibrate(said, came)
            least[column] = least_spread(_UNKNOWN[quantity], int(horizon), int(np.isfinite(came).sum()))
        return factors, least

    def _told(self, site: Site) -> _Told:
        if self._last is None or self._last[0] is not site:
            self._last = (site, _tell(site, self._networks))
        return self._last[1]


def _tell(site: Site, networks: tuple[Network, ...]) -> _Told:
    local = fit_site(site)
    experts, spread = _experts(site.rows, local.change, local.error, local.ceilings[:, None], networks)
    truths = _truths(site, "wait_told")
    shares = np.empty(experts.shape)
    for quantity, delay_h in enumerate(_DELAYS_H):
        part = (..., quantity)
        shares[part] = blend_weights(experts[part], truths[part], site.origins, site.horizons, delay_h)
    middle = (shares * experts).sum(0)
    return _Told(local, shares, middle[..., None] + spread, truths)


def _experts(
    rows: Floats, change: Floats, error: Floats, ceiling: Floats, networks: tuple[Network, ...]
) -> tuple[Floats, Floats]:
    """Return the forecasts to blend (3, …, quantities): of the network, of the regressions, and the level now.

    And where the quantiles lie relative to the median (…, quantities, 3), of which the network alone knows. Of
    waits, regressions and now are both what was waited for lately.
    """
    inputs, base, scale = _prepare(rows, change, error)
    flat = inputs.reshape(-1, inputs.shape[-1])
    said = np.mean([network.quantiles(flat) for network in networks], 0, dtype=np.float64)
    said = said.reshape(*base.shape, 3) * scale[..., None]
    now = np.concatenate([rows[..., _NOW], rows[..., _WAITS]], -1)
    middle = said[..., 1]
    taught = base + middle
    levels = now[..., : len(TARGETS)]
    taught[..., : len(TARGETS)] = levels + bounded(taught[..., : len(TARGETS)] - levels, levels, ceiling)
    return np.stack([taught, base, now]), said - middle[..., None]


def _prepare(rows: Floats, change: Floats, error: Floats) -> tuple[Floats, Floats, Floats]:
    """Return what the network is given (…, F), and base and scale of what it says (…, quantities)."""
    inputs = np.concatenate([rows, change, np.log(error)], -1)
    waits = rows[..., _WAITS]
    base = np.concatenate([rows[..., _NOW] + change, waits], -1)
    return inputs, base, np.concatenate([error, np.ones_like(waits)], -1)


def _truths(site: Site, waits: str) -> Floats:
    came = [site.levels.truth(target, site.origins, site.horizons) for target in TARGETS]
    return np.concatenate([np.stack(came, -1), site.levels.truth(waits, site.origins, site.horizons)], -1)


def lesson_of(site: Site) -> Lesson:
    """Return what a network can learn from a site."""
    local = fit_site(site)
    inputs, base, scale = _prepare(site.rows, local.change, local.error)
    truths = (_truths(site, "wait") - base) / scale
    return Lesson(*(each.reshape(-1, each.shape[-1]).astype(np.float32) for each in (inputs, truths)))


@lru_cache(maxsize=1)
def shipped_networks() -> tuple[Network, ...]:
    """Return the networks that come with the package. Raises PresageError if they are not there."""
    from safetensors.numpy import load_file

    if not WEIGHTS.is_file():
        raise PresageError(
            "The network for load forecasts is not part of this installation", remedy="Install Presage again"
        )
    return unpack(load_file(WEIGHTS))


def pack(networks: Sequence[Network]) -> dict[str, NDArray[np.float32]]:
    """Return the parameters of an ensemble under names of their own, as they are stored."""
    return {
        f"{member}.{name}": values
        for member, network in enumerate(networks)
        for name, values in network.parameters.items()
    }


def unpack(stored: dict[str, NDArray[np.float32]]) -> tuple[Network, ...]:
    """Return the ensemble that `pack` stored."""
    members: dict[str, dict[str, NDArray[np.float32]]] = {}
    for name in sorted(stored):
        member, _, parameter = name.partition(".")
        members.setdefault(member, {})[parameter] = stored[name]
    return tuple(Network(parameters) for parameters in members.values())
