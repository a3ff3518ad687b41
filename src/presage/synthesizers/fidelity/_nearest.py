"""Distances between jobs, and the nearest of many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers.fidelity._jobs import NUMBERS, log_numbers_of

if TYPE_CHECKING:
    import polars as pl

    from presage.synthesizers.fidelity._jobs import FloatArray

MOST_LABELS = 200
_BLOCK = 500
_MISSING = ""
_APART = np.sqrt(0.5)
"""Two labels that differ lie at this distance from the origin on two axes, so 1 apart."""


@dataclass(frozen=True, eq=False)
class Space:
    """A space in which jobs are points: an axis for each number, and one for each label."""

    means: dict[str, tuple[float, float]]
    """Mean and standard deviation of the logarithm, by column of numbers."""
    labels: dict[str, list[str]]
    """Labels that have an axis; all others are alike."""

    @classmethod
    def of(cls, jobs: pl.DataFrame, columns: list[str]) -> Space:
        """Return the space in which these columns of `jobs` have a spread of 1."""
        means, labels = {}, {}
        for name in columns:
            if name in NUMBERS:
                values = log_numbers_of(jobs, name)
                spread = float(np.nanstd(values))
                means[name] = (float(np.nanmean(values)), spread if spread > 0 else 1.0)
            else:
                counts = jobs[name].fill_null(_MISSING).alias("label").value_counts(sort=True)
                labels[name] = counts["label"].head(MOST_LABELS).to_list()
        return cls(means, labels)

    def points(self, jobs: pl.DataFrame) -> FloatArray:
        """Return the jobs as points, one row each."""
        axes = []
        for name, (mean, spread) in self.means.items():
            values = (log_numbers_of(jobs, name) - mean) / spread
            missing = np.isnan(values)
            axes += [np.where(missing, 0.0, values), np.where(missing, 1.0, 0.0)]
        for name, known in self.labels.items():
            told = jobs[name].fill_null(_MISSING)
            axes += [np.where((told == label).to_numpy(), _APART, 0.0) for label in known]
            axes.append(np.where(told.is_in(known).to_numpy(), 0.0, _APART))
        return np.column_stack(axes)

    def nearest(self, jobs: pl.DataFrame, base: pl.DataFrame) -> FloatArray:
        """Return the distance from each job to the nearest of `base`."""
        points, goals = self.points(jobs), self.points(base)
        goal_squares = (goals**2).sum(axis=1)
        found = np.empty(len(points))
        for first in range(0, len(points), _BLOCK):
            some = points[first : first + _BLOCK]
            squares = goal_squares - 2 * some @ goals.T
            found[first : first + _BLOCK] = squares.min(axis=1) + (some**2).sum(axis=1)
        # What is left of rounding would tell equal jobs apart.
        return np.sqrt(np.where(found < 1e-9, 0.0, found))
