from __future__ import annotations

import sys

import pytest

from presage.errors import InputError, MissingDependencyError, UnknownNameError, UsageError
from presage.policies import Policy
from presage.simulator import jobs_of, simulate
from presage.testing import make_job, make_trace
from presage.traces import Trace
from presage.traces.statistics import summarise
from presage.traces.validation import Severity, validate


@pytest.fixture
def trace() -> Trace:
    """Three jobs that each want the whole machine of 4 processors."""
    common = {"user": "a", "outcome": "completed"}
    return make_trace(
        make_job(0, 500, 100, 4, limit_s=200.0, **common),
        make_job(10, 500, 60, 4, limit_s=50.0, **common),
        make_job(20, 500, 5, 4, limit_s=300.0, x_guess=None, **common),
        cpus=4,
    )


def test_metrics_are_those_computed_by_hand(trace: Trace) -> None:
    metrics = simulate(trace, "fcfs").metrics
    # Starts 0, 100, 160; waits 0, 90, 140; responses 100, 150, 145.
    assert metrics.jobs == 3
    assert metrics.mean_wait_s == pytest.approx((0 + 90 + 140) / 3)
    assert metrics.max_wait_s == 140
    assert metrics.mean_response_s == pytest.approx((100 + 150 + 145) / 3)
    assert metrics.mean_bounded_slowdown == pytest.approx((1 + 150 / 60 + 145 / 10) / 3)
    assert metrics.mean_slowdown == pytest.approx((1 + 150 / 60 + 145 / 5) / 3)
    assert metrics.makespan_s == 165
    assert metrics.utilization == pytest.approx(1.0)
    assert metrics.waited_share == pytest.approx(2 / 3)


def test_the_schedule_is_a_valid_trace(trace: Trace) -> None:
    result = simulate(trace, "sjf").trace
    assert result.jobs["start_ms"].to_list() == [0, 100_000, 160_000]
    assert result.jobs["wait_s"].to_list() == [0.0, 90.0, 140.0]
    assert result.manifest.synthetic_columns == ("start_ms", "end_ms", "wait_s")
    assert result.manifest.generator["simulated"]["policy"] == "sjf"
    assert not [finding for finding in validate(result) if finding.severity is Severity.ERROR]
    assert summarise(result).mean_wait_s == pytest.approx((0 + 90 + 140) / 3)


def test_decisions_use_what_they_are_allowed_to_know(trace: Trace) -> None:
    # By requests (200, 50, 300) the second goes before the third, by true run times (100, 60, 5) after it.
    assert simulate(trace, "sjf").trace.jobs["start_ms"].to_list() == [0, 100_000, 160_000]
    assert simulate(trace, "sjf", order_by="actual").trace.jobs["start_ms"].to_list() == [0, 105_000, 100_000]
    guessed = trace.with_jobs(trace.jobs.with_columns(x_guess=trace.jobs["limit_s"] * -1 + 1000))
    assert simulate(guessed, "sjf", order_by="x_guess").trace.jobs["start_ms"].to_list() == [0, 105_000, 100_000]


def test_limits_kill_only_when_asked_to(trace: Trace) -> None:
    killed = simulate(trace, "fcfs", kill=True).trace.jobs
    assert killed["run_s"].to_list() == [100.0, 50.0, 5.0]
    assert killed["outcome"].to_list() == ["completed", "timeout", "completed"]
    assert simulate(trace, "fcfs").trace.jobs["run_s"].to_list() == [100.0, 60.0, 5.0]


def test_a_missing_limit_counts_as_the_run_time() -> None:
    jobs = jobs_of(make_trace(make_job(0, 0, 7), cpus=1))
    assert jobs.limit_ms.tolist() == jobs.plan_ms.tolist() == [7_000]


def test_jobs_that_lack_something_are_refused_with_the_rules_that_help() -> None:
    with pytest.raises(InputError, match=r"no run, 1 jobs have no size.*--clean archive"):
        simulate(make_trace({"submit_ms": 0}, make_job(1, 0, 1), cpus=1))


def test_the_machine_must_be_known_and_large_enough(trace: Trace) -> None:
    with pytest.raises(UsageError, match="--processors"):
        simulate(make_trace(make_job(0, 0, 1)))
    with pytest.raises(UsageError, match="can run nothing"):
        simulate(trace, processors=0)
    with pytest.raises(InputError, match="needs 4 processors"):
        simulate(trace, processors=3)


def test_run_times_come_from_numbers_only(trace: Trace) -> None:
    with pytest.raises(UsageError, match="'user'"):
        simulate(trace, order_by="user")
    with pytest.raises(UsageError, match="'nothing'"):
        simulate(trace, plan_by="nothing")
    with pytest.raises(InputError, match="lacks a value for 3 jobs"):
        simulate(trace, plan_by="priority")


@pytest.mark.parametrize(("text", "policy"), [("sjf", Policy("sjf")), ("SAF+Easy", Policy("saf", "easy"))])
def test_policies_are_parsed_and_printed(text: str, policy: Policy) -> None:
    assert Policy.parse(text) == policy
    assert Policy.parse(str(policy)) == policy


def test_unknown_policies_are_answered_with_the_closest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'sjf'"):
        Policy.parse("sjff")
    with pytest.raises(UnknownNameError, match="Did you mean 'easy'"):
        Policy.parse("sjf+eazy")
    with pytest.raises(UsageError, match=r"ends in '\+'"):
        Policy.parse("sjf+")


def test_without_numba_the_extra_is_named(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingDependencyError, match=r"presage\[simulate\]"):
        simulate(trace)
