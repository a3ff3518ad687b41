"""Turning numbers into surprise: causal tails, and streaks of events that are more common than usual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.anomalies._base import HIGHEST_SCORE

if TYPE_CHECKING:
    from presage.foundation.anomalies._history import Bools, Floats, Ints

DAY_MS = 86_400_000.0
_FIRST_BLOCK = 300
_COMMON = 0.975
_PRIOR_WEIGHT = 100
_ROUNDS = 30
_EQUAL = 1e-4  # of sums of gains; beyond what their rounding adds up to
ODDS = (0.2, 0.5, 0.9)
"""How likely events are during a streak: the alternatives that are tried."""


def tail_surprise(values: Floats, time: Floats, *, usual: float, scale: float) -> Floats:
    """Return -log10 of how often a value is as large, judged by the values of earlier times; nan stays nan.

    Beyond the value that one in 40 exceeds, an exponential tail is assumed, whose scale is the mean excess of
    earlier values, the largest of which count only up to what one in 1000 reaches. `usual` and `scale` stand for
    these two at the beginning, with a weight of 100 values. Values are judged in blocks, each as long as all
    before it: a block does not know itself.
    """
    surprise = np.full(len(values), np.nan)
    told = np.flatnonzero(np.isfinite(values) & np.isfinite(time))
    order = told[np.argsort(time[told], kind="stable")]
    ordered = values[order]
    begin, end = 0, _FIRST_BLOCK
    while begin < len(order):
        threshold, excess = _tail(ordered[:begin], usual, scale)
        beyond = np.maximum(ordered[begin:end] - threshold, 0) / excess
        surprise[order[begin:end]] = np.where(beyond > 0, -np.log10(1 - _COMMON) + beyond / np.log(10), 0)
        begin, end = end, 2 * end
    return surprise


def _tail(earlier: Floats, usual: float, scale: float) -> tuple[float, float]:
    weight = len(earlier) / (len(earlier) + _PRIOR_WEIGHT)
    if not len(earlier):
        return usual, scale
    threshold, highest = np.quantile(earlier, [_COMMON, 0.999])
    beyond = np.minimum(earlier[earlier > threshold], highest)
    excess = float(np.mean(beyond - threshold)) if len(beyond) else scale
    # A site whose values hardly differ has no tail to extrapolate from: half of the usual one is the least.
    threshold = max(float(threshold), usual / 2)
    return weight * threshold + (1 - weight) * usual, max(weight * excess + (1 - weight) * scale, scale / 2)


def looked_at(time: Floats, among: Bools) -> Floats:
    """Return log10 of how many of those `among` had been looked at per day until each entry, at least 0."""
    times = np.sort(time[among & np.isfinite(time)])
    if not len(times):
        return np.zeros(len(time))
    days = np.maximum((time - times[0]) / DAY_MS, 1.0)
    return np.asarray(np.log10(np.maximum(np.searchsorted(times, time, side="right") / days, 1.0)))


def odds_ratio(rate: float, usual: float) -> float:
    """Return how many times the usual odds those of a rate are."""
    rate, usual = (min(max(each, 1e-3), 1 - 1e-3) for each in (rate, usual))
    return rate / (1 - rate) / (usual / (1 - usual))


@dataclass(frozen=True)
class Streak:
    """Consecutive entries of one group, from `first` to `last` in the order given, in which events abound."""

    first: int
    last: int
    score: float


def streaks(group: Ints, event: Bools, expected: Floats, price: Floats, min_score: float) -> list[Streak]:
    """Return stretches in which events are more common than expected, the highest score of overlapping ones.

    Entries are sorted by group and then by time. `expected` is the probability of the event that could be told
    before each entry. The evidence of a stretch is its likelihood ratio: how much better a constant high
    probability (one of `ODDS`) explains it than the expected ones. Ordinary work exceeds a ratio of x with a
    probability of at most 1/x from any one beginning (Ville's inequality), so the score is log10 of the ratio
    less `price`, log10 of the number of beginnings per day (see `looked_at`), and less log10 of the number of
    alternatives.
    """
    probability = np.clip(expected, 1e-4, 1 - 1e-4)
    price = price + np.log10(len(ODDS))
    found: list[Streak] = []
    for odds in ODDS:
        gain = np.where(event, np.log10(odds / probability), np.log10((1 - odds) / (1 - probability)))
        found += _excursions(group, gain, price, min_score)
    found.sort(key=lambda streak: (-streak.score, streak.first, streak.last))
    taken: list[Streak] = []
    occupied = np.zeros(len(group), np.bool_)
    for streak in found:
        stretch = slice(streak.first, streak.last + 1)
        if not occupied[stretch].any():
            occupied[stretch] = True
            taken.append(streak)
    return taken


def _excursions(group: Ints, gain: Floats, price: Floats, min_score: float) -> list[Streak]:
    """Return the stretches in which the sum of gains climbs from its lowest point, up to their peaks."""
    found: list[Streak] = []
    rows, part = np.arange(len(group)), group
    for _ in range(_ROUNDS):
        if not len(rows):
            break
        climb, begins = _climb(part, gain[rows])
        value = np.where(climb > 0, climb - price[rows], -np.inf)
        peaks = np.maximum.reduceat(value, begins)
        lengths = np.diff(np.append(begins, len(rows)))
        high = np.repeat(peaks >= min_score, lengths)
        if not high.any():
            break
        stretch = np.repeat(np.arange(len(begins)), lengths)
        at_peak = high & (value == np.repeat(peaks, lengths))
        places = np.flatnonzero(at_peak)
        _, once = np.unique(stretch[places], return_index=True)
        tops = places[once]  # the first entry at the peak of each stretch
        found += [
            Streak(int(rows[begins[stretch[top]]]), int(rows[top]), min(float(value[top]), HIGHEST_SCORE))
            for top in tops
        ]
        # What comes behind a peak is looked at again, as if it began there.
        top_of = np.full(len(begins), len(rows))
        top_of[stretch[tops]] = tops
        rest = np.arange(len(rows)) > top_of[stretch]
        rows, part = rows[rest], stretch[rest]
    return found


def _climb(group: Ints, gain: Floats) -> tuple[Floats, Ints]:
    """Return how far the sum of gains is above its lowest point so far in the group, and where stretches begin.

    A stretch begins behind each new lowest point, and with each group.
    """
    opens = np.r_[True, group[1:] != group[:-1]]
    number = np.cumsum(opens) - 1
    total = np.cumsum(gain)
    base = (total - gain)[opens][number]
    inside = total - base
    # Shifting each group below all earlier ones lets one running minimum serve them all.
    shift = number * (2 * float(np.abs(inside).max()) + 1)
    lowest = np.minimum.accumulate(np.minimum(inside, np.where(opens, 0, np.inf)) - shift) + shift
    climb = inside - lowest
    low = climb <= _EQUAL
    begins = np.flatnonzero(opens | np.r_[False, low[:-1]])
    return np.where(low, 0.0, climb), begins
