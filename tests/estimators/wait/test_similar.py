from __future__ import annotations

from typing import Any

import pytest

from presage.estimators import Estimate, EstimateRequest, Knowledge, UnsupportedError
from presage.estimators.wait.similar import SimilarWait
from presage.testing import make_job, make_trace
from presage.traces import Trace
from tests.estimators.wait.conftest import question


def job(submit_s: float, wait_s: float, **columns: Any) -> dict[str, Any]:
    known = {"cpus": 4, "limit_s": 3600.0, "partition": "main", "outcome": "completed", "user": "bob"}
    return make_job(submit_s, wait_s, 10, **{**known, **columns})


def asked(trace: Trace, request: EstimateRequest) -> Estimate:
    return SimilarWait(Knowledge(history=trace)).estimate(request)


def test_like_jobs_are_those_of_the_same_partition_size_and_limit() -> None:
    like = [job(100.0 * n, 10.0 * n) for n in range(1, 20)]
    others = [
        *(job(100.0 * n, 9999, cpus=64) for n in range(20)),
        *(job(100.0 * n, 9999, limit_s=86_400.0) for n in range(20)),
        *(job(100.0 * n, 9999, partition="long") for n in range(20)),
        *(job(100.0 * n, 9999, gpus_req=1.0) for n in range(20)),
    ]
    answer = asked(make_trace(*like, *others), question())
    assert answer.details["jobs"] == 19
    # Quantiles of 10, 20 … 190 are the second, tenth and eighteenth; nearly nothing is added for their age.
    assert answer.spread.p50 == 100
    assert answer.spread.p10 == pytest.approx(20, rel=0.03)
    assert answer.spread.p90 == pytest.approx(180, rel=0.03)


def test_where_few_are_like_it_the_limit_is_let_go_and_then_the_size() -> None:
    sized = [job(100.0 * n, 50, limit_s=86_400.0) for n in range(10)]
    answer = asked(make_trace(*sized), question())
    assert answer.details["level"] == "jobs of its size in this partition"
    answer = asked(make_trace(*(job(100.0 * n, 50, cpus=60) for n in range(3))), question())
    assert answer.details["level"] == "jobs in this partition"
    assert answer.spread.p90 > 400  # three are few


def test_the_older_the_waits_the_wider_the_interval() -> None:
    waits = [job(100.0 * n, 10.0 * n) for n in range(1, 20)]
    fresh = asked(make_trace(*waits), question()).spread
    later = job(40 * 86_400, 1, partition="long")
    stale = asked(make_trace(*waits, later), question())
    assert stale.spread.p50 == fresh.p50
    assert stale.spread.p10 < fresh.p10
    assert stale.spread.p90 > 2 * fresh.p90
    assert any("days old" in note for note in stale.notes)


def test_jobs_that_wait_longer_than_usual_count() -> None:
    started = [job(100.0 * n, 10) for n in range(12)]
    stuck = [
        {**job(1000, 0), "outcome": "pending", "start_ms": None, "end_ms": None, "wait_s": None, "run_s": None}
        for _ in range(6)
    ]
    seen_until = job(20_000, 0, partition="long")
    alone = asked(make_trace(*started, seen_until), question())
    jammed = asked(make_trace(*started, *stuck, seen_until), question())
    assert alone.spread.p90 < 60
    assert jammed.spread.p90 > 15_000  # they have waited for 19,000 s
    assert jammed.details["waiting"] == 6


def test_jobs_that_left_the_queue_did_not_wait_for_a_start() -> None:
    left = {**job(0, 0), "outcome": "cancelled", "start_ms": None, "wait_s": None, "run_s": None}
    with pytest.raises(UnsupportedError, match="no wait"):
        asked(make_trace(left), question())


def test_a_job_for_several_partitions_is_like_those_of_each() -> None:
    trace = make_trace(*(job(100.0 * n, 5, partition="a,b") for n in range(12)))
    assert asked(trace, question(partition="b,c")).details["jobs"] == 12
    with pytest.raises(UnsupportedError):
        asked(trace, question(partition="c"))
