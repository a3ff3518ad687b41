from __future__ import annotations

import math

import pytest

from presage.estimators import Spread
from presage.estimators.repository.scoring import pinball_loss, ratio_error, score


def test_the_loss_is_as_computed_by_hand() -> None:
    # In log(1 + x): p10 = 0, p50 = 1, p90 = 2, and the outcome 1.5.
    spread = Spread(0.0, math.e - 1, math.e**2 - 1)
    assert pinball_loss(spread, math.e**1.5 - 1) == pytest.approx((0.1 * 1.5 + 0.5 * 0.5 + 0.1 * 0.5) / 3)
    assert pinball_loss(Spread.exactly(7), 7) == 0


@pytest.mark.parametrize(
    ("predicted", "actual", "error"), [(110, 100, 0.1), (100, 110, 0.1), (0, 0, 0), (5, 5, 0), (300, 100, 2)]
)
def test_an_error_is_a_ratio_on_either_side(predicted: float, actual: float, error: float) -> None:
    assert ratio_error(predicted, actual) == pytest.approx(error)


def test_coverage_counts_the_edges() -> None:
    spread = Spread(10, 20, 40)
    scored = score([(spread, 10), (spread, 40), (spread, 9), (spread, 20)])
    assert scored is not None
    assert (scored.count, scored.coverage) == (4, 0.75)
    assert scored.median_ratio_error == pytest.approx(1.0)
    assert score([]) is None


def test_the_loss_prefers_the_truth_to_a_guess() -> None:
    outcomes = [math.exp(z) for z in (-1.3, -0.8, -0.4, 0.0, 0.4, 0.8, 1.3)]
    honest, bold, vague = (
        score((Spread(1 / factor, 1, factor), actual) for actual in outcomes) for factor in (3.6, 1.05, 100)
    )
    assert honest is not None
    assert bold is not None
    assert vague is not None
    assert honest.pinball_loss < min(bold.pinball_loss, vague.pinball_loss)
