"""How good predictions were, once it is known what happened."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from presage.estimators.spread import Spread

_TINY = 1e-9


@dataclass(frozen=True)
class Score:
    """The quality of some predictions."""

    count: int
    pinball_loss: float
    """Mean over the three quantiles of log(1 + amount), so that large jobs do not drown small ones."""
    coverage: float
    """Share of outcomes from p10 to p90; 0.8 is right."""
    median_ratio_error: float
    """Half of the medians were within this factor, less one: 0.1 is 10 % off."""

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers by name."""
        return asdict(self)


def score(pairs: Iterable[tuple[Spread, float]]) -> Score | None:
    """Return the score of predictions with what happened; None if there are none."""
    known = list(pairs)
    if not known:
        return None
    return Score(
        count=len(known),
        pinball_loss=fmean(pinball_loss(spread, actual) for spread, actual in known),
        coverage=fmean(spread.p10 <= actual <= spread.p90 for spread, actual in known),
        median_ratio_error=median(ratio_error(spread.p50, actual) for spread, actual in known),
    )


def pinball_loss(spread: Spread, actual: float) -> float:
    """Return how far the three quantiles are from the outcome, each weighted by the side it is on."""
    true = math.log1p(actual)
    losses = []
    for share, amount in ((0.1, spread.p10), (0.5, spread.p50), (0.9, spread.p90)):
        missing = true - math.log1p(amount)
        losses.append(share * missing if missing >= 0 else (share - 1) * missing)
    return fmean(losses)


def ratio_error(predicted: float, actual: float) -> float:
    """Return by which factor, less one, a prediction is off, on either side."""
    larger, smaller = max(predicted, actual), min(predicted, actual)
    if larger <= _TINY:
        return 0.0
    return larger / max(smaller, _TINY) - 1
