"""Corrections: by what factor jobs of a kind took more or less than was predicted, and how much that scatters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

from presage.estimators.history.samples import Samples, student_quantile
from presage.estimators.repository.scoring import pinball_loss
from presage.estimators.spread import Spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    Pairs = Sequence[tuple[Spread, float]]
    """What was predicted without any correction, and what then happened."""

BELIEF = 1.0
"""So many jobs that went as predicted are what the model's own word counts for."""
LEAST_GAIN = 0.02
"""A correction must lower the loss by this share at least, or else it is not worth another version."""
SURE_SHARE = 0.95
"""The chance that a gain on the jobs it was not fitted on is no accident."""
_NARROWEST = 1e-3


@dataclass(frozen=True)
class Correction:
    """What is made of a prediction. Widths are logarithms of factors."""

    log_factor: float
    below: float
    """From the corrected median to what 10 % of jobs took less than."""
    above: float
    jobs: int
    """That it was fitted on."""

    @property
    def factor(self) -> float:
        """By what the median is multiplied."""
        return math.exp(self.log_factor)

    def applied(self, spread: Spread) -> Spread:
        """Return a prediction as it should have been; one of nothing stays as it is."""
        if spread.p50 <= 0:
            return spread
        below, above = _widths(spread)
        middle = spread.p50 * self.factor
        return Spread(
            middle * math.exp(-self._width(below, self.below)), middle,
            middle * math.exp(self._width(above, self.above)),
        )  # fmt: skip

    def _width(self, said: float, seen: float) -> float:
        """Return the width of a side: as seen, mixed with what the model says of itself."""
        return math.sqrt((BELIEF * said**2 + self.jobs * seen**2) / (BELIEF + self.jobs))


UNCORRECTED = Correction(0.0, 0.0, 0.0, 0)


def fit_correction(pairs: Pairs) -> Correction | None:
    """Return the correction that some jobs ask for; None if none of them says anything.

    The factor is the median of actual by predicted, drawn towards 1 as by one more job that went as predicted.
    """
    known = [(spread, actual) for spread, actual in pairs if spread.p50 > 0 and actual > 0]
    if not known:
        return None
    ratios = [math.log(actual / spread.p50) for spread, actual in known]
    log_factor = median(ratios) * len(ratios) / (len(ratios) + BELIEF)
    usual = math.exp(median(sum(_widths(spread)) / 2 for spread, _ in known))
    left = Samples([math.exp(ratio - log_factor) for ratio in ratios], max(usual, 1 + _NARROWEST))
    return Correction(
        log_factor, max(0.0, -math.log(left.quantile(0.1))), max(0.0, math.log(left.quantile(0.9))), len(ratios)
    )


def mean_loss(correction: Correction, pairs: Pairs) -> float:
    """Return the mean pinball loss of corrected predictions."""
    return fmean(_losses(correction, pairs))


def is_better(new: Correction, old: Correction, pairs: Pairs) -> bool:
    """Tell whether a correction beats another on jobs that neither should have been fitted on.

    It must gain enough to be worth it, and so evenly that the gain is hardly an accident (Student's test of the
    differences).
    """
    gains = [
        before - after
        for before, after in zip(_losses(old, pairs), _losses(new, pairs), strict=True)
    ]  # fmt: skip
    gain = fmean(gains)
    if len(gains) < 2 or gain <= LEAST_GAIN * mean_loss(old, pairs):
        return False
    unsure = stdev(gains) / math.sqrt(len(gains))
    return gain > student_quantile(SURE_SHARE, len(gains) - 1) * unsure


def coverage(correction: Correction, pairs: Pairs) -> float:
    """Return the share of jobs between the corrected p10 and p90; 0.8 is right."""
    corrected = [(correction.applied(spread), actual) for spread, actual in pairs]
    return fmean(spread.p10 <= actual <= spread.p90 for spread, actual in corrected)


def _losses(correction: Correction, pairs: Pairs) -> list[float]:
    return [pinball_loss(correction.applied(spread), actual) for spread, actual in pairs]


def _widths(spread: Spread) -> tuple[float, float]:
    least = spread.p50 * _NARROWEST
    return math.log(spread.p50 / max(spread.p10, least)), math.log(spread.p90 / spread.p50)
