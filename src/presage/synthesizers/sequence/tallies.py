"""Tallies: how often users had each word so far, beside how often they should have had it.

Words that are drawn job by job have the right shares on average. But a user's thousand jobs may come in three
bursts of one limit each, and then they are as far from what is usual for that user as three throws of a die are.
The price: of few jobs the most usual words are nearest to what is usual, so that users with few become too usual.

Letters in shapes: C drafts, N jobs, F fields, W words of all fields, B blocks of words of which a job has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from presage.synthesizers.columns import Columns, FloatArray, IntArray
    from presage.synthesizers.sequence.fields import Fields, Flags
    from presage.synthesizers.sequence.forward import Weights


class Tally:
    """How many jobs more than is usual users have with each word. Those of whom the same is usual share one."""

    def __init__(self, shares: FloatArray, sizes: IntArray, blocks: IntArray, ordered: Flags) -> None:
        """Begin with no jobs.

        `shares` (users, W) says how often users have each word of a block, `sizes` (F,) and `blocks` (B,) how many
        words fields and blocks have, which are at least one, and `ordered` (B,) whether these are numbers that
        ascend. A field has one block or more: words of which the plan says how often they come are a block.
        """
        self._shares, row = np.unique(shares, axis=0, return_inverse=True)
        self._row = row.reshape(-1)
        self._excess = np.zeros(self._shares.shape)
        self._first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self._blocks = blocks
        self._ordered = np.repeat(ordered, blocks)

    @classmethod
    def of(cls, weights: Weights, fields: Fields, columns: Columns) -> Tally:
        """Return one for the users of a network, the last of them being nobody in particular."""
        gaps = (len(fields.gap), len(fields.first))
        blocks = np.array([*gaps, *fields.sizes[1:]])
        ordered = np.array([True, True, *(values is not None for values in fields.values(columns)[1:])])
        usual = np.concatenate([weights.arrays[f"usual.{place}"] for place in range(len(fields.names))], axis=1)
        shares = np.exp(usual, dtype=np.float64)
        shares /= _of_blocks(shares, blocks)
        return cls(shares, np.array(fields.sizes), blocks, ordered)

    def after(self, user: int, words: IntArray) -> FloatArray:
        """Return the excess of a user after each of several drafts of the next jobs, `words` (N, C, F): (C, W)."""
        drafts = words.shape[1]
        row, width = self._row[user], self._shares.shape[1]
        cells = words + self._first + (width * np.arange(drafts))[:, None]
        had = np.bincount(cells.ravel(), minlength=drafts * width).reshape(drafts, width).astype(np.float64)
        excess: FloatArray = self._excess[row] + had - _of_blocks(had, self._blocks) * self._shares[row]
        return excess

    def distance(self, user: int, excess: FloatArray) -> FloatArray:
        """Return how many jobs would have to be others for a block to be as is usual, summed over blocks: (C,).

        Numbers count by the mean difference of the two distributions, where the user's lie.
        """
        shares = self._shares[self._row[user]]
        # Between a word and the next. What a block has too many of one word it has too few of others: the sum at
        # its end is 0, so that the next one's begin with 0.
        between = (shares + np.append(shares[1:], 0.0)) / 2
        below = np.abs(np.cumsum(excess, axis=1)) @ np.where(self._ordered, between, 0.0)
        distance: FloatArray = below + np.abs(excess) @ np.where(self._ordered, 0.0, 0.5)
        return distance

    def take_up(self, user: int, excess: FloatArray) -> None:
        """Let `excess` (W,), of a draft that is kept, be what the user has."""
        self._excess[self._row[user]] = excess


def _of_blocks(values: FloatArray, blocks: IntArray) -> FloatArray:
    """Return for each word what all words of its block have together."""
    sums = np.add.reduceat(values, np.cumsum(blocks) - blocks, axis=1)
    repeated: FloatArray = np.repeat(sums, blocks, axis=1)
    return repeated
