from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presage.simulator import backlog, jobs_of, measure, queue_length, simulate
from presage.simulator.metrics import gini, jain
from presage.testing import make_job, make_trace


def test_the_queue_is_that_computed_by_hand() -> None:
    """One processor: jobs of 10, 5 and 2 s arrive at 0, 1 and 4 s; a fourth finds nobody at 30 s."""
    trace = make_trace(
        make_job(0, 0, 10), make_job(1, 9, 5), make_job(4, 11, 2), make_job(30, 0, 1, 4, limit_s=9.0), cpus=4
    )
    jobs, start_ms = jobs_of(trace), trace.jobs["start_ms"].to_numpy()
    times_ms, waiting = queue_length(jobs, start_ms)
    assert times_ms.tolist() == [0, 1000, 4000, 10_000, 15_000, 30_000]
    assert waiting.tolist() == [0, 1, 2, 1, 0, 0]
    assert backlog(jobs, start_ms)[1].tolist() == [0, 5, 7, 2, 0, 0]
    metrics = measure(jobs, start_ms, 4)
    assert (metrics.makespan_s, metrics.max_queue_length) == (31, 2)
    assert metrics.mean_queue_length == pytest.approx((9 + 11) / 31)
    assert metrics.mean_backlog_cpu_s == pytest.approx((9 * 5 + 11 * 2) / 31)
    assert metrics.max_backlog_cpu_s == 7


@settings(max_examples=50)
@given(
    rows=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(1, 4)), min_size=1, max_size=20)
)
def test_the_area_under_the_queue_is_the_sum_of_the_waits(rows: list[tuple[int, int, int]]) -> None:
    trace = make_trace(*(make_job(submit, 0, run, size) for submit, run, size in sorted(rows)), cpus=4)
    schedule = simulate(trace, "fcfs").trace
    jobs, start_ms = jobs_of(schedule), schedule.jobs["start_ms"].to_numpy()
    times_ms, waiting = queue_length(jobs, start_ms)
    assert (waiting >= 0).all()
    assert waiting[-1] == 0
    area_s = float((waiting[:-1] * np.diff(times_ms)).sum()) / 1000
    assert area_s == pytest.approx(schedule.jobs["wait_s"].sum())
    # At any instant those wait who have come and have not started.
    for at_ms, level in zip(times_ms, waiting, strict=True):
        assert level == ((jobs.submit_ms <= at_ms) & (start_ms > at_ms)).sum()


def test_gini() -> None:
    assert gini(np.array([3.0, 3, 3, 3])) == pytest.approx(0)
    assert gini(np.array([0.0, 0, 0, 8])) == pytest.approx(0.75)
    # Mean absolute difference over twice the mean: |1-2| |1-3| |2-3| twice each, over 9, over 4.
    assert gini(np.array([3.0, 1, 2])) == pytest.approx(2 * (1 + 2 + 1) / 9 / (2 * 2))
    assert gini(np.zeros(3)) == 0


def test_jain() -> None:
    assert jain(np.array([3.0, 3, 3, 3])) == pytest.approx(1)
    assert jain(np.array([0.0, 0, 0, 8])) == pytest.approx(1 / 4)
    assert jain(np.array([3.0, 1, 2])) == pytest.approx(36 / (3 * 14))
    assert jain(np.zeros(3)) == 1


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=40))
@settings(max_examples=100)
def test_percentiles_are_those_of_numpy(waits_s: list[float]) -> None:
    waits = np.round(np.array(waits_s) * 1000)
    trace = make_trace(*(make_job(0, 0, 1) for _ in waits), cpus=1)
    found = measure(jobs_of(trace), waits.astype(np.int64), 1)

    expected = np.percentile(waits / 1000, [50, 90, 99]).tolist()
    assert [found.median_wait_s, found.p90_wait_s, found.p99_wait_s] == expected
