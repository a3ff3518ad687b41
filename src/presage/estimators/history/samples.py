"""Quantiles of what comes next, from a few samples: the fewer there are, the wider they are.

Where there are enough samples, quantiles are order statistics: of n samples the k-th is not exceeded by the next
one with a chance of k / (n + 1), whatever the distribution. Beyond the outermost ones nothing is known without an
assumption; there they are those of a lognormal distribution whose width is learned from the samples and from a
prior (the Student distribution that a normal one with unknown variance has).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist, fmean, median
from typing import TYPE_CHECKING

from presage.estimators.spread import Spread

if TYPE_CHECKING:
    from collections.abc import Sequence

_Z90 = NormalDist().inv_cdf(0.9)
_PRIOR_SAMPLES = 2


@dataclass(frozen=True)
class Samples:
    """Positive amounts, and within which factor of the median 80 % of such amounts lie as a rule."""

    amounts: Sequence[float]
    factor: float
    most: float | None = None
    """What no quantile is above, unless a sample is."""

    def quantile(self, share: float) -> float:
        """Return what the next one will not exceed with this chance, `0 < share < 1`."""
        ordered = sorted(self.amounts)
        place = share * (len(ordered) + 1)
        if 1 <= place <= len(ordered):
            below = int(place)
            above = min(below, len(ordered) - 1)
            return ordered[below - 1] + (place - below) * (ordered[above] - ordered[below - 1])
        beyond = self._student(share)
        if share < 0.5:
            return min(ordered[0], beyond)
        bound = math.inf if self.most is None else max(self.most, ordered[-1])
        return min(max(ordered[-1], beyond), bound)

    def spread(self) -> Spread:
        """Return p10, p50 and p90."""
        middle = float(median(self.amounts))
        return Spread(min(self.quantile(0.1), middle), middle, max(self.quantile(0.9), middle))

    def _student(self, share: float) -> float:
        logs = [math.log(max(amount, 1e-9)) for amount in self.amounts]
        middle, count = fmean(logs), len(logs)
        prior = (math.log(self.factor) / _Z90) ** 2
        freedom = _PRIOR_SAMPLES + count - 1
        variance = (_PRIOR_SAMPLES * prior + sum((each - middle) ** 2 for each in logs)) / freedom
        return math.exp(middle + student_quantile(share, freedom) * math.sqrt(variance * (1 + 1 / count)))


def student_quantile(share: float, freedom: float) -> float:
    """Return a quantile of Student's distribution, right to 2 % for 2 and more degrees of freedom.

    It is the normal quantile with three terms of its expansion in the inverse of the degrees of freedom.
    """
    z = NormalDist().inv_cdf(share)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
