from __future__ import annotations

import sys
import threading

import pytest

from presage.errors import MissingDependencyError
from presage.estimators import Knowledge, Spread, UnsupportedError
from presage.estimators.queue_model import queue_model
from presage.estimators.wait import wait_opinions
from presage.estimators.wait.forecast import ForecastWait
from presage.foundation import requirements
from presage.testing import make_job, make_trace
from presage.traces import Trace
from tests.estimators.wait.conftest import question


def test_the_model_sees_the_queue(busy: Trace) -> None:
    import polars as pl

    # As it was in the middle, at the submit of a job that waited for hours.
    middle = busy.jobs.slice(700, 300).sort("wait_s")["submit_ms"][-1]
    known = busy.jobs.filter(pl.col("submit_ms") <= middle).with_columns(
        outcome=pl.when(pl.col("start_ms") > middle)
        .then(pl.lit("pending"))
        .when(pl.col("end_ms") > middle)
        .then(pl.lit("running"))
        .otherwise(pl.lit("completed"))
    )
    then = pl.col("outcome").cast(pl.String)
    known = known.with_columns(
        pl.when(then != "pending").then(pl.col("start_ms", "wait_s")),
        pl.when(then == "completed").then(pl.col("end_ms", "run_s")),
    )
    jammed = busy.with_jobs(known)
    estimator = ForecastWait(Knowledge(history=jammed))
    small = estimator.estimate(question(cores=1, limit_s=300)).spread
    large = estimator.estimate(question(cores=64, limit_s=86_400)).spread
    assert 0 <= small.p50 < large.p50
    assert large.p50 > 600


def test_a_trace_is_told_once_and_may_be_asked_by_many(busy: Trace) -> None:
    assert queue_model(busy) is queue_model(busy)
    estimator = ForecastWait(Knowledge(history=busy))
    expected = estimator.estimate(question(cores=8)).spread
    found: list[Spread] = []
    threads = [
        threading.Thread(target=lambda: found.append(estimator.estimate(question(cores=8)).spread))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_what_a_new_job_leaves_out_is_taken_from_the_users_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    from presage.foundation.live import JobRequest, LiveForecaster

    users = {"ann": ("slow", "chem"), "bob": ("fast", "bio")}
    trace = make_trace(
        *(
            make_job(number, 1, 1, user=user, partition="main", qos=qos, account=account)
            for number, (user, (qos, account)) in enumerate(users.items())
        )
    )
    asked: list[JobRequest] = []
    forecast = LiveForecaster.forecast

    def listen(live: LiveForecaster, about: JobRequest) -> object:
        asked.append(about)
        return forecast(live, about)

    monkeypatch.setattr(LiveForecaster, "forecast", listen)
    for user in (*users, "eve"):
        ForecastWait(Knowledge(history=trace)).estimate(question(user=user))
    # The words by which the model knows queues and groups when it reads a trace; of a stranger, the last job's.
    assert [each.queue.split("\x1f")[1:3] for each in asked] == [
        ["main", "slow"],
        ["main", "fast"],
        ["main", "fast"],
    ]
    assert [each.group.split("\x1f")[1] for each in asked] == ["chem", "bio", "bio"]


def test_one_users_history_says_that_it_does_not_see_the_queue() -> None:
    pytest.importorskip("numba")
    trace = make_trace(*(make_job(100 * n, 5, 50, user="ann", partition="main") for n in range(10)))
    notes = ForecastWait(Knowledge(history=trace)).estimate(question()).notes
    assert any("one user alone" in note for note in notes)
    assert any("little is known" in note for note in notes)


def test_it_declines_what_it_cannot_know(busy: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    estimator = ForecastWait(Knowledge(history=busy))
    with pytest.raises(UnsupportedError, match="no job of the partition gpu"):
        estimator.estimate(question(partition="gpu"))
    no_waits = make_trace({"submit_ms": 0, "run_s": 5.0, "partition": "main", "outcome": "completed"})
    with pytest.raises(UnsupportedError, match="when jobs started"):
        ForecastWait(Knowledge(history=no_waits)).estimate(question())

    def missing() -> None:
        raise MissingDependencyError("numba", extra="forecast", purpose="Forecasting")

    monkeypatch.setattr(requirements, "require_numba", missing)
    other = make_trace(*(make_job(n, 1, 1, partition="main") for n in range(12)))
    with pytest.raises(UnsupportedError, match="numba"):
        ForecastWait(Knowledge(history=other)).estimate(question())
    opinions = wait_opinions(question(), Knowledge(history=other))
    assert [each.estimator for each in opinions.answers] == ["similar-wait"]
    assert "numba" in opinions.declined["forecast-wait"]


def test_a_trace_that_is_gone_is_forgotten() -> None:
    pytest.importorskip("numba")
    from presage.estimators import queue_model as module

    trace = make_trace(make_job(0, 1, 1, partition="main"))
    module.queue_model(trace)
    key = id(trace)
    assert key in module._TOLD
    assert sys.getrefcount(trace) == 2
    del trace
    assert key not in module._TOLD
