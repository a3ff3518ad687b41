from __future__ import annotations

from dataclasses import replace

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from presage.testing import make_job, make_trace
from presage.traces import schema
from presage.traces.events import EVENTS
from presage.traces.trace import Trace


def with_attempts(trace: Trace, *rows: dict[str, object]) -> Trace:
    attempts = schema.conform(pl.DataFrame(rows, infer_schema_length=None), "attempts")
    return replace(trace, attempts=attempts)


def told(trace: Trace) -> list[tuple[int, str, str]]:
    return trace.events().select(pl.col("time_ms") // 1000, "event", "job_id").rows()


def test_plain_jobs_submit_start_and_end() -> None:
    trace = make_trace(
        make_job(0, 5, 10, outcome="completed", eligible_ms=1000),
        make_job(2, 0, 3, outcome="timeout"),
        {"submit_ms": 4000, "end_ms": 6000, "outcome": "cancelled"},
        {"submit_ms": 7000, "outcome": "pending"},
    )
    assert told(trace) == [
        (0, "submit", "1"),
        (1, "eligible", "1"),
        (2, "submit", "2"),
        (2, "start", "2"),
        (4, "submit", "3"),
        (5, "start", "1"),
        (5, "timeout", "2"),
        (6, "cancel", "3"),
        (7, "submit", "4"),
        (15, "finish", "1"),
    ]


def test_a_job_of_zero_length_starts_before_it_ends() -> None:
    assert [event for _, event, _ in told(make_trace(make_job(0, 0, 0, outcome="failed")))] == [
        "submit",
        "start",
        "fail",
    ]


def test_attempts_tell_evictions_suspensions_and_requeues() -> None:
    trace = with_attempts(
        make_trace({"submit_ms": 0, "start_ms": 50_000, "end_ms": 60_000, "outcome": "completed"}),
        {"job_id": "1", "attempt": 0, "start_ms": 1_000, "end_ms": 5_000, "outcome": "suspended"},
        {"job_id": "1", "attempt": 1, "start_ms": 8_000, "end_ms": 9_000, "outcome": "preempted"},
        {"job_id": "1", "attempt": 2, "start_ms": 20_000, "end_ms": 25_000, "outcome": "node_failure"},
        {
            "job_id": "1",
            "attempt": 3,
            "queued_ms": 30_000,
            "start_ms": 40_000,
            "end_ms": 45_000,
            "outcome": "requeued",
        },
        {"job_id": "1", "attempt": 4, "start_ms": 50_000, "end_ms": 60_000, "outcome": "completed"},
    )
    assert [(time, event) for time, event, _ in told(trace)] == [
        (0, "submit"),
        (1, "start"),
        (5, "suspend"),
        (8, "resume"),
        (9, "evict"),
        (9, "requeue"),
        (20, "start"),
        (25, "fail"),
        (30, "requeue"),
        (40, "start"),
        (45, "requeue"),
        (50, "start"),
        (60, "finish"),
    ]


def test_a_job_cancelled_after_its_last_attempt_ends_once_more() -> None:
    trace = with_attempts(
        make_trace({"submit_ms": 0, "end_ms": 9_000, "outcome": "cancelled"}),
        {"job_id": "1", "attempt": 0, "start_ms": 1_000, "end_ms": 5_000, "outcome": "preempted"},
    )
    assert told(trace)[-2:] == [(5, "evict", "1"), (9, "cancel", "1")]


def test_members_of_a_gang_have_events_of_their_own_beside_the_job() -> None:
    trace = with_attempts(
        make_trace(make_job(0, 1, 9, outcome="completed")),
        {"job_id": "1", "task": 0, "attempt": 0, "start_ms": 1_000, "end_ms": 9_000, "outcome": "completed"},
        {"job_id": "1", "task": 1, "attempt": 0, "start_ms": 2_000, "end_ms": 10_000, "outcome": "completed"},
    )
    events = trace.events()
    assert events.filter(pl.col("task").is_null())["event"].to_list() == ["submit", "start", "finish"]
    assert events.filter(pl.col("task") == 1)["time_ms"].to_list() == [2_000, 10_000]


durations = st.integers(0, 50)


@given(st.lists(st.tuples(durations, durations, durations), min_size=1, max_size=30))
def test_every_job_submits_starts_and_ends_once_in_order(jobs: list[tuple[int, int, int]]) -> None:
    trace = make_trace(*(make_job(*times, outcome="completed") for times in jobs))
    events = trace.events()
    assert events["time_ms"].is_sorted()
    assert set(events["event"].unique()) <= set(EVENTS)
    per_job = events.group_by("job_id", maintain_order=True).agg("event")
    assert all(list(row) == ["submit", "start", "finish"] for row in per_job["event"])
    assert len(per_job) == len(jobs)
