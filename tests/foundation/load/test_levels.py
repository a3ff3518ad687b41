from __future__ import annotations

import numpy as np
import pytest

from presage.foundation.load.levels import (
    HOUR_S,
    class_of,
    hourly_levels,
    machine_hours,
    peak_amount,
    work_level,
)
from presage.foundation.load.present import Presents
from presage.testing.traces import make_job, make_trace
from tests.foundation.load.examples import jobs_in


def test_hourly_means_by_hand() -> None:
    # Two of four processors from 1:30 to 3:00, after a wait of an hour, with a limit of two hours.
    jobs = jobs_in(make_trace(make_job(0.5 * HOUR_S, HOUR_S, 1.5 * HOUR_S, 2, limit_s=2 * HOUR_S)))
    levels = hourly_levels(jobs, 4.0, 4 * HOUR_S, 4)
    assert levels.utilisation.tolist() == [0, 0.25, 0.5, 0]
    assert np.expm1(levels.queue) == pytest.approx([0.5, 0.5, 0, 0])
    # Two processors for two hours are one hour of the machine.
    assert machine_hours(levels.work) == pytest.approx([0.5, 0.5, 0, 0])
    assert levels.arrivals.tolist() == [1, 0, 0, 0]
    assert levels.arriving_share.tolist() == [0.5, 0, 0, 0]
    assert levels.wait[0, 2] == pytest.approx(np.log1p(HOUR_S))
    assert np.isnan(levels.wait[1:]).all()


def test_a_long_wait_is_told_as_what_is_known_after_two_days() -> None:
    jobs = jobs_in(make_trace(make_job(10, 60 * HOUR_S, 60, 1), make_job(HOUR_S + 10, HOUR_S, 60, 1)))
    levels = hourly_levels(jobs, 1.0, 80 * HOUR_S, 80)
    assert levels.wait[:2, 2] == pytest.approx(np.log1p([60 * HOUR_S, HOUR_S]))
    assert levels.wait_told[:2, 2] == pytest.approx(np.log1p([48 * HOUR_S, HOUR_S]))


def test_size_classes_are_shares_of_the_machine() -> None:
    assert class_of(np.array([1.0, 2, 10, 11, 100]), 100.0).tolist() == [0, 1, 1, 2, 2]


def test_the_peak_lets_ends_go_before_starts() -> None:
    jobs = jobs_in(make_trace(make_job(0, 0, 10, 3), make_job(0, 10, 10, 3), make_job(5, 0, 5, 1)))
    assert peak_amount(jobs) == 4


def test_work_goes_there_and_back() -> None:
    assert machine_hours(work_level(np.array([0.0, 0.3, 7]))) == pytest.approx([0, 0.3, 7])


def test_the_present_is_who_runs_and_who_waits() -> None:
    runs = make_job(0, 0, 4 * HOUR_S, 2, limit_s=6 * HOUR_S)
    jobs = jobs_in(make_trace(runs, make_job(HOUR_S, 2 * HOUR_S, HOUR_S, 1, limit_s=3 * HOUR_S)))
    present = Presents(jobs, 4.0).at(2 * HOUR_S)
    assert present.running.tolist() == [0.5]
    assert present.running_age_h.tolist() == [2]
    assert present.waiting.tolist() == [0.25]
    assert present.waiting_age_h.tolist() == [1]
    assert present.drain_by_request(np.array([3.9, 4.1])).tolist() == [0.5, 0]
    held = present.drain_by_history(np.array([0.0, 1, 2, 5]))
    assert held[0] == pytest.approx(0.5)
    assert (np.diff(held) < 0).all()
    assert held[-1] == 0
