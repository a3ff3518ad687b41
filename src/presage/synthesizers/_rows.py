"""Jobs as rows that a network can see: a few blocks of which one place is on, and numbers from -1 to 1.

Each category is a block. Each number is a block too, which says its mode, and its place in that mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.synthesizers._modes import Modes
from presage.synthesizers._normal import places_of, scores_at
from presage.synthesizers.columns import JobTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers.columns import Columns, FloatArray, IntArray, Number


@dataclass(frozen=True)
class Rows:
    """How the jobs of a log become rows, and rows jobs."""

    columns: Columns
    modes: dict[str, Modes]
    """By number."""
    straight: bool = False
    """Whether numbers are made normal by their ranks first; if not, they are taken as logarithms."""

    @classmethod
    def fit(cls, columns: Columns, table: JobTable, most_modes: int, rng: np.random.Generator) -> Rows:
        """Return rows whose numbers are logarithms of at most `most_modes` modes."""
        modes = {
            each.name: Modes.fit(np.log1p(table.numbers[each.name]), most_modes, rng) for each in columns.numbers
        }
        return cls(columns, modes)

    @classmethod
    def straightened(cls, columns: Columns) -> Rows:
        """Return rows whose numbers are normal scores."""
        return cls(columns, {each.name: Modes.one() for each in columns.numbers}, straight=True)

    @property
    def widths(self) -> tuple[int, ...]:
        """How many values each block has: categories first, then the modes of numbers."""
        categories = [len(each) for each in self.columns.categories]
        return (*categories, *(len(self.modes[each.name]) for each in self.columns.numbers))

    def encode(self, table: JobTable, rng: np.random.Generator) -> tuple[IntArray, NDArray[np.float32]]:
        """Return which place of each block is on (N, blocks), and where the numbers are (N, numbers)."""
        coded = {
            each.name: self.modes[each.name].encode(self._spread(each, table, rng), rng)
            for each in self.columns.numbers
        }
        codes = [table.codes[each.name] for each in self.columns.categories]
        codes += [modes for modes, _ in coded.values()]
        places = np.stack([places for _, places in coded.values()], axis=1)
        return np.stack(codes, axis=1), places.astype(np.float32)

    def decode(self, codes: IntArray, places: FloatArray) -> JobTable:
        """Return the jobs of rows; no number lies beyond those of the log."""
        categories = self.columns.categories
        numbers = {}
        for place, each in enumerate(self.columns.numbers):
            values = self.modes[each.name].decode(codes[:, len(categories) + place], places[:, place])
            numbers[each.name] = self._gathered(each, values)
        return JobTable({each.name: codes[:, place] for place, each in enumerate(categories)}, numbers)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what `restored` takes."""
        return {
            f"modes/{name}": np.stack([each.middles, each.spreads, each.shares])
            for name, each in self.modes.items()
        }

    @classmethod
    def restored(cls, columns: Columns, arrays: dict[str, NDArray[Any]], *, straight: bool = False) -> Rows:
        """Return the rows of `arrays`; KeyError and ValueError mean that they are damaged."""
        modes = {}
        for each in columns.numbers:
            middles, spreads, shares = arrays[f"modes/{each.name}"]
            modes[each.name] = Modes(middles, spreads, shares)
        return cls(columns, modes, straight)

    def _spread(self, number: Number, table: JobTable, rng: np.random.Generator) -> FloatArray:
        values = table.numbers[number.name]
        return scores_at(number.to_uniform(values, rng)) if self.straight else np.log1p(values)

    def _gathered(self, number: Number, values: FloatArray) -> FloatArray:
        if self.straight:
            return number.from_uniform(places_of(values))
        return number.rounded(np.clip(np.expm1(values), number.knots[0], number.knots[-1]))


def one_hot(codes: IntArray, widths: tuple[int, ...]) -> NDArray[np.float32]:
    """Return the blocks of rows written out, (N, sum of widths)."""
    row = np.zeros((len(codes), sum(widths)), np.float32)
    row[np.arange(len(codes))[:, None], codes + block_starts(widths)] = 1
    return row


def drawn_codes(scores: NDArray[np.float32], widths: tuple[int, ...], rng: np.random.Generator) -> IntArray:
    """Return a place of each block, drawn by the softmax of its scores (N, sum of widths)."""
    # The largest of scores with Gumbel noise is a draw from their softmax.
    noisy = scores - np.log(-np.log(np.maximum(rng.random(scores.shape, np.float32), 1e-12)))
    starts = block_starts(widths)
    drawn = [noisy[:, start : start + width].argmax(axis=1) for start, width in zip(starts, widths, strict=True)]
    return np.stack(drawn, axis=1)


def block_starts(widths: tuple[int, ...]) -> IntArray:
    """Return where each block begins."""
    starts: IntArray = np.concatenate([[0], np.cumsum(widths)[:-1]]).astype(np.int64)
    return starts
