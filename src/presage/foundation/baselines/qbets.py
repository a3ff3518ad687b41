"""Bounds on waits that hold with a stated confidence, whatever their distribution."""

from __future__ import annotations

from bisect import insort
from collections import deque
from functools import lru_cache
from math import ceil, exp, lgamma, log, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.baselines._base import Baseline
from presage.foundation.baselines.similar import recent_waits_s
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from presage.foundation.baselines._base import Floats, Rows
    from presage.foundation.view.examples import Examples

CONFIDENCE = 0.95
WATCHED = 0.95
"""The quantile whose bound is watched: waits above it should be rare."""
RARE = 1e-3
"""A run of misses less likely than this means that the queue has changed."""
FEWEST_MISSES = 3
EXACT = 300
LOOKED_BACK = 1000
"""Waits that tell how alike successive ones are."""
FEWEST = 10
"""Waits of a class from which on it speaks for itself."""
_ASKED, _SUBMITTED, _STARTED = 0, 1, 2


class Qbets(Baseline):
    """The method of QBETS (Nurmi, Brevik and Wolski, 2007), one history for each queue, size and limit class.

    If waits are independent and alike, how many of n are below their quantile is binomial: so some order statistic
    is above the quantile with a given confidence. p10 is the lower and p90 the upper bound of their quantile, each
    with 95 %; the median is the bound that is as likely too low as too high. When so many waits in a row exceed
    the bound on their 95 % quantile that chance hardly explains it, the history is cut to the fewest waits that
    can give such a bound. How many that takes depends on how alike successive waits are.

    A class with hardly any history is taken for the last jobs of all.
    """

    name = "qbets"
    tasks = frozenset({Task.WAIT})

    def _durations(self, examples: Examples, rows: Rows, task: Task) -> Floats:
        bounds = _replay_bounds(examples, rows)
        return np.where(np.isnan(bounds), recent_waits_s(examples, rows), bounds)


class _Waits:
    """The waits of one class, and the misses of its bound."""

    def __init__(self) -> None:
        self._in_time: deque[float] = deque(maxlen=LOOKED_BACK)
        self._ordered: list[float] = []
        self._misses = 0

    def bounds(self) -> tuple[float, float, float]:
        """Return p10, p50 and p90; NaN where there is too little history."""
        waits, count = self._ordered, len(self._ordered)
        if count < FEWEST:
            return (float("nan"),) * 3
        low = count - rank_above(count, 0.9, CONFIDENCE)  # the same bound, counted from the other end
        return waits[low], waits[rank_above(count, 0.5, 0.5) - 1], waits[rank_above(count, 0.9, CONFIDENCE) - 1]

    def watched(self) -> float:
        """Return the bound that waits should rarely exceed; infinite where there is too little history."""
        count = len(self._ordered)
        return self._ordered[rank_above(count, WATCHED, CONFIDENCE) - 1] if count >= FEWEST else float("inf")

    def add(self, wait_s: float, promised_s: float) -> None:
        """Take in a wait and the bound that held for it when its job was submitted."""
        self._in_time.append(wait_s)
        insort(self._ordered, wait_s)
        if wait_s <= promised_s:
            self._misses = 0
            return
        self._misses += 1
        if self._misses >= FEWEST_MISSES and self._misses >= most_misses(self._alikeness()):
            self._trim()

    def _alikeness(self) -> float:
        """Return the correlation of the logarithms of successive waits before the misses, from 0 to 0.95."""
        logs = np.log1p(np.array(self._in_time)[: -self._misses])
        logs -= logs.mean() if len(logs) else 0.0
        power = float(logs @ logs)
        return min(max(float(logs[:-1] @ logs[1:]) / power, 0.0), 0.95) if power > 0 else 0.0

    def _trim(self) -> None:
        self._misses = 0
        while len(self._in_time) > fewest_for(WATCHED, CONFIDENCE):
            self._in_time.popleft()
        self._ordered = sorted(self._in_time)


def _replay_bounds(examples: Examples, rows: Rows) -> Floats:
    """Return (rows, 3): the bounds at the time of each question, NaN where there is too little history."""
    history, questions = examples.history, examples.questions
    started = np.flatnonzero(np.isfinite(history.start_s) & (history.end_s > history.start_s))
    submit_s, start_s = history.facts["submit_s"], history.start_s
    times = np.concatenate([questions.time_s[rows], submit_s[started], start_s[started]])
    kinds = np.repeat([_ASKED, _SUBMITTED, _STARTED], [len(rows), len(started), len(started)])
    items = np.concatenate([np.arange(len(rows)), started, started])
    # At one instant questions and submits come first: starts are known only after it.
    order = np.lexsort((kinds, times))
    klass, wait_s = history.facts["klass"], history.wait_s.tolist()
    asked_class = klass[questions.asked[rows]].tolist()
    waits: dict[int, _Waits] = {}
    promised: dict[int, float] = {}
    found = np.empty((len(rows), 3))
    for kind, item in zip(kinds[order].tolist(), items[order].tolist(), strict=True):
        own = waits.setdefault(asked_class[item] if kind == _ASKED else int(klass[item]), _Waits())
        if kind == _ASKED:
            found[item] = own.bounds()
        elif kind == _SUBMITTED:
            promised[item] = own.watched()
        else:
            own.add(wait_s[item], promised.pop(item))
    return found


@lru_cache(maxsize=100_000)
def rank_above(count: int, level: float, confidence: float) -> int:
    """Return the rank (from 1) of the first of `count` ordered values that bounds their quantile from above.

    With fewer values than the confidence takes it is the largest. Exact up to 300 values, by the normal
    distribution beyond.
    """
    if count > EXACT:
        spread = sqrt(count * level * (1 - level))
        return min(ceil(count * level + 0.5 + NormalDist().inv_cdf(confidence) * spread), count)
    below = 0.0
    for rank in range(1, count):
        below += _binomial(rank - 1, count, level)
        if below >= confidence - 1e-12:
            return rank
    return count


@lru_cache
def fewest_for(level: float, confidence: float) -> int:
    """Return how many values it takes for the largest of them to be such a bound."""
    return ceil(log(1 - confidence) / log(level))


def most_misses(alikeness: float) -> int:
    """Return how many misses in a row are too many, if a miss follows a miss the more likely the more alike."""
    chance = 1 - WATCHED
    again = chance + alikeness * (1 - chance)
    return max(1 + ceil(log(RARE / chance) / log(again)), FEWEST_MISSES)


def _binomial(hits: int, count: int, chance: float) -> float:
    ways = lgamma(count + 1) - lgamma(hits + 1) - lgamma(count - hits + 1)
    return exp(ways + hits * log(chance) + (count - hits) * log(1 - chance))
