"""An estimate that says how sure it is: three quantiles, and the distribution that goes through them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_Z90 = NormalDist().inv_cdf(0.9)
_TINY = 1e-9


@dataclass(frozen=True)
class Spread:
    """A positive amount that is not known exactly: below p10, p50 and p90 with these chances.

    Between and beyond the three it is lognormal, with a width of its own on each side of the median. Raises
    ValueError unless 0 <= p10 <= p50 <= p90 and all are finite.
    """

    p10: float
    p50: float
    p90: float

    def __post_init__(self) -> None:
        if not 0 <= self.p10 <= self.p50 <= self.p90 < math.inf:
            raise ValueError(f"{self.p10}, {self.p50}, {self.p90} are no quantiles in rising order from 0 up")

    @classmethod
    def exactly(cls, amount: float) -> Spread:
        """Return an amount that is certain."""
        return cls(amount, amount, amount)

    @classmethod
    def around(cls, median: float, factor: float) -> Spread:
        """Return an amount that lies within a factor of its median in 80 % of cases."""
        return cls(median / factor, median, median * factor)

    def quantile(self, share: float) -> float:
        """Return the amount that is not exceeded with this chance, `0 < share < 1`."""
        if self.p50 <= 0:  # as of a wait that is mostly none: straight up to p90, and on
            return 0.0 if share <= 0.5 else self.p90 * (share - 0.5) / 0.4
        z = NormalDist().inv_cdf(share)
        edge = self.p90 if z > 0 else self.p10
        step = abs(math.log(max(edge, _TINY) / self.p50)) / _Z90
        return self.p50 * math.exp(z * step)

    def chance_above(self, amount: float) -> float:
        """Return the chance of more than `amount`."""
        if amount < 0:
            return 1.0
        if self.p50 <= 0:
            return 0.5 if amount <= 0 < self.p90 else max(0.0, 0.5 - 0.4 * amount / max(self.p90, _TINY))
        edge = self.p90 if amount > self.p50 else self.p10
        step = abs(math.log(max(edge, _TINY) / self.p50)) / _Z90
        if step < _TINY:
            return 1.0 if amount < self.p50 else 0.0
        return 1.0 - NormalDist().cdf(math.log(max(amount, _TINY) / self.p50) / step)

    def times(self, factor: float) -> Spread:
        """Return the amount multiplied by something certain and positive."""
        return Spread(self.p10 * factor, self.p50 * factor, self.p90 * factor)

    def plus(self, amount: float) -> Spread:
        """Return the amount and something certain."""
        return Spread(self.p10 + amount, self.p50 + amount, self.p90 + amount)

    def as_dict(self) -> dict[str, float]:
        """Return the quantiles by name."""
        return {"p10": self.p10, "p50": self.p50, "p90": self.p90}


def total(spreads: Iterable[Spread]) -> Spread:
    """Return the sum of independent amounts: medians add, and distances from them as the root of their squares."""
    parts = list(spreads)
    median = sum(part.p50 for part in parts)
    below = math.hypot(*(part.p50 - part.p10 for part in parts))
    above = math.hypot(*(part.p90 - part.p50 for part in parts))
    return Spread(max(0.0, median - below), median, median + above)
