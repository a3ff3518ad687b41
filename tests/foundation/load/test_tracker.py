from __future__ import annotations

import time
from dataclasses import asdict

import pytest

from presage.errors import UsageError
from presage.foundation.load import LoadTracker, forecast_load
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace
from tests.foundation.load.examples import HOUR_S, busy_trace


def replay(trace: Trace, tracker: LoadTracker, until_s: float) -> None:
    """Tell a tracker everything that happened in a trace until an instant, in the order of time."""
    events = []
    for row in trace.jobs.to_dicts():
        submit = row["submit_ms"] / 1000
        events.append((submit, 1, "submit", row))
        if row["start_ms"] is not None:
            events.append((row["start_ms"] / 1000, 2, "start", row))
        events.append((row["end_ms"] / 1000, 3, "end", row))
    for at_s, _, what, row in sorted(events, key=lambda event: event[:2]):
        if at_s > until_s:
            break
        if what == "submit":
            tracker.submit(row["job_id"], at_s, row["cpus_alloc"], limit_s=row["limit_s"], user=row["user"])
        elif what == "start":
            tracker.start(row["job_id"], at_s)
        else:
            tracker.end(row["job_id"], at_s)


def test_a_tracker_says_what_a_whole_log_says() -> None:
    # A first submit right at the beginning makes both count the same hours.
    anchor = make_job(0.5, 0, 60, 1, user="ada", limit_s=600.0, outcome="completed") | {"job_id": "anchor"}
    busy = busy_trace(days=6)
    trace = make_trace(anchor, *busy.jobs.to_dicts(), cpus=32)
    now_s = 5 * 24 * HOUR_S
    tracker = LoadTracker(32, 0.0)
    replay(trace, tracker, now_s)
    live = [asdict(hour) for hour in tracker.forecast(now_s)]
    (scope,) = forecast_load(trace, at_ms=round(now_s * 1000)).scopes
    for ours, theirs in zip(live, map(asdict, scope.hours), strict=True):
        assert ours["at_ms"] == theirs["at_ms"]
        for name in ("utilisation", "queue_length", "waiting_hours"):
            assert ours[name] == pytest.approx(theirs[name], rel=1e-4, abs=1e-4)
        for size, expected in theirs["wait_s"].items():
            assert ours["wait_s"][size] == pytest.approx(expected, rel=1e-3, abs=0.1)


def test_an_answer_comes_at_once_after_the_first() -> None:
    tracker = LoadTracker(32, 0.0)
    now_s = 4 * 24 * HOUR_S
    replay(busy_trace(days=5), tracker, now_s)
    tracker.forecast(now_s)
    begin_s = time.process_time()
    tracker.forecast(now_s + HOUR_S)
    assert time.process_time() - begin_s < 0.25  # 4 ms were measured


def test_a_tracker_tells_what_it_cannot_do() -> None:
    tracker = LoadTracker(4, 1000.0)
    with pytest.raises(UsageError, match="full"):
        tracker.forecast(1500.0)
    with pytest.raises(UsageError, match="order"):
        tracker.submit("1", 1400.0, 1)
    tracker.start("never heard of", 1600.0)
    tracker.end("never heard of", 1700.0)
    with pytest.raises(UsageError):
        LoadTracker(0, 0.0)
