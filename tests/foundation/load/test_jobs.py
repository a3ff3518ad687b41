from __future__ import annotations

import math

import numpy as np
import pytest

from presage.errors import InputError
from presage.foundation.load.jobs import extract_jobs
from presage.testing.traces import make_job, make_trace
from presage.traces import schema
from tests.foundation.load.examples import jobs_in


def test_fates_become_times_of_leaving_queue_and_machine() -> None:
    trace = make_trace(
        make_job(0, 10, 100, 2),
        {"submit_ms": 1000, "cpus_req": 1.0, "end_ms": 5000, "outcome": "cancelled"},
        {"submit_ms": 2000, "cpus_req": 1.0, "start_ms": 7000, "outcome": "cancelled"},
        {"submit_ms": 3000, "cpus_req": 1.0, "start_ms": 9000, "outcome": "running"},
        {"submit_ms": 4000, "cpus_req": 1.0, "start_ms": 99_000, "outcome": "pending"},
    )
    jobs = jobs_in(trace)
    assert jobs.begin_s.tolist() == [10, 5, 7, 9, math.inf]
    assert jobs.end_s.tolist() == [110, 5, 7, math.inf, math.inf]
    assert jobs.started.tolist() == [True, False, False, True, False]


def test_what_cannot_be_used_is_counted() -> None:
    trace = make_trace(
        make_job(0, 0, 60),
        make_job(1, 0, 60, cpus=float("nan")),
        {"cpus_req": 1.0, "start_ms": 5},
        {"submit_ms": 5, "cpus_req": 1.0, "outcome": "completed"},
    )
    found = extract_jobs(trace.jobs, schema.size())
    assert len(found.jobs) == 1
    assert "3 jobs" in found.notes[0]
    with pytest.raises(InputError, match="submitted"):
        extract_jobs(trace.jobs.tail(1), schema.size())


def test_a_log_without_starts_has_jobs_that_start_at_once() -> None:
    trace = make_trace({"submit_ms": 1000, "run_s": 60.0, "cpus_alloc": 4.0})
    found = extract_jobs(trace.jobs, schema.size())
    assert not found.has_starts
    assert found.jobs.begin_s[0] == 1
    assert found.jobs.end_s[0] == 61


def test_run_times_are_expected_as_those_of_the_user_that_had_ended() -> None:
    trace = make_trace(
        make_job(0, 0, 1000, user="ada", limit_s=2000.0),
        make_job(500, 0, 1000, user="ada", limit_s=4000.0),
        make_job(2000, 0, 10, user="ada", limit_s=4000.0),
        make_job(3000, 0, 10, user="bob", limit_s=4000.0),
    )
    jobs = jobs_in(trace)
    unknown = math.exp(-1.0)
    assert jobs.expected_s[0] == pytest.approx(2000 * unknown)
    # At 500 s the first job still ran: nothing is known of it.
    assert jobs.expected_s[1] == pytest.approx(4000 * unknown)
    average = 0.7 * math.log(1 / 2) + 0.3 * math.log(1 / 4)
    assert jobs.expected_s[2] == pytest.approx(4000 * math.exp(average))
    # Bob is new: what all have done, of which the job of ten seconds counts as half a minute.
    everybody = 0.7 * average + 0.3 * math.log(30 / 4000)
    assert jobs.expected_s[3] == pytest.approx(4000 * math.exp(everybody))


def test_what_is_known_at_an_instant_has_no_future() -> None:
    jobs = jobs_in(make_trace(make_job(0, 10, 100), make_job(20, 50, 10), make_job(90, 0, 5)))
    known = jobs.known_at(60.0)
    assert len(known) == 2
    assert known.begin_s.tolist() == [10, math.inf]
    assert np.isinf(known.end_s).all()
    assert known.started.tolist() == [True, False]
