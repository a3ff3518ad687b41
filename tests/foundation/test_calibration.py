from __future__ import annotations

import numpy as np
import pytest

from presage.foundation.calibration import IntervalTracker, track


def stream(count: int, spread: float, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Forecasts that believe in a spread of 1 about outcomes of another; each is known after it has passed."""
    rng = np.random.default_rng(seed)
    centre = rng.uniform(3, 8, count)
    outcomes_s = np.expm1(np.maximum(centre + spread * rng.normal(size=count), 0))
    quantiles = np.stack([centre - 1.28, centre, centre + 1.28], 1)
    asked_s = np.cumsum(rng.exponential(600, count))
    return quantiles, asked_s, asked_s, outcomes_s, np.zeros(count, bool)


def coverage(quantiles: np.ndarray, outcomes_s: np.ndarray) -> float:
    low_s, _, high_s = np.rint(np.expm1(quantiles)).T
    return float(((outcomes_s >= low_s) & (outcomes_s <= high_s)).mean())


@pytest.mark.parametrize("spread", [0.3, 1.0, 2.5])
def test_intervals_come_to_keep_their_word(spread: float) -> None:
    adjusted, tracker = track(*stream(6000, spread))

    assert coverage(adjusted, stream(6000, spread)[3]) == pytest.approx(0.8, abs=0.02)
    assert tracker.coverage == pytest.approx(0.8, abs=0.02)


def test_medians_are_left_alone() -> None:
    quantiles, *rest = stream(500, 2.0)
    adjusted, _ = track(quantiles, *rest)

    np.testing.assert_array_equal(adjusted[:, 1], quantiles[:, 1])
    assert (adjusted[:, 0] <= adjusted[:, 1]).all()
    assert (adjusted[:, 1] <= adjusted[:, 2]).all()


def test_only_what_is_known_teaches() -> None:
    """Changing outcomes that come to light after a question leaves its interval as it was."""
    quantiles, asked_s, since_s, outcomes_s, censored = stream(300, 1.0)
    later = outcomes_s.copy()
    unknown = since_s + outcomes_s >= asked_s[150]
    later[unknown] = np.maximum(asked_s[150] - since_s[unknown], 0) + 12345
    before, _ = track(quantiles, asked_s, since_s, outcomes_s, censored)
    after, _ = track(quantiles, asked_s, since_s, later, censored)

    np.testing.assert_array_equal(before[:151], after[:151])


def test_a_job_that_outlasts_its_interval_teaches_before_it_ends() -> None:
    quantiles = np.log1p(np.array([[10.0, 20.0, 30.0], [10.0, 20.0, 30.0]]))
    asked_s = np.array([0.0, 1000.0])
    outcomes_s = np.array([1e9, 1e9])

    adjusted, tracker = track(quantiles, asked_s, asked_s, outcomes_s, np.zeros(2, bool))

    assert tracker.missed_high == 1
    assert adjusted[1, 2] > quantiles[1, 2]


def test_a_job_lost_sight_of_teaches_nothing_it_did_not_show() -> None:
    quantiles = np.log1p(np.array([[10.0, 20.0, 30.0]]))
    _, tracker = track(quantiles, np.zeros(1), np.zeros(1), np.array([5.0]), np.array([True]), until_s=1e6)

    assert (tracker.resolved_low, tracker.resolved_high) == (0, 0)


def test_a_tracker_without_experience_changes_nothing() -> None:
    assert IntervalTracker().adjust(1.0, 2.0, 3.0) == (1.0, 3.0)
    assert IntervalTracker().coverage is None


def test_waits_of_a_few_whole_seconds_are_held_as_often_as_promised() -> None:
    """Widening every interval to whole seconds would hold nine in ten of these however narrow they are."""
    rng = np.random.default_rng(1)
    outcomes_s = rng.choice([1.0, 2.0, 3.0, 4.0], size=8000, p=[0.1, 0.5, 0.3, 0.1])
    medians = np.log1p(rng.uniform(1.8, 3.2, 8000))
    quantiles = np.stack([medians - 0.3, medians, medians + 0.3], 1)
    asked_s = 60.0 * np.arange(8000)

    adjusted, _ = track(quantiles, asked_s, asked_s, outcomes_s, np.zeros(8000, bool))

    assert coverage(adjusted, outcomes_s) == pytest.approx(0.8, abs=0.03)
