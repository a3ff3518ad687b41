"""Small statistics that the kernels share."""

from __future__ import annotations

import numpy as np

from presage.foundation.view._compiling import inner, lean


@lean
def quantile(ordered: np.ndarray, count: int, level: float) -> float:
    """Return a quantile of the first `count` of an ascending array; -1 of none."""
    if count == 0:
        return -1.0
    place = level * (count - 1)
    low = int(place)
    part = place - low
    if low + 1 < count:
        return ordered[low] * (1 - part) + ordered[low + 1] * part
    return ordered[count - 1]


@inner
def write_spread(out: np.ndarray, at: int, values: np.ndarray, count: int) -> None:
    """Sort the first `count` values in place, and write their five quantiles."""
    values[:count].sort()
    out[at] = quantile(values, count, 0.1)
    out[at + 1] = quantile(values, count, 0.25)
    out[at + 2] = quantile(values, count, 0.5)
    out[at + 3] = quantile(values, count, 0.75)
    out[at + 4] = quantile(values, count, 0.9)


@inner
def write_quartiles(out: np.ndarray, at: int, values: np.ndarray, count: int, if_none: float) -> None:
    """Sort the first `count` values in place, and write their quartiles."""
    values[:count].sort()
    for place, level in enumerate((0.25, 0.5, 0.75)):
        out[at + place] = quantile(values, count, level) if count else if_none


@lean
def insert(score: float, item: int, scores: np.ndarray, items: np.ndarray, count: int) -> int:
    """Put an item among the `len(scores)` of lowest score, kept ascending, and return how many there are now.

    Of equal scores the one that came first stays before.
    """
    room = len(scores)
    if count < room:
        place = count
        count += 1
    elif score < scores[room - 1]:
        place = room - 1
    else:
        return count
    while place > 0 and scores[place - 1] > score:
        scores[place] = scores[place - 1]
        items[place] = items[place - 1]
        place -= 1
    scores[place] = score
    items[place] = item
    return count


@lean
def share_in_common(left: int, right: int) -> float:
    """Return how many of the bits set in either number are set in both; 0 if none is set."""
    either = _bits(left | right)
    return _bits(left & right) / either if either else 0.0


@lean
def _bits(word: np.uint64) -> int:
    count = 0
    while word:
        word &= word - np.uint64(1)
        count += 1
    return count
