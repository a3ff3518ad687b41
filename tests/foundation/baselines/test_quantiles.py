from __future__ import annotations

import numpy as np
import pytest

from presage.foundation.baselines._quantiles import cut_at_limit, outlived
from presage.foundation.baselines._recent import recent_mean, recent_quantiles
from presage.foundation.view._records import JOB

SPREAD = np.array([[9.0, 99.0, 999.0]])  # 10, 100 and 1000 with the one that logarithms add


def test_a_new_job_keeps_its_quantiles() -> None:
    assert outlived(SPREAD, np.zeros(1)).tolist() == SPREAD.tolist()


def test_an_age_below_the_first_quantile_tells_nothing() -> None:
    assert outlived(SPREAD, np.array([5.0])) == pytest.approx(SPREAD)


def test_who_outlived_the_median_moves_on_to_the_upper_half() -> None:
    # Half is gone, so the new levels are .55, .75 and .95; up to .9 the logarithm is a straight line.
    found = outlived(SPREAD, np.array([99.0]))[0]
    assert found == pytest.approx([100 * 10 ** (0.05 / 0.4) - 1, 100 * 10 ** (0.25 / 0.4) - 1, 1000 * 2 - 1])


def test_who_outlived_everything_is_as_likely_as_not_to_take_as_long_again() -> None:
    found = outlived(SPREAD, np.array([4999.0]))[0]
    assert found == pytest.approx([5000 / 0.9 - 1, 5000 * 2 - 1, 5000 * 10 - 1])


def test_equal_quantiles_can_be_outlived() -> None:
    found = outlived(np.zeros((2, 3)), np.array([0.0, 9.0]))
    assert found[0].tolist() == [0, 0, 0]
    assert found[1] == pytest.approx([10 / 0.9 - 1, 19, 99])


def test_quantiles_move_up_with_the_age() -> None:
    ages = np.array([0.0, 1, 8, 9, 10, 50, 99, 100, 500, 999, 1000, 10_000])
    found = outlived(np.repeat(SPREAD, len(ages), axis=0), ages)
    assert (np.diff(found, axis=0) >= -1e-9).all()
    assert (np.diff(found, axis=1) >= 0).all()
    assert (found >= ages[:, None]).all()


def test_runs_are_cut_at_limits_and_the_last_quantile_a_little_later() -> None:
    facts = np.zeros(2, JOB)
    facts["limit_s"] = 600
    facts["has_limit"] = [1, 0]
    found = cut_at_limit(np.array([[500.0, 700, 900], [500, 700, 900]]), facts)
    assert found.tolist() == [[500, 600, 690], [500, 700, 900]]


def test_recent_values_are_those_known_strictly_before() -> None:
    rng = np.random.default_rng(0)
    known_s = np.sort(rng.integers(0, 50, 80)).astype(np.float64)
    values, at_s = rng.random(80), rng.integers(0, 60, 40).astype(np.float64)
    found = recent_quantiles(known_s, values, at_s, window=7)
    means = recent_mean(known_s, values, at_s, -1.0, window=7)
    for row, now_s in enumerate(at_s):
        seen = values[known_s < now_s][-7:]
        if len(seen):
            assert found[row] == pytest.approx(np.quantile(seen, (0.1, 0.5, 0.9)))
            assert means[row] == pytest.approx(seen.mean())
        else:
            assert np.isnan(found[row]).all()
            assert means[row] == -1
