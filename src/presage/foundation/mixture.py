"""Forecasts of durations as mixtures of logistics in log time: any quantile, any chance, also after some time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

GRID = np.linspace(0.0, 16.5, 166)
"""Log seconds at which the distribution is computed; between them it is interpolated. The last is 170 days."""
LEAST_LEFT = 1e-6


@dataclass(frozen=True)
class Mixture:
    """One forecast in each row. A duration of s seconds stands at log(1 + s)."""

    weight: NDArray[np.float32]
    centre: NDArray[np.float32]
    scale: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.weight)

    def distribution(self, durations_s: ArrayLike) -> Floats:
        """Return the chance that each forecast's duration is at most each given one: forecasts by durations."""
        values = np.log1p(np.asarray(durations_s, dtype=np.float32))
        return self._below(values)

    def curve(self, age_s: Floats | None = None) -> Floats:
        """Return the distribution on GRID, given that the duration is longer than `age_s`: forecasts by grid."""
        below = self._below(GRID.astype(np.float32))
        if age_s is None or not age_s.any():
            return below
        age = np.log1p(age_s)[:, None]
        passed = np.where(age > 0, _at(below, age[:, 0])[:, None], 0.0)
        left = np.maximum(1 - passed, LEAST_LEFT)
        is_ahead = (GRID[None] > age) | (age <= 0)
        return np.where(is_ahead, np.clip((below - passed) / left, 0.0, 1.0), 0.0)

    def _below(self, values: NDArray[np.float32]) -> Floats:
        # The logistic function is a hyperbolic tangent, which does not overflow.
        half = np.float32(0.5) / self.scale[:, None]
        steps = np.tanh((values[None, :, None] - self.centre[:, None]) * half)  # (B, G, C)
        below: Floats = 0.5 + 0.5 * (steps @ self.weight[..., None])[..., 0].astype(np.float64)
        return below


def _at(curves: Floats, places: Floats) -> Floats:
    """Return the value of each curve at a place of its own."""
    step = GRID[1] - GRID[0]
    low = np.clip((places / step).astype(np.int64), 0, len(GRID) - 2)
    part = np.clip(places / step - low, 0.0, 1.0)
    rows = np.arange(len(curves))
    value: Floats = curves[rows, low] * (1 - part) + curves[rows, low + 1] * part
    return value


def log_quantiles(curves: Floats, levels: Floats) -> Floats:
    """Return where distributions on GRID reach the levels, in log seconds: curves by levels.

    `levels` are the same for all curves, or a row for each. What lies beyond the grid stands at its end.
    """
    levels = np.broadcast_to(np.atleast_2d(levels), (len(curves), np.shape(levels)[-1]))
    found = [np.interp(level, curve, GRID) for level, curve in zip(levels, curves, strict=True)]
    return np.array(found).reshape(levels.shape)


def mean_s(curves: Floats) -> Floats:
    """Return the mean duration in seconds; what lies beyond the grid counts as its end."""
    seconds = np.expm1(GRID)
    return np.asarray(np.diff(seconds) @ (1 - (curves[:, 1:] + curves[:, :-1]) / 2).T)
