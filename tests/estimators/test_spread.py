from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presage.estimators import Spread, total

AMOUNTS = st.floats(0.001, 1e9)
SPREADS = st.tuples(AMOUNTS, AMOUNTS, AMOUNTS).map(lambda three: Spread(*sorted(three)))


@given(SPREADS)
def test_the_distribution_goes_through_its_quantiles(spread: Spread) -> None:
    assert spread.quantile(0.1) == pytest.approx(spread.p10)
    assert spread.quantile(0.5) == pytest.approx(spread.p50)
    assert spread.quantile(0.9) == pytest.approx(spread.p90)


@given(SPREADS, st.floats(0.01, 0.99))
def test_chances_and_quantiles_are_each_other_s_inverse(spread: Spread, share: float) -> None:
    if spread.p10 < 0.99 * spread.p50 and spread.p50 < 0.99 * spread.p90:
        assert spread.chance_above(spread.quantile(share)) == pytest.approx(1 - share, abs=1e-6)


@given(SPREADS, st.floats(0, 1e10), st.floats(0, 1e10))
def test_more_is_never_more_likely(spread: Spread, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert spread.chance_above(low) >= spread.chance_above(high)


def test_a_certain_amount_is_above_less_and_not_above_itself() -> None:
    certain = Spread.exactly(3.0)
    assert (certain.chance_above(2.9), certain.chance_above(3.0), certain.quantile(0.99)) == (1.0, 0.0, 3.0)


def test_a_wait_that_is_mostly_none() -> None:
    wait = Spread(0, 0, 80)
    assert wait.quantile(0.5) == 0.0
    assert (wait.quantile(0.3), wait.quantile(0.9), wait.quantile(0.7)) == (0.0, 80.0, pytest.approx(40.0))
    assert (wait.chance_above(0), wait.chance_above(40), wait.chance_above(80)) == (
        0.5,
        pytest.approx(0.3),
        pytest.approx(0.1),
    )


@pytest.mark.parametrize("wrong", [(2, 1, 3), (-1, 0, 1), (0, 1, math.inf), (math.nan, 1, 2)])
def test_what_is_no_spread_is_refused(wrong: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="no quantiles"):
        Spread(*wrong)


def test_the_sum_of_independent_amounts_is_about_right() -> None:
    """Against draws; the rule is an approximation, so the bound is a tenth."""
    parts = [Spread(50, 60, 75), Spread(100, 130, 170), Spread(10, 12, 20)]
    random = np.random.default_rng(1)
    draws = sum(np.array([part.quantile(share) for share in random.uniform(0.001, 0.999, 4000)]) for part in parts)
    summed = total(parts)
    for share, amount in ((10, summed.p10), (50, summed.p50), (90, summed.p90)):
        assert amount == pytest.approx(np.percentile(draws, share), rel=0.1)


def test_arithmetic_by_hand() -> None:
    assert Spread(1, 2, 4).times(3) == Spread(3, 6, 12)
    assert Spread(1, 2, 4).plus(1) == Spread(2, 3, 5)
    assert total([]) == Spread(0, 0, 0)
    assert Spread.around(10, 2) == Spread(5, 10, 20)
