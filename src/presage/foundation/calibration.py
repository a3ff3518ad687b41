"""Intervals that keep their word: the outcomes of earlier forecasts widen or narrow the next ones.

Each end of the interval follows its own misses: after a miss it moves out by a step, after every hit it moves back
by a ninth of one, so that in the long run one outcome in ten lies beyond it, whatever the cluster does. After a
time with too many misses it moves back more slowly, until the share of all forecasts that held is right again.

What a job says about an end is known as soon as it has waited that long, or starts before. Otherwise the longest
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
STEP = 0.02
NEAREST, FURTHEST = -1.0, 10.0
"""How far an end is moved in and out at most, in units of its distance from the median."""
LONGEST = 30.0
"""Log seconds; longer than any log."""
SURE, REPAY = 500, 20.0
"""After SURE forecasts their coverage counts half; each point that it is off then changes the aim by a tenth."""
LEAST, MOST = 0.2, 1.8
"""How much less and more than BEYOND may be allowed for that."""
NARROWEST = 0.1
"""Ends are moved in units of their distance from the median, but of no less than this (log seconds)."""


@dataclass
class IntervalTracker:
    """How far the two ends of a forecast's interval are moved, and how forecasts fared so far."""

    low: float = 0.0
    high: float = 0.0
    step: float = STEP
    resolved_low: int = 0
    resolved_high: int = 0
    missed_low: int = 0
    missed_high: int = 0

    def adjust(self, low: float, median: float, high: float) -> tuple[float, float]:
        """Return the ends of an interval, moved; in log seconds, around the same median."""
        moved_low = low - self.low * max(median - low, NARROWEST)
        moved_high = high + self.high * max(high - median, NARROWEST)
        return max(min(moved_low, median), 0.0), max(moved_high, median)

    def learn_low(self, *, missed: bool) -> None:
        """Take in whether an outcome lay below its lower end."""
        self.low = _bounded(self.low + self.step * (missed - self._allowed()))
        self.resolved_low += 1
        self.missed_low += missed

    def learn_high(self, *, missed: bool) -> None:
        """Take in whether an outcome lay above its upper end."""
        self.high = _bounded(self.high + self.step * (missed - self._allowed()))
        self.resolved_high += 1
        self.missed_high += missed

    def _allowed(self) -> float:
        """Return the share that may lie beyond each end from now on: less after too many misses on either side.

        When thousands of jobs come at once and all fare alike, no forecast made before the first of them starts
        can learn from it. What was lost then is made good later.
        """
        coverage = self.coverage
        if coverage is None:
            return BEYOND
        experience = min(self.resolved_low, self.resolved_high) / (
            min(self.resolved_low, self.resolved_high) + SURE
        )
        return BEYOND * float(np.clip(1 + REPAY * experience * (coverage - 1 + 2 * BEYOND), LEAST, MOST))

    @property
    def coverage(self) -> float | None:
        """The share of forecasts so far whose outcome lay inside; None before the first."""
        if not self.resolved_low or not self.resolved_high:
            return None
        return 1 - self.missed_low / self.resolved_low - self.missed_high / self.resolved_high


def whole_s(ends_s: Floats) -> Floats:
    """Return the ends of intervals in the whole seconds that logs count in.

    To the nearest, not outwards: where waits are one to four seconds, intervals that were widened to whole seconds
    would hold too much however narrow they are.
    """
    return np.rint(ends_s)


def _bounded(moved: float) -> float:
    return min(max(moved, NEAREST), FURTHEST)


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
    lows: list[tuple[float, bool]] = []
    highs: list[tuple[float, bool]] = []
    for row, now_s in enumerate(asked_s):
        _resolve(tracker, lows, highs, now_s)
        low, high = tracker.adjust(*quantiles[row])
        adjusted[row, 0], adjusted[row, 2] = low, high
        low_s, high_s = whole_s(np.expm1([low, min(high, LONGEST)]))
        _expect(lows, since_s[row], outcomes_s[row], float(low_s), is_censored=bool(is_censored[row]))
        _expect(
            highs, since_s[row], outcomes_s[row], float(high_s), is_censored=bool(is_censored[row]), upper=True
        )
    if until_s is not None:
        _resolve(tracker, lows, highs, until_s)
    return adjusted, tracker


def _expect(
    pending: list[tuple[float, bool]], since_s: float, outcome_s: float, end_s: float, *, is_censored: bool,
    upper: bool = False,
) -> None:  # fmt: skip
    """Note when it will be known on which side of an end an outcome lies, and whether that is a miss.

    Known it is as soon as the duration passes the end, or is over before; never if it is lost sight of before.
    """
    passes = outcome_s > end_s if upper else outcome_s >= end_s
    if passes or not is_censored:
        heapq.heappush(pending, (since_s + min(outcome_s, end_s), passes if upper else not passes))


def _resolve(
    tracker: IntervalTracker, lows: list[tuple[float, bool]], highs: list[tuple[float, bool]], now_s: float
) -> None:
    while lows and lows[0][0] < now_s:
        tracker.learn_low(missed=heapq.heappop(lows)[1])
    while highs and highs[0][0] < now_s:
        tracker.learn_high(missed=heapq.heappop(highs)[1])
