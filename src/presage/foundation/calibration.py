"""Intervals that keep their word: the outcomes of earlier forecasts widen or narrow the next ones.

Each end of the interval follows its own misses: after a miss it moves out by a step, after every hit it moves back
by a ninth of one, so that in the long run one outcome in ten lies beyond it, whatever the cluster does. A job that
still waits when its upper end has passed is a miss at that moment, long before it starts: otherwise the longest
waits, which become known last, would be the last to be learnt from.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

BEYOND = 0.1
"""The share of outcomes that may lie beyond each end."""
STEP = 0.05
LONGEST = 30.0
"""Log seconds; longer than any log."""
NARROWEST = 0.1
"""Ends are moved in units of their distance from the median, but of no less than this (log seconds)."""


@dataclass
class IntervalTracker:
    """How far the two ends of a forecast's interval are moved, and how forecasts fared so far."""

    low: float = 0.0
    high: float = 0.0
    step: float = STEP
    resolved: int = 0
    missed_low: int = 0
    missed_high: int = 0

    def adjust(self, low: float, median: float, high: float) -> tuple[float, float]:
        """Return the ends of an interval, moved; in log seconds, around the same median."""
        moved_low = low - self.low * max(median - low, NARROWEST)
        moved_high = high + self.high * max(high - median, NARROWEST)
        return max(min(moved_low, median), 0.0), max(moved_high, median)

    def learn(self, *, below: bool, above: bool) -> None:
        """Take in how one forecast fared."""
        self.low += self.step * (below - BEYOND)
        self.high += self.step * (above - BEYOND)
        self.resolved += 1
        self.missed_low += below
        self.missed_high += above

    @property
    def coverage(self) -> float | None:
        """The share of resolved forecasts whose outcome lay inside; None before the first."""
        return 1 - (self.missed_low + self.missed_high) / self.resolved if self.resolved else None


def track(
    quantiles: Floats,
    asked_s: Floats,
    since_s: Floats,
    outcomes_s: Floats,
    is_censored: NDArray[np.bool_],
    *,
    until_s: float | None = None,
    tracker: IntervalTracker | None = None,
) -> tuple[Floats, IntervalTracker]:
    """Return forecasts (n by p10, p50, p90 in log seconds, ordered by `asked_s`), recalibrated one by one.

    Durations begin at `since_s` (infinite: never) and take `outcomes_s`, or were seen to last so long if censored.
    Each forecast is made with what was known strictly before it was asked for; the tracker that is returned has
    learnt from all that was known before `until_s` (default: before the last question).
    """
    tracker = tracker or IntervalTracker()
    adjusted = quantiles.copy()
    pending: list[tuple[float, int, bool]] = []  # when it is resolved, which, whether by passing its upper end

    def resolve(now_s: float) -> None:
        while pending and pending[0][0] < now_s:
            _, done, too_long = heapq.heappop(pending)
            is_below = not too_long and bool(outcomes_s[done] < np.floor(np.expm1(adjusted[done, 0])))
            tracker.learn(below=is_below, above=too_long)

    for row, now_s in enumerate(asked_s):
        resolve(now_s)
        low, high = tracker.adjust(*quantiles[row])
        adjusted[row, 0], adjusted[row, 2] = low, high
        longest_s = float(np.ceil(np.expm1(min(high, LONGEST))))
        too_long = bool(outcomes_s[row] > longest_s)
        if too_long or not is_censored[row]:
            resolved_s = float(since_s[row] + min(outcomes_s[row], longest_s))
            heapq.heappush(pending, (resolved_s, row, too_long))
    if until_s is not None:
        resolve(until_s)
    return adjusted, tracker
