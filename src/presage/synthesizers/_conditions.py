"""Which value of which category a row must have: the conditional vector and training by sampling of CTGAN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from presage.synthesizers._rows import block_starts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers.columns import IntArray


class Conditions:
    """How often each value of each category occurs, and in a training also where."""

    def __init__(self, widths: tuple[int, ...], counts: NDArray[Any]) -> None:
        if counts.shape != (sum(widths),) or (widths and not (counts >= 0).all()):
            raise ValueError("the counts of values are of other columns")
        self.widths = widths
        self.counts = counts
        """By value, one category after the other."""
        self._starts = block_starts(widths) if widths else np.zeros(0, np.int64)
        self._order = np.zeros((0, len(widths)), np.int64)

    @classmethod
    def fit(cls, codes: IntArray, widths: tuple[int, ...]) -> Conditions:
        """Return the values of the first blocks of rows, (N, at least the number of `widths`)."""
        counts = [np.bincount(codes[:, block], minlength=width) for block, width in enumerate(widths)]
        found = cls(widths, np.concatenate(counts) if counts else np.zeros(0, np.int64))
        found._order = np.argsort(codes, axis=0, kind="stable")
        return found

    def draw(self, count: int, rng: np.random.Generator, *, rare: bool) -> tuple[IntArray, IntArray]:
        """Return a category and a value of it for each of `count` rows, as often as in the log.

        `rare`: by the logarithm of how often, so that rare values come more often.
        """
        blocks = rng.integers(0, max(len(self.widths), 1), count)
        values = np.zeros(count, np.int64)
        for block in range(len(self.widths)):
            counts = self._counts(block)
            weights = (np.log1p(counts) if rare else counts).cumsum()
            chosen = blocks == block
            drawn = np.searchsorted(weights, rng.random(int(chosen.sum())) * weights[-1], "right")
            values[chosen] = np.minimum(drawn, int(np.flatnonzero(counts)[-1]))
        return blocks, values

    def rows_with(self, blocks: IntArray, values: IntArray, rng: np.random.Generator) -> IntArray:
        """Return a row of the log that has each of these values, any of them."""
        if not self.widths:
            return rng.integers(0, len(self._order), len(blocks))
        places = np.zeros(len(blocks), np.int64)
        for block in range(len(self.widths)):
            counts, chosen = self._counts(block), blocks == block
            firsts = np.concatenate([[0], counts.cumsum()[:-1]])
            wanted = values[chosen]
            which = firsts[wanted] + (rng.random(len(wanted)) * counts[wanted]).astype(np.int64)
            places[chosen] = self._order[which, block]
        return places

    def written(self, blocks: IntArray, values: IntArray) -> NDArray[np.float32]:
        """Return the values as rows of which one place is on, (N, C)."""
        given = np.zeros((len(blocks), len(self.counts)), np.float32)
        if self.widths:
            given[np.arange(len(blocks)), self._starts[blocks] + values] = 1
        return given

    def _counts(self, block: int) -> IntArray:
        start = int(self._starts[block])
        counts: IntArray = self.counts[start : start + self.widths[block]]
        return counts
