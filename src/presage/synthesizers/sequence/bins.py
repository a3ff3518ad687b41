"""Numbers as words: ranges of about equally many values; one that many jobs have is a range of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from presage.synthesizers.columns import FloatArray, IntArray


@dataclass(frozen=True)
class Bins:
    """Ranges of a number: range i holds what is above `high[i - 1]`, up to `high[i]`, and begins at `low[i]`."""

    low: FloatArray
    high: FloatArray

    @classmethod
    def fit(cls, values: FloatArray, most: int) -> Bins:
        """Return at most `most` ranges, which is at least two, of about equally many of `values`."""
        ordered = np.sort(values)
        high = np.unique(ordered[np.rint(np.linspace(1, len(ordered), most)).astype(int) - 1])
        places = np.searchsorted(ordered, high, "right")
        # The least value that is really in a range, so that none is drawn between two that people use.
        low = ordered[np.concatenate([[0], places[:-1]])]
        return cls(low, high)

    @classmethod
    def public(cls, longest: float, most: int) -> Bins:
        """Return at most `most` ranges of whole numbers up to `longest`, wider the larger, whatever the log."""
        high = np.unique(np.rint(np.expm1(np.linspace(0, np.log1p(longest), most))))
        return cls(np.concatenate([[0.0], high[:-1] + 1]), high)

    def __len__(self) -> int:
        return len(self.low)

    def encode(self, values: FloatArray) -> IntArray:
        """Return the range of each value; beyond the last it is the last."""
        return np.minimum(np.searchsorted(self.high, values, "left"), len(self) - 1)


def draw_between(low: FloatArray, high: FloatArray, places: FloatArray) -> FloatArray:
    """Return whole numbers from `low` to `high`, at `places` in [0, 1] of their logarithm."""
    # From half a unit below to half a unit above, so that both ends are as likely as what lies between.
    log_low, log_high = np.log(low + 0.5), np.log(high + 1.5)
    values = np.floor(np.exp(log_low + (log_high - log_low) * places) - 0.5)
    return np.minimum(np.maximum(values, low), high)


def draw_below(low: FloatArray, high: FloatArray, most: FloatArray, places: FloatArray) -> FloatArray:
    """Return the same for ranges of which what is above `most` is cut off."""
    low = np.minimum(low, most)
    return draw_between(low, np.maximum(np.minimum(high, most), low), places)
