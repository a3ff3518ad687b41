from __future__ import annotations

import numpy as np
import pytest

from presage.foundation.mixture import GRID, Mixture, log_quantiles, mean_s


def one(centre: float, scale: float) -> Mixture:
    return Mixture(*(np.array([[value]], np.float32) for value in (1.0, centre, scale)))


def test_quantiles_of_a_single_logistic() -> None:
    found = log_quantiles(one(6.0, 0.5).curve(), np.array([0.1, 0.5, 0.9]))[0]

    np.testing.assert_allclose(found, 6 + 0.5 * np.log([1 / 9, 1, 9]), atol=0.01)


def test_what_has_passed_is_excluded() -> None:
    age_s = np.array([np.expm1(6.0)])
    median = log_quantiles(one(6.0, 0.5).curve(age_s), np.array([0.5]))[0, 0]

    # Half of the mass is gone, so the median is where three quarters of the whole lie.
    assert median == pytest.approx(6 + 0.5 * np.log(3), abs=0.03)


def test_no_quantile_lies_before_the_age_however_unlikely_it_was() -> None:
    age_s = np.array([np.expm1(12.0)])
    found = log_quantiles(one(3.0, 0.1).curve(age_s), np.array([0.1, 0.5, 0.9]))[0]

    assert (found >= 12.0 - (GRID[1] - GRID[0])).all()
    assert np.isfinite(found).all()


def test_distributions_rise_from_nothing_to_one() -> None:
    rng = np.random.default_rng(0)
    weight = rng.dirichlet(np.ones(5), 20).astype(np.float32)
    mixture = Mixture(
        weight, rng.uniform(0, 14, (20, 5)).astype(np.float32), rng.uniform(0.05, 2, (20, 5)).astype(np.float32)
    )
    curves = mixture.curve()

    assert (np.diff(curves, axis=1) >= -1e-6).all()
    assert (curves >= 0).all()
    assert (curves <= 1 + 1e-6).all()


def test_the_mean_of_a_narrow_forecast_is_its_centre() -> None:
    assert mean_s(one(5.0, 0.001).curve())[0] == pytest.approx(np.expm1(5.0), rel=0.06)


def test_levels_may_differ_from_row_to_row() -> None:
    mixture = Mixture(
        *(np.repeat(value, 2, axis=0) for value in (one(6, 0.5).weight, one(6, 0.5).centre, one(6, 0.5).scale))
    )
    found = log_quantiles(mixture.curve(), np.array([[0.1], [0.9]]))

    assert found[0, 0] < 6 < found[1, 0]
