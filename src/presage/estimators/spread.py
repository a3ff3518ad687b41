"""An estimate that says how sure it is: three quantiles, and the distribution that goes through them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_Z90 = NormalDist().inv_cdf(0.9)


@dataclass(frozen=True)
class Spread:
    """A positive amount that is not known exactly: below p10, p50 and p90 with these chances.

    Between and beyond the three it is lognormal, with a width of its own on each side of the median; where p10 or
    p50 is 0, it is uniform on that side, as of waits that are often none. Raises
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

    def words(self, spell: Callable[[float], str]) -> str:
        """Return the median, with p10 and p90 where they read differently; `spell` writes one amount."""
        middle, low, high = (spell(amount) for amount in (self.p50, self.p10, self.p90))
        return middle if low == high else f"{middle} ({low} … {high})"

    def quantile(self, share: float) -> float:
        """Return the amount that is not exceeded with this chance, `0 < share < 1`."""
        z = NormalDist().inv_cdf(share)
        if z <= 0 and self.p10 <= 0:
            return self.p50 * max(0.0, share - 0.1) / 0.4
        if z > 0 and self.p50 <= 0:
            return self.p90 * (share - 0.5) / 0.4
        return self.p50 * math.exp(z * self._step(above=z > 0))

    def chance_above(self, amount: float) -> float:
        """Return the chance of more than `amount`."""
        if amount < self.p50:
            if self.p10 <= 0:
                return 1.0 if amount < 0 else 0.9 - 0.4 * amount / self.p50
            return 1.0 if amount <= 0 else 1.0 - self._share_below(amount)
        if self.p90 <= self.p50:
            return 0.0
        if self.p50 <= 0:
            return max(0.0, 0.5 - 0.4 * amount / self.p90)
        return 1.0 - self._share_below(amount)

    def _share_below(self, amount: float) -> float:
        step = self._step(above=amount >= self.p50)
        distance = math.log(amount) - math.log(self.p50)
        return NormalDist().cdf(distance / step) if step > 0 else float(distance >= 0)

    def _step(self, *, above: bool) -> float:
        """Return the standard deviation of the logarithm on one side of the median."""
        return (math.log(self.p90 / self.p50) if above else math.log(self.p50 / self.p10)) / _Z90

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
