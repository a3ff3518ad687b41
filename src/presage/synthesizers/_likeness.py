"""How far drawn jobs are from others, in one number: what a training that has no loss to go by stops early by."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from presage.synthesizers.columns import Columns, FloatArray, IntArray, JobTable

_GROUPS = 8


class Likeness:
    """Jobs that others are compared with, column by column and in pairs of columns.

    In pairs, a number goes by its eighth among the jobs, and a category by its seven most frequent values.
    """

    def __init__(self, columns: Columns, jobs: JobTable) -> None:
        self._columns = columns
        self._jobs = jobs
        shares = np.linspace(0, 1, _GROUPS + 1)[1:-1]
        self._edges = {name: np.quantile(values, shares) for name, values in jobs.numbers.items()}
        self._groups = {each.name: _groups(jobs.codes[each.name], len(each)) for each in columns.categories}
        self._coarse = self._grouped(jobs)

    def distance(self, jobs: JobTable) -> float:
        """Return 0 for jobs of the same distributions, 1 for jobs that have nothing in common with these.

        It is the mean of columns (Kolmogorov-Smirnov or total variation) and of pairs (total variation).
        """
        own = self._jobs
        apart = [ks_distance(jobs.numbers[name], own.numbers[name]) for name in own.numbers]
        apart += [
            tv_distance(jobs.codes[each.name], own.codes[each.name], len(each))
            for each in self._columns.categories
        ]
        coarse = self._grouped(jobs)
        pairs = [
            tv_distance(
                coarse[first] * _GROUPS + coarse[second],
                self._coarse[first] * _GROUPS + self._coarse[second],
                _GROUPS**2,
            )
            for first, second in combinations(range(len(coarse)), 2)
        ]
        return (float(np.mean(apart)) + float(np.mean(pairs))) / 2

    def _grouped(self, jobs: JobTable) -> list[IntArray]:
        numbers = [np.searchsorted(edges, jobs.numbers[name], "right") for name, edges in self._edges.items()]
        return numbers + [groups[jobs.codes[name]] for name, groups in self._groups.items()]


def ks_distance(first: FloatArray, second: FloatArray) -> float:
    """Return the greatest difference between the distributions of two samples of numbers."""
    points = np.concatenate([first, second])
    reached = [np.searchsorted(np.sort(each), points, "right") / len(each) for each in (first, second)]
    return float(np.abs(reached[0] - reached[1]).max())


def tv_distance(first: IntArray, second: IntArray, values: int) -> float:
    """Return half the sum of differences between the shares of codes below `values` in two samples."""
    shares = [np.bincount(each, minlength=values) / len(each) for each in (first, second)]
    return 0.5 * float(np.abs(shares[0] - shares[1]).sum())


def _groups(codes: IntArray, values: int) -> IntArray:
    """Return a group for each code: the most frequent have their own, all others the last."""
    groups = np.full(values, _GROUPS - 1, np.int64)
    frequent = np.argsort(-np.bincount(codes, minlength=values), kind="stable")[: _GROUPS - 1]
    groups[frequent] = np.arange(len(frequent))
    return groups
