from __future__ import annotations

import numpy as np
import pytest

from presage.synthesizers.fidelity.temporal import autocorrelation, compare_rhythms, measure_rhythm, window_sums
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace
from tests.synthesizers.fidelity.conftest import shuffled

HOUR_S = 3600


def test_autocorrelation_by_hand() -> None:
    # Deviations -2, -1, 0, 1, 2: (2 + 0 + 0 + 2) / 10.
    assert autocorrelation(np.arange(5.0), 1) == pytest.approx(0.4)
    assert np.isnan(autocorrelation(np.ones(9), 1))
    assert np.isnan(autocorrelation(np.arange(3.0), 24))


def test_windows_begin_with_the_first_job_and_the_last_one_is_not_full() -> None:
    submit_ms = np.array([5, 6, 7]) * 3_600_000 + np.array([0, 10, 20])
    assert window_sums(submit_ms, np.array([1.0, 2, 4]), 1).tolist() == [1.0, 2.0]


def test_repetition_and_sessions_by_hand() -> None:
    jobs = (("a", 0, 1, 60.0), ("a", 100, 1, 60.0), ("a", 200, 2, 60.0), ("b", 300, 2, 60.0), ("a", 9000, 2, 60.0))
    trace = make_trace(*(make_job(at, 0, 5, size, user=user, limit_s=limit) for user, at, size, limit in jobs))
    found = measure_rhythm(trace)
    assert found.same_user == pytest.approx(2 / 4)
    assert found.repeated == pytest.approx(1 / 4)
    assert found.session_jobs == pytest.approx(5 / 3)
    assert found.in_sessions == pytest.approx(3 / 5)


def test_bursts_by_hand() -> None:
    # Two jobs in the first hour and none in the second; the last job only ends the second hour.
    trace = make_trace(make_job(0, 0, 10, 2), make_job(60, 0, 20, 2), make_job(2 * HOUR_S, 0, 10, 2))
    hourly = measure_rhythm(trace).bursts[0]
    assert hourly.jobs == pytest.approx(1.0)  # counts 2 and 0: variance 1, mean 1
    assert hourly.work_variation == pytest.approx(1.0)  # work 60 and 0: deviation 30, mean 30
    assert hourly.work == pytest.approx(900 / 30 / (2400 / 80))  # jobs of 20, 40 and 20 processor seconds


def test_work_that_comes_evenly_and_independently_is_no_burst() -> None:
    rng = np.random.default_rng(0)
    submit_s = np.sort(rng.uniform(0, 4000 * HOUR_S, 40_000))
    trace = make_trace(
        *(make_job(at, 0, run, 4) for at, run in zip(submit_s, rng.lognormal(5, 1, 40_000), strict=True))
    )
    for scale in measure_rhythm(trace).bursts[:2]:
        assert scale.jobs == pytest.approx(1.0, abs=0.15)
        assert scale.work == pytest.approx(1.0, abs=0.15)


def test_profiles_are_of_the_local_week() -> None:
    # 1970 began on a Thursday; 05:30 in UTC is 00:30 in New York.
    trace = make_trace(make_job(5.5 * HOUR_S, 0, 5), make_job(5.6 * HOUR_S, 0, 5), time_zone="America/New_York")
    found = measure_rhythm(trace)
    assert found.daily[0] == 1.0
    assert found.weekly[3] == 1.0


def test_shuffling_destroys_what_goes_on_and_leaves_rows_alone(log: Trace) -> None:
    found = compare_rhythms(log, shuffled(log))
    assert found.real.same_user > 0.6
    assert found.synthetic.same_user < 0.3
    assert found.synthetic.repeated < 0.5 * found.real.repeated
    assert found.synthetic.in_sessions < found.real.in_sessions
    assert compare_rhythms(log, log).daily_tv == 0.0


def test_what_the_trace_does_not_tell_is_not_a_number() -> None:
    found = measure_rhythm(make_trace({"submit_ms": 0, "run_s": 5.0}, {"submit_ms": 9000, "run_s": 5.0}))
    assert np.isnan([found.ac1, found.ac24, found.same_user, found.session_jobs, found.bursts[0].work]).all()
    assert found.as_dict()["same_user"] is None
