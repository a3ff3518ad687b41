from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from presage.foundation.mixture import GRID, Mixture
from presage.foundation.model import Model
from presage.foundation.view.tasks import Task
from presage.learning.forecasts import forecast_runs, of_curves
from presage.simulator.simulation import simulate
from presage.traces.workloads import make_model


def sure_of(seconds: float) -> np.ndarray:
    """A distribution with nearly all of its mass at one duration."""
    one = np.ones((1, 1), np.float32)
    return Mixture(one, one * np.float32(np.log1p(seconds)), one * np.float32(0.002)).curve()


@pytest.mark.parametrize("seconds", [5.0, 60.0, 5_000.0])
def test_a_sure_forecast_has_the_mean_and_the_median_of_its_one_duration(seconds: float) -> None:
    told = of_curves(sure_of(seconds), np.array([100_000.0]))
    # The grid has steps of a tenth in the logarithm.
    assert told.expected_s[0] == pytest.approx(seconds, rel=0.12)
    assert told.median_s[0] == pytest.approx(seconds, rel=0.06)
    assert told.inverse[0] == pytest.approx(1 / max(seconds, 10), rel=0.12)


def test_no_run_is_longer_than_its_limit() -> None:
    told = of_curves(sure_of(5_000.0), np.array([600.0]))
    assert told.expected_s[0] == pytest.approx(600, rel=1e-6)
    assert told.median_s[0] == 600
    assert told.inverse[0] == pytest.approx(1 / 600, rel=1e-6)


def test_a_chance_to_fail_at_once_moves_the_inverse_more_than_the_mean() -> None:
    half = (sure_of(1.0) + sure_of(10_000.0)) / 2
    told = of_curves(half, np.array([20_000.0]))
    assert told.expected_s[0] == pytest.approx(5_000, rel=0.1)
    assert told.inverse[0] == pytest.approx(0.05, rel=0.1)


def test_the_mean_is_that_of_draws() -> None:
    weight, centre, scale = np.float32([[0.3, 0.7]]), np.float32([[4.0, 7.0]]), np.float32([[0.5, 0.4]])
    told = of_curves(Mixture(weight, centre, scale).curve(), np.array([3_000.0]))
    rng = np.random.default_rng(0)
    which = rng.random(200_000) < 0.7
    logs = np.where(which, rng.logistic(7.0, 0.4, 200_000), rng.logistic(4.0, 0.5, 200_000))
    runs_s = np.minimum(np.expm1(np.clip(logs, 0, GRID[-1])), 3_000)
    assert told.expected_s[0] == pytest.approx(runs_s.mean(), rel=0.03)
    assert told.inverse[0] == pytest.approx((1 / np.maximum(runs_s, 10)).mean(), rel=0.03)


def test_jobs_are_forecast_from_what_was_known_when_they_came() -> None:
    log = simulate(make_model("lublin", {"users": 5, "processors": 64}).generate(400, seed=1), "fcfs+easy").trace
    tower = Model.load().towers[Task.RUN]
    whole = forecast_runs(log, tower, first=300)
    # As many jobs, so that sums are rounded alike: not a bit may differ.
    is_later = pl.int_range(pl.len()) >= 350
    longer = log.jobs.with_columns(end_ms=pl.col("end_ms") + is_later * 50_000_000)
    other = forecast_runs(log.with_jobs(longer), tower, first=300)
    assert len(whole) == 100
    np.testing.assert_array_equal(other.expected_s[:50], whole.expected_s[:50])
    assert (other.expected_s[50:] != whole.expected_s[50:]).any()


def test_each_network_forecasts_from_its_own_job_on() -> None:
    log = simulate(make_model("lublin", {"users": 5, "processors": 64}).generate(120, seed=1), "fcfs+easy").trace
    first = Model.load().towers[Task.RUN]
    second = replace(first, weights={name: value * np.float32(0.9) for name, value in first.weights.items()})
    # As many jobs at a time, so that sums are rounded alike.
    alone = [forecast_runs(log, {20: tower, 70: tower}, first=20).expected_s for tower in (first, second)]
    both = forecast_runs(log, {20: first, 70: second}, first=20).expected_s
    np.testing.assert_array_equal(both, np.concatenate([alone[0][:50], alone[1][50:]]))
    assert (both != alone[0]).any()


def test_progress_reaches_the_end() -> None:
    log = simulate(make_model("lublin", {"users": 5, "processors": 64}).generate(120, seed=1), "fcfs+easy").trace
    told: list[tuple[int, int]] = []
    forecast_runs(log, Model.load().towers[Task.RUN], first=20, progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (100, 100)
