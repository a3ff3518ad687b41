from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from presage.errors import InputError, PresageError, UnknownNameError, UsageError
from presage.foundation.load import LOAD_MODELS, LoadForecast, forecast_load
from presage.foundation.load.chart import draw_forecast
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace, read_trace
from tests.foundation.load.examples import HOUR_S, busy_trace, scrambled_after

DAY_MS = 86_400_000


def check_ranges(answer: LoadForecast) -> None:
    for scope in answer.scopes:
        for hour in scope.hours:
            waits = (hour.wait_s or {}).values()
            for expected in (hour.utilisation, hour.queue_length, hour.waiting_hours, *waits):
                if expected is not None:
                    assert 0 <= expected.p10 <= expected.p50 <= expected.p90 < 1e12


@pytest.mark.parametrize(("name", "seed"), [*((name, 1) for name in LOAD_MODELS), ("presage", 2), ("presage", 3)])
def test_nothing_that_comes_later_changes_a_forecast(name: str, seed: int) -> None:
    trace = busy_trace(days=9, cpus=None if seed == 3 else 32)
    now_ms = 6 * DAY_MS + seed * 1_234_567
    told = forecast_load(trace, at_ms=now_ms, by=["partition"], model=name)
    again = forecast_load(scrambled_after(trace, now_ms, seed), at_ms=now_ms, by=["partition"], model=name)
    assert again.to_dict() == told.to_dict()


def test_the_present_is_told_as_it_is() -> None:
    trace = make_trace(
        make_job(0, 0, 3 * HOUR_S, 4, limit_s=4 * HOUR_S),
        make_job(0, 0, 8 * HOUR_S, 2, limit_s=9 * HOUR_S),
        make_job(HOUR_S, 5 * HOUR_S, HOUR_S, 3, limit_s=2 * HOUR_S),
        cpus=8,
    )
    answer = forecast_load(trace, at_ms=round(4 * HOUR_S * 1000), horizon_h=12, step_h=3)
    (scope,) = answer.scopes
    assert (scope.running, scope.waiting, scope.utilisation, scope.waiting_hours) == (1, 1, 0.25, 6.0)
    assert [hour.ahead_h for hour in scope.hours] == [3, 6, 9, 12]
    assert scope.hours[0].at_ms == 7 * 3_600_000
    assert set(scope.hours[0].wait_s or ()) == {"small", "medium", "large"}
    check_ranges(answer)


def test_parts_of_a_cluster_have_forecasts_of_their_own() -> None:
    answer = forecast_load(busy_trace(days=5), horizon_h=2, by=["partition"])
    assert [(scope.kind, scope.name) for scope in answer.scopes] == [
        ("cluster", "cluster"), ("partition", "narrow"), ("partition", "wide"),
    ]  # fmt: skip
    whole, *parts = answer.scopes
    assert whole.capacity_known
    assert not any(part.capacity_known for part in parts)
    assert sum(part.running for part in parts) == whole.running
    check_ranges(answer)


def test_gpus_are_a_pool() -> None:
    jobs = [
        make_job(hour * HOUR_S, 60, 5000, 4, gpus_req=1.0 + hour % 2, gpu_type_req="A100" if hour % 3 else None)
        for hour in range(60)
    ]
    answer = forecast_load(make_trace(*jobs, cpus=64), by=["pool"], horizon_h=3)
    assert [scope.name for scope in answer.scopes] == ["cluster", "gpus", "A100", "any"]
    assert {scope.unit for scope in answer.scopes[1:]} == {"GPUs"}
    check_ranges(answer)


POOR = {
    "one job": [make_job(0, 0, 60)],
    "twenty jobs": [make_job(i * 900, i * 10, 600 + i, 1 + i % 3, user="ada") for i in range(20)],
    "no waits": [{"submit_ms": i * 600_000, "run_s": 500.0, "cpus_alloc": 2.0} for i in range(30)],
    "no sizes": [
        {"submit_ms": i * 600_000, "start_ms": i * 600_000, "end_ms": i * 600_000 + 500_000} for i in range(30)
    ],
    "nodes only": [
        {"submit_ms": i * 10**6, "start_ms": i * 10**6, "end_ms": i * 10**6 + 5, "nodes_req": 2} for i in range(9)
    ],
    "all wait": [{"submit_ms": i * 1000, "cpus_req": 4.0, "outcome": "pending"} for i in range(5)],
    "one instant": [make_job(0, 0, 0) for _ in range(4)],
    "years apart": [make_job(0, 0, 60), make_job(40 * 365 * 86_400, 0, 60)],
    "absurd": [make_job(0, 0, 60, 1e300), make_job(5, 0, 60, limit_s=1e300), make_job(9, 0, 1e11, 1e-300)],
    "ends before it starts": [{"submit_ms": 10_000, "start_ms": 5000, "end_ms": 1000, "cpus_req": 1.0}],
}


@pytest.mark.parametrize("rows", POOR.values(), ids=list(POOR))
def test_poor_logs_get_an_answer(rows: list[dict[str, Any]]) -> None:
    answer = forecast_load(make_trace(*rows))
    assert len(answer.scopes[0].hours) == 24
    check_ranges(answer)


def test_a_short_past_has_wide_intervals_and_says_so() -> None:
    short = forecast_load(make_trace(*POOR["twenty jobs"], cpus=8), at_ms=4 * 3_600_000).scopes[0]
    assert any("only" in note for note in short.notes)
    in_a_day = short.hours[-1].utilisation
    assert in_a_day.p90 - in_a_day.p10 > 0.1


def test_without_starts_no_queue_is_told() -> None:
    (scope,) = forecast_load(make_trace(*POOR["no waits"])).scopes
    assert scope.hours[0].queue_length is None
    assert scope.hours[0].wait_s is None
    assert any("no starts" in note for note in scope.notes)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"horizon_h": 25}, UsageError),
        ({"horizon_h": 0}, UsageError),
        ({"step_h": 30}, UsageError),
        ({"by": ["rack"]}, UnknownNameError),
        ({"by": ["queue"]}, UsageError),
        ({"model": "oracle"}, UnknownNameError),
        ({"at_ms": -5}, UsageError),
        ({"at_ms": 10**17}, UsageError),
    ],
)
def test_wrong_questions_are_told(arguments: dict[str, Any], kind: type[PresageError]) -> None:
    with pytest.raises(kind):
        forecast_load(make_trace(*POOR["twenty jobs"]), **arguments)


def test_a_log_without_times_is_told() -> None:
    with pytest.raises(InputError):
        forecast_load(make_trace({"cpus_req": 1.0}))
    with pytest.raises(InputError):
        forecast_load(make_trace({"submit_ms": 5, "cpus_req": 1.0, "outcome": "completed"}))


@pytest.mark.parametrize("suffix", ["png", "html"])
def test_a_forecast_can_be_drawn(tmp_path: Path, suffix: str) -> None:
    trace = busy_trace(days=3, name="invented")
    answer = forecast_load(trace)
    for name in ("a", "b"):
        draw_forecast(answer, trace, tmp_path / f"{name}.{suffix}")
    first, second = ((tmp_path / f"{name}.{suffix}").read_bytes() for name in ("a", "b"))
    assert len(first) > 5000
    assert first == second


@pytest.mark.shared_data
def test_a_real_log_is_forecast(shared_data: Path) -> None:
    trace: Trace = read_trace(shared_data / "KTH-SP2-1996-2.1-cln.swf.gz")
    assert len(trace) == 28_476
    answer = forecast_load(trace, at_ms=int(trace.jobs["submit_ms"][20_000]))
    (scope,) = answer.scopes
    assert scope.capacity == 100
    assert 0 < scope.utilisation <= 1.04  # the log has 104 processors in use at times
    check_ranges(answer)
