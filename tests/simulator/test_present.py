from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presage.errors import InputError, UsageError
from presage.policies import Policy
from presage.simulator import jobs_of
from presage.simulator.pooled import schedule
from presage.simulator.present import instant, occupied, parse_instant, present_state
from presage.testing import make_job, make_trace
from presage.traces import Trace, read_trace

from .reference import SCORES, Cluster, Job

CAPACITY = 8
NOW_MS = 100_000


def unfinished(submit_s: float, start_s: float | None = None, **columns: Any) -> dict[str, Any]:
    """A job that runs since `start_s`, or waits."""
    start_ms = None if start_s is None else round(start_s * 1000)
    outcome = "pending" if start_s is None else "running"
    return {"submit_ms": round(submit_s * 1000), "start_ms": start_ms, "outcome": outcome, **columns}


class OccupiedCluster(Cluster):
    """The reference scheduler, started with jobs that run and jobs that wait."""

    def simulate_from(self, now: int, running: list[Job], waiting: list[Job]) -> list[int]:
        self.running = list(running)
        arriving = list(waiting)
        at = now
        while True:
            self.running = [job for job in self.running if job.start + job.run > at]
            for job in self.running:
                if job.planned_end <= at:
                    again = 2 * (at - job.start) + 60_000 if job.start >= now else job.limit
                    job.planned_end = max(job.start + min(job.limit, again), at + 1)
            while arriving and arriving[0].submit <= at:
                self.waiting.append(arriving.pop(0))
            self.decide(at)
            assert self.free >= 0
            events = [job.submit for job in arriving[:1]] + [job.start + job.run for job in self.running]
            if not events:
                return [job.start for job in waiting]
            at = min(events)


@st.composite
def states(draw: st.DrawFn) -> tuple[list[Job], list[Job]]:
    """Running jobs that fit on the machine, and waiting jobs, some of which arrive later; times full of ties."""

    def job(number: int, submit: int, size: int) -> Job:
        run, plan, more = draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(0, 5))
        return Job(number, submit * 1000, run * 1000, plan * 1000, (plan + more) * 1000, size)

    running: list[Job] = []
    free = draw(st.integers(0, CAPACITY))
    while free and len(running) < 5:
        size = draw(st.integers(1, free))
        held = job(len(running), draw(st.integers(80, 100)), size)
        held.start = draw(st.integers(held.submit // 1000, 100)) * 1000
        held.run = NOW_MS - held.start + draw(st.integers(1, 9)) * 1000
        held.planned_end = held.start + held.plan
        running.append(held)
        free -= size
    submits = sorted(draw(st.lists(st.integers(60, 108), min_size=1, max_size=10)))
    waiting = [job(100 + n, submit, draw(st.integers(1, CAPACITY))) for n, submit in enumerate(submits)]
    return running, waiting


def as_trace(running: list[Job], waiting: list[Job]) -> Trace:
    rows = [
        {
            "job_id": str(job.number), "submit_ms": job.submit, "start_ms": job.start if job.start >= 0 else None,
            "run_s": job.run / 1000, "limit_s": job.limit / 1000, "x_plan_s": job.plan / 1000,
            "cpus_alloc": float(job.size),
        }
        for job in [*running, *waiting]
    ]  # fmt: skip
    trace = make_trace(*rows, cpus=CAPACITY)
    return replace(trace, jobs=trace.jobs.with_columns(pl.col("x_plan_s").cast(pl.Float64)))


@settings(max_examples=400)
@given(
    state=states(),
    order=st.sampled_from([*SCORES]),
    backfilling=st.sampled_from(["none", "easy", "easy-sjbf", "conservative"]),
)
def test_starts_are_those_of_a_plain_scheduler_on_an_occupied_machine(
    state: tuple[list[Job], list[Job]], order: str, backfilling: str
) -> None:
    running, waiting = state
    held = occupied(as_trace(running, waiting), NOW_MS, CAPACITY, ("x_plan_s",))
    jobs = jobs_of(held, order_by="x_plan_s", plan_by="x_plan_s")
    found = schedule(jobs, CAPACITY, Policy(order, backfilling))
    cluster = OccupiedCluster(CAPACITY, SCORES[order], backfilling)
    expected = cluster.simulate_from(NOW_MS, running, waiting)
    assert found[-len(waiting) :].tolist() == expected
    assert min(expected) >= NOW_MS
    # The jobs that run end when they would have.
    ends = (found + jobs.run_ms)[: len(running)]
    assert sorted(ends.tolist()) == sorted(job.start + job.run for job in running)


def test_a_state_has_those_who_run_those_who_wait_and_the_history() -> None:
    trace = make_trace(
        make_job(0, 0, 50, 2, outcome="completed"),
        unfinished(10, 20, limit_s=500.0, cpus_alloc=2.0),
        unfinished(30, limit_s=100.0, cpus_req=1.0),
        {"submit_ms": 40_000, "end_ms": 45_000, "outcome": "cancelled"},
        {"submit_ms": 41_000, "outcome": "failed"},
        {"outcome": "pending"},
        # Its scheduler expects it to start and to end then.
        unfinished(60, cpus_req=1.0) | {"start_ms": 900_000, "end_ms": 990_000},
    )
    state = present_state(trace)
    assert state.now_ms == 60_000
    assert state.running["job_id"].to_list() == ["2"]
    assert state.waiting["job_id"].to_list() == ["3", "7"]
    assert state.history["job_id"].to_list() == ["1"]
    assert (state.later, state.unknown) == (0, 2)
    assert state.waiting["start_ms"].null_count() == 2
    assert state.trace.jobs.select("end_ms", "run_s", "wait_s").null_count().row(0) == (3, 3, 3)


def test_an_old_log_has_a_present_at_any_instant() -> None:
    trace = make_trace(
        make_job(0, 0, 50, outcome="completed"),
        make_job(10, 30, 100, outcome="completed"),
        make_job(20, 60, 100),
        make_job(70, 0, 10),
    )
    for now_s, running, waiting, ended, later in [
        (-1, [], [], [], 4),
        (39.999, ["1"], ["2", "3"], [], 1),
        (40, ["1", "2"], ["3"], [], 1),
        (50, ["2"], ["3"], ["1"], 1),
        (70, ["2", "4"], ["3"], ["1"], 0),
        (1000, [], [], ["1", "2", "3", "4"], 0),
    ]:
        state = present_state(trace, round(now_s * 1000))
        assert state.running["job_id"].to_list() == running
        assert state.waiting["job_id"].to_list() == waiting
        assert state.history["job_id"].to_list() == ended
        assert state.later == later


def test_now_is_the_latest_that_the_log_tells_of() -> None:
    def latest(*jobs: dict[str, Any]) -> int:
        return present_state(make_trace(*jobs)).now_ms

    assert latest(unfinished(5), unfinished(1, 9)) == 9000
    assert latest(make_job(0, 0, 50), unfinished(5)) == 50_000
    seen = make_trace(unfinished(1, 9), unfinished(5))
    seen = seen.with_jobs(seen.jobs.with_columns(x_elapsed_s=pl.Series([30.0, None])))
    assert present_state(seen).now_ms == 39_000
    with pytest.raises(InputError, match="no times"):
        latest({"outcome": "pending"})


def test_a_job_that_may_start_only_later_arrives_then() -> None:
    trace = make_trace(
        unfinished(10, cpus_req=8.0) | {"eligible_ms": 500_000},
        unfinished(20, cpus_req=8.0) | {"eligible_ms": 20_000},
    )
    trace = trace.with_jobs(trace.jobs.with_columns(run_s=pl.lit(1.0)))
    held = occupied(trace, NOW_MS, CAPACITY)
    assert held.jobs["job_id"].to_list() == ["(idle)", "2", "1"]
    assert schedule(jobs_of(held), CAPACITY, Policy("fcfs"))[1:].tolist() == [NOW_MS, 500_000]


def test_more_cannot_run_than_the_machine_has() -> None:
    trace = make_trace(unfinished(0, 1, cpus_alloc=6.0), unfinished(0, 1, cpus_alloc=2.5), unfinished(0))
    with pytest.raises(InputError, match="hold 9 processors and the machine has 8"):
        occupied(trace, NOW_MS, CAPACITY)
    assert len(occupied(trace, NOW_MS, 9).jobs) == 3
    assert len(occupied(trace, NOW_MS, 10).jobs) == 4


def test_instants_are_read_and_written_where_the_machine_stands() -> None:
    trace = make_trace(unfinished(1_700_000_000), time_zone="Europe/Berlin")
    at_ms = 1_700_000_000_000
    assert parse_instant("2d", trace) == at_ms + 2 * 86_400_000
    assert parse_instant("2023-11-14T23:13:20", trace) == at_ms
    assert parse_instant("2023-11-14T22:13:20Z", trace) == at_ms
    assert instant(trace, at_ms) == "2023-11-14 23:13 CET"
    assert instant(make_trace(unfinished(0), absolute_time=False), 129_600_000) == "day 1.50"
    before_ms = time.time() * 1000
    assert before_ms - 1 <= parse_instant(" now ", trace) <= time.time() * 1000 + 1
    with pytest.raises(UsageError, match="now is nowhere"):
        parse_instant("now", make_trace(unfinished(0), absolute_time=False))
    for text in ("", "soon", "2024-13-01", "-2d"):
        with pytest.raises(UsageError, match="no instant"):
            parse_instant(text, trace)


def test_a_live_slurm_cluster_is_understood(tmp_path: Path) -> None:
    log = tmp_path / "jobs.txt"
    log.write_text(
        "JobID|User|Submit|Start|End|Elapsed|State|ReqCPUS|AllocCPUS|Timelimit\n"
        "1|ada|2024-03-04T08:00:00|2024-03-04T08:00:00|2024-03-04T08:30:00|00:30:00|COMPLETED|4|4|01:00:00\n"
        "2|ada|2024-03-04T08:30:00|2024-03-04T08:30:00|Unknown|00:45:00|RUNNING|4|4|02:00:00\n"
        "3|bob|2024-03-04T08:40:00|2024-03-04T10:30:00|Unknown|00:00:00|PENDING|8|0|01:00:00\n"
        "4|eve|2024-03-04T08:50:00|Unknown|Unknown|00:00:00|PENDING|2|0|00:20:00\n"
    )
    state = present_state(read_trace(log))
    assert instant(state.trace, state.now_ms) == "2024-03-04 09:15 UTC"
    assert state.running["job_id"].to_list() == ["2"]
    assert state.waiting["job_id"].to_list() == ["3", "4"]
    assert state.history["run_s"].to_list() == [1800]


@settings(max_examples=50)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "submit_ms": st.none() | st.integers(-5000, 5000),
                "start_ms": st.none() | st.integers(-5000, 5000),
                "end_ms": st.none() | st.integers(-5000, 5000),
                "run_s": st.none() | st.floats(0, 5),
                "outcome": st.none() | st.sampled_from(["running", "pending", "completed", "cancelled"]),
            }
        ),
        min_size=1,
        max_size=8,
    ),
    now_ms=st.none() | st.integers(-6000, 6000),
)
def test_no_job_is_lost_and_none_counted_twice(rows: list[dict[str, Any]], now_ms: int | None) -> None:
    trace = make_trace(*rows)
    try:
        state = present_state(trace, now_ms)
    except InputError:
        assert all(row["submit_ms"] is None for row in rows)
        return
    present = len(state.running) + len(state.waiting)
    assert present + state.ended + state.later + state.unknown == len(trace)
    assert not {*state.history["job_id"]} & {*state.trace.jobs["job_id"]}
    assert (state.running["start_ms"] <= state.now_ms).all()
    assert (state.trace.jobs["submit_ms"] <= state.now_ms).all()
    assert state.trace.jobs["submit_ms"].null_count() == 0
