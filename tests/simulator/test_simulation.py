from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from presage.errors import InputError, MissingDependencyError, UnknownNameError, UsageError
from presage.policies import Policy
from presage.simulator import jobs_of, parse_partitions, partitions_of, simulate
from presage.testing import make_job, make_trace
from presage.traces import Trace
from presage.traces.schema import conform
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
    predicted = simulate(trace, "sjf", order_by=lambda jobs: jobs.jobs["run_s"].to_numpy())
    assert predicted.trace.jobs["start_ms"].to_list() == [0, 105_000, 100_000]
    with pytest.raises(UsageError, match="one for each job"):
        simulate(trace, "sjf", order_by=lambda jobs: np.zeros(7))


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


def test_semantics_reach_the_engine_and_the_manifest(trace: Trace) -> None:
    # The second job is chosen while the first runs, and kept although the third is shorter.
    shorter = trace.with_jobs(trace.jobs.with_columns(limit_s=trace.jobs["run_s"]))
    assert simulate(shorter, "sjf").trace.jobs["start_ms"].to_list() == [0, 105_000, 100_000]
    committed = simulate(shorter, "sjf", semantics="commit")
    assert committed.trace.jobs["start_ms"].to_list() == [0, 100_000, 160_000]
    assert committed.trace.manifest.generator["simulated"]["semantics"] == committed.semantics == "commit"
    with pytest.raises(UsageError, match="'commit' have no backfilling 'conservative'"):
        simulate(trace, "sjf+conservative", semantics="commit")


@pytest.fixture
def parts() -> Trace:
    """Two jobs of each of two partitions; each wants all that its partition has."""
    return make_trace(
        make_job(0, 0, 100, 4, partition="cpu"),
        make_job(1, 0, 50, 2, partition="gpu"),
        make_job(2, 0, 10, 2, partition="gpu"),
        make_job(3, 0, 20, 4, partition="cpu"),
    )


def test_partitions_have_queues_of_their_own(parts: Trace) -> None:
    result = simulate(parts, "fcfs", partitions={"gpu": 2, "cpu": 4, "idle": 10})
    assert result.trace.jobs["start_ms"].to_list() == [0, 1_000, 51_000, 100_000]
    assert (result.processors, result.metrics.jobs) == (16, 4)
    assert result.metrics.mean_wait_s == pytest.approx((0 + 0 + 49 + 97) / 4)
    assert {name: part.to_dict()["jobs"] for name, part in result.partitions.items()} == {
        "gpu": 2,
        "cpu": 2,
        "idle": 0,
    }
    gpu = result.partitions["gpu"].metrics
    assert gpu is not None
    assert (gpu.mean_wait_s, gpu.utilization) == (49 / 2, 1.0)
    assert result.trace.manifest.generator["simulated"]["partitions"] == {"gpu": 2, "cpu": 4, "idle": 10}
    # In one pool of as many processors nobody would wait for the other partition's job.
    assert simulate(parts, "fcfs", processors=16).metrics.mean_wait_s == 0


def test_jobs_must_fit_into_a_partition_that_is_there(parts: Trace) -> None:
    with pytest.raises(InputError, match=r"2 jobs are of partitions.*like 'cpu'.*--partition"):
        simulate(parts, partitions={"gpu": 2})
    with pytest.raises(InputError, match="needs 4 processors and its partition 'cpu' has 3"):
        simulate(parts, partitions={"gpu": 2, "cpu": 3})
    with pytest.raises(InputError, match="1 jobs name no partition"):
        simulate(make_trace(make_job(0, 0, 1)), partitions={"gpu": 2})
    for sizes in ({}, {"gpu": 0, "cpu": 4}):
        with pytest.raises(UsageError):
            simulate(parts, partitions=sizes)
    with pytest.raises(UsageError, match="either the size"):
        simulate(parts, processors=6, partitions={"gpu": 2, "cpu": 4})


def test_partitions_are_known_from_nodes_that_are_in_one_each(parts: Trace) -> None:
    def nodes(*rows: dict[str, Any]) -> Trace:
        return replace(parts, nodes=conform(pl.DataFrame(rows), "nodes"))

    known = nodes(
        {"node_id": "a", "cpus": 2.0, "partitions": ["cpu"]},
        {"node_id": "b", "cpus": 2.0, "partitions": ["cpu"]},
        {"node_id": "c", "cpus": 2.0, "partitions": ["gpu"]},
    )
    assert partitions_of(known) == {"cpu": 4, "gpu": 2}
    with pytest.raises(InputError, match="Partitions overlap: a is in cpu, gpu"):
        partitions_of(nodes({"node_id": "a", "cpus": 2.0, "partitions": ["cpu", "gpu"]}))
    with pytest.raises(InputError, match="does not say which processors"):
        partitions_of(parts)


def test_partitions_are_parsed() -> None:
    assert parse_partitions(["gpu=64", " c=1 = 512"]) == {"gpu": 64, "c=1": 512}
    for texts in (["gpu"], ["=3"], ["gpu=-1"], ["gpu=many"], ["gpu=1", "gpu=2"]):
        with pytest.raises(UsageError):
            parse_partitions(texts)


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
