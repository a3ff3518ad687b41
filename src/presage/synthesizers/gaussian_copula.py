"""The Gaussian copula: every column keeps its own distribution, normal scores say how columns go together.

A category takes an interval of places as wide as its share, its labels side by side in an order in which
neighbours are alike. A job is known only to lie somewhere within its intervals; the correlations of the scores
behind them are found by drawing scores and correlations in turns (Hoff 2007), so that ties do not weaken them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from presage.synthesizers._base import Synthesizer, Training
from presage.synthesizers._normal import places_of, scores_at
from presage.synthesizers.columns import RUN, JobTable
from presage.traces.workloads._parameters import parameter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers._base import Drawing
    from presage.synthesizers.columns import Category, FloatArray, IntArray

_MOST_ROWS = 50_000
_RIDGE = 1e-4


@dataclass(frozen=True)
class CopulaSettings:
    """Settings of the Gaussian copula."""

    rounds: int = parameter(40, "draws of the hidden scores; the later half counts", minimum=2, maximum=10_000)


class GaussianCopula(Synthesizer):
    """Draws rows by their correlation."""

    name = "copula"
    settings_type: ClassVar[type] = CopulaSettings

    order: dict[str, IntArray]
    """By category: the codes, side by side."""
    ends: dict[str, FloatArray]
    """By category: where the interval of each code of `order` ends."""
    factor: FloatArray
    """The lower triangle whose square is the correlation, (D, D): categories, then numbers."""

    def _learn(self, table: JobTable, later: JobTable, training: Training) -> dict[str, Any]:
        rng = np.random.default_rng(training.seed)
        table = JobTable.joined([table, later])
        scores = scores_at(_middle_places(table.numbers[RUN]))
        self.order, self.ends = {}, {}
        for each in self.columns.categories:
            self.order[each.name] = _order(each, table.codes[each.name], scores)
            counts = np.bincount(table.codes[each.name], minlength=len(each))[self.order[each.name]]
            self.ends[each.name] = counts.cumsum() / counts.sum()
        if len(table) > _MOST_ROWS:
            table = table.rows(np.sort(rng.choice(len(table), _MOST_ROWS, replace=False)))
        low, high = self._intervals(table)
        correlation = _correlation(low, high, self.settings.rounds, rng, training)
        self.factor = np.linalg.cholesky(correlation).astype(np.float64)
        return {"rounds": self.settings.rounds}

    def _draw(self, count: int, start_ms: int, rng: np.random.Generator, drawing: Drawing) -> JobTable:
        places = places_of(rng.standard_normal((count, len(self.factor))) @ self.factor.T)  # (count, D)
        codes = {}
        for place, each in enumerate(self.columns.categories):
            ends, order = self.ends[each.name], self.order[each.name]
            codes[each.name] = order[np.minimum(np.searchsorted(ends, places[:, place], "right"), len(order) - 1)]
        first = len(codes)
        numbers = {
            each.name: each.from_uniform(places[:, first + place])
            for place, each in enumerate(self.columns.numbers)
        }
        drawing.tell(count)
        return JobTable(codes, numbers)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        order = {f"order/{name}": values for name, values in self.order.items()}
        return {"factor": self.factor, **order, **{f"ends/{name}": values for name, values in self.ends.items()}}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        categories = self.columns.categories
        self.factor = arrays["factor"]
        self.order = {each.name: arrays[f"order/{each.name}"] for each in categories}
        self.ends = {each.name: arrays[f"ends/{each.name}"] for each in categories}
        size = len(categories) + len(self.columns.numbers)
        if self.factor.shape != (size, size):
            raise ValueError(f"the correlation is of {len(self.factor)} columns and not of {size}")
        if any(sorted(self.order[each.name]) != list(range(len(each))) for each in categories):
            raise ValueError("an order of labels is not complete")

    def _intervals(self, table: JobTable) -> tuple[FloatArray, FloatArray]:
        """Return between which scores each job lies in each column, each (N, D)."""
        low, high = [], []
        for each in self.columns.categories:
            ranks = np.argsort(self.order[each.name])[table.codes[each.name]]
            ends = np.concatenate([[0.0], self.ends[each.name]])
            low.append(ends[ranks])
            high.append(ends[ranks + 1])
        for number in self.columns.numbers:
            least, most = _places(table.numbers[number.name])
            low.append(least)
            high.append(most)
        return scores_at(np.stack(low, axis=1)), scores_at(np.stack(high, axis=1))


def _places(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the shares of values below, and not above, each value."""
    known = np.sort(values)
    below = np.searchsorted(known, values, "left") / len(values)
    return below, np.searchsorted(known, values, "right") / len(values)


def _middle_places(values: FloatArray) -> FloatArray:
    below, reached = _places(values)
    return (below + reached) / 2


def _order(category: Category, codes: IntArray, scores: FloatArray) -> IntArray:
    """Return the codes in the order of their numbers, or where they have none, of their jobs' mean score."""
    if category.ordered:
        return np.arange(len(category))
    sums = np.bincount(codes, scores, minlength=len(category))
    means = sums / np.maximum(np.bincount(codes, minlength=len(category)), 1)
    return np.argsort(means, kind="stable")


def _correlation(
    low: FloatArray, high: FloatArray, rounds: int, rng: np.random.Generator, training: Training
) -> FloatArray:
    """Return the correlation of scores of which only the intervals are known, (D, D)."""
    columns = low.shape[1]
    scores = scores_at(places_of(low) + (places_of(high) - places_of(low)) * rng.random(low.shape))
    total = np.zeros((columns, columns))
    for done in range(rounds):
        correlation = _regular_correlation(scores)
        precision = np.linalg.inv(correlation)
        for column in range(columns):
            spread = precision[column, column] ** -0.5
            others = scores @ precision[column] - scores[:, column] * precision[column, column]
            middle = -others * spread**2
            least, most = ((edge[:, column] - middle) / spread for edge in (low, high))
            place = places_of(least) + (places_of(most) - places_of(least)) * rng.random(len(scores))
            drawn = middle + spread * scores_at(place)
            scores[:, column] = np.clip(drawn, low[:, column], high[:, column])
        if done >= rounds // 2:
            total += _regular_correlation(scores)
        training.tell(done + 1, rounds)
    return total / (rounds - rounds // 2)


def _regular_correlation(scores: FloatArray) -> FloatArray:
    """Return a correlation that can be inverted: columns that say the same are told apart a little."""
    spread = np.maximum(scores.std(axis=0), 1e-9)
    standard = (scores - scores.mean(axis=0)) / spread
    correlation = standard.T @ standard / len(scores)
    np.fill_diagonal(correlation, 1.0)
    regular: FloatArray = (correlation + _RIDGE * np.eye(len(correlation))) / (1 + _RIDGE)
    return regular
