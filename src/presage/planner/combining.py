"""Distributions of what follows from several amounts that are not known exactly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from presage.estimators.spread import Spread

if TYPE_CHECKING:
    from collections.abc import Callable


def combine(function: Callable[..., float], *amounts: Spread) -> Spread:
    """Return the distribution of a function, nowhere below 0, of independent amounts.

    Its median is that of the medians. What each amount alone would change between its p10 and p90 is added as
    the root of the squares, so that for a sum this is `presage.estimators.spread.total`.
    """
    medians = [amount.p50 for amount in amounts]
    middle = function(*medians)
    below, above = [0.0], [0.0]
    for index, amount in enumerate(amounts):
        changes = [
            function(*medians[:index], edge, *medians[index + 1 :]) - middle
            for edge in (amount.p10, amount.p90)
            if edge != amount.p50
        ]
        below.append(min(0.0, *changes, 0.0))
        above.append(max(0.0, *changes, 0.0))
    return Spread(max(0.0, middle - math.hypot(*below)), middle, middle + math.hypot(*above))


def transform(function: Callable[[float], float], amount: Spread) -> Spread:
    """Return the distribution of a function, nowhere falling or below 0, of one amount."""
    return Spread(function(amount.p10), function(amount.p50), function(amount.p90))
