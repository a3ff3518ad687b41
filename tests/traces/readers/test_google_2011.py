from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from presage.testing import ReaderContract
from presage.traces import Trace, read_trace

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"
JOBS, TASKS = FIXTURES / "google_2011_jobs.csv", FIXTURES / "google_2011_tasks.csv"


class TestGoogle2011Jobs(ReaderContract):
    format = "google-2011-jobs"
    sample = JOBS
    jobs = 6


class TestGoogle2011Tasks(ReaderContract):
    format = "google-2011-tasks"
    sample = TASKS
    jobs = 4


def job(trace: Trace, job_id: int) -> dict[str, Any]:
    return trace.jobs.row(by_predicate=pl.col("job_id") == str(job_id), named=True)


def test_folds_job_events() -> None:
    trace = read_trace(JOBS)
    sort = job(trace, 502)
    assert (sort["submit_ms"], sort["start_ms"], sort["end_ms"]) == (600_100, 600_600, 610_600)
    assert (sort["wait_s"], sort["run_s"]) == (0.5, 10.000001)
    assert (sort["outcome"], sort["status"], sort["qos"], sort["cpus_req"]) == ("completed", "finish", "0", None)
    assert len(sort["user"]) == len(sort["name"]) == len(sort["x_logical_name"]) == 44
    assert trace.manifest.absolute_time is False
    assert trace.manifest.counts["events_reconstructed"] == 1


def test_times_out_of_the_trace_are_missing() -> None:
    trace = read_trace(JOBS)
    before, after = job(trace, 501), job(trace, 506)
    assert (before["submit_ms"], before["start_ms"], before["wait_s"], before["outcome"]) == (
        None,
        None,
        None,
        "running",
    )
    assert (after["end_ms"], after["run_s"], after["outcome"], after["status"]) == (None, None, None, "lost")
    assert trace.manifest.counts["submitted_before_the_trace"] == 1


def test_jobs_that_were_evicted_or_never_started() -> None:
    trace = read_trace(JOBS)
    again, killed, queued = job(trace, 504), job(trace, 503), job(trace, 505)
    assert (again["submit_ms"], again["start_ms"], again["run_s"], again["restarts"]) == (
        602_000,
        606_500,
        14.0,
        1,
    )
    assert (again["outcome"], trace.attempts["outcome"].to_list()) == ("failed", ["preempted", "failed"])
    assert (killed["start_ms"], killed["end_ms"], killed["outcome"]) == (None, 611_000, "cancelled")
    assert (queued["start_ms"], queued["end_ms"], queued["outcome"]) == (None, None, "pending")


def test_folds_task_events_into_attempts() -> None:
    trace = read_trace(TASKS)
    columns = ["job_id", "task", "attempt", "queued_ms", "start_ms", "end_ms", "outcome", "node_list", "cpus"]
    assert trace.attempts.select(columns).rows() == [
        ("71", 0, 0, 1_000_000, 1_000_500, 1_010_500, "completed", ["11"], 0.0625),
        ("71", 1, 0, 1_000_000, 1_001_000, 1_002_000, "preempted", ["12"], 0.125),
        ("71", 1, 1, 1_002_000, 1_004_000, 1_020_000, "completed", ["11"], 0.25),
        ("72", 5, 0, None, None, 1_002_500, "completed", ["13"], 0.25),
        ("72", 5, 1, 1_002_600, 1_002_700, None, "running", ["14"], 0.25),
        ("73", 0, 0, 1_021_000, 1_022_000, 1_023_000, "failed", ["15"], 0.5),
    ]
    assert trace.manifest.counts["stretches_never_run"] == 2  # killed in the queue, still in the queue
    assert trace.manifest.counts["machines"] == 5


def test_jobs_are_what_their_tasks_add_up_to() -> None:
    trace = read_trace(TASKS)
    whole, cut, failed, queued = (job(trace, number) for number in (71, 72, 73, 74))
    assert (whole["submit_ms"], whole["start_ms"], whole["end_ms"]) == (1_000_000, 1_000_500, 1_020_000)
    assert (whole["tasks"], whole["cpus_req"], whole["x_mem_req_normalised"]) == (2, 0.3125, 0.09375)
    assert (whole["outcome"], whole["node_list"]) == ("completed", ["11", "12"])
    assert whole["run_s"] == pytest.approx(19.500001)
    assert (whole["priority"], whole["mem_req_bytes"], whole["constraint"]) == (1.0, None, None)
    assert (cut["submit_ms"], cut["start_ms"], cut["outcome"], cut["constraint"]) == (
        None, None, "running", "different machines",
    )  # fmt: skip
    assert (failed["outcome"], failed["end_ms"], failed["tasks"]) == ("failed", 1_023_500, 2)
    assert (queued["outcome"], queued["node_list"], queued["cpus_req"]) == ("pending", None, None)


def test_parts_are_folded_together_in_any_order(tmp_path: Path) -> None:
    for sample in (JOBS, TASKS):
        lines = sample.read_text().splitlines(keepends=True)
        first, second = tmp_path / "part-0.csv", tmp_path / "part-1.csv"
        first.write_text("".join(lines[:9]))
        second.write_text("".join(lines[9:]))
        whole, parts = read_trace(sample), read_trace(second, first)
        assert_frame_equal(parts.jobs, whole.jobs)
        assert_frame_equal(parts.attempts, whole.attempts)


@pytest.mark.parametrize("row", ["x,,502,0,u,0,n,l", "600,,,0,u,0,n,l", "600,,502,9,u,0,n,l", "600,,502,,u,0,n,l"])
def test_rejects_rows_that_are_no_events(tmp_path: Path, row: str) -> None:
    path = tmp_path / "events.csv"
    path.write_text(JOBS.read_text() + row + "\n")
    trace = read_trace(path, format="google-2011-jobs")
    assert len(trace) == 6
    assert trace.rejects["line"].to_list() == [18]


@pytest.mark.shared_data
def test_reads_the_real_job_events(shared_data: Path) -> None:
    trace = read_trace(shared_data / "google-2011-job_events-000-099.csv.gz")
    assert trace.manifest.sources[0].rows == 393_993
    assert len(trace) == 132_650
    assert len(trace.rejects) == 0
    span_d = (trace.jobs["submit_ms"].max() - 600_000) / 86_400_000  # type: ignore[operator]
    assert 5.7 < span_d < 5.9
    # Every row at time 0 is the submission or the start of a job that has neither here.
    at_zero = trace.jobs.select(
        (pl.col("submit_ms").is_null()).sum() + (pl.col("start_ms").is_null()).sum()
    ).item()
    assert at_zero == pytest.approx(7_970, abs=20)


@pytest.mark.shared_data
def test_reads_the_real_task_events(shared_data: Path) -> None:
    trace = read_trace(shared_data / "google-2011-task_events-001-002.csv.gz")
    assert trace.manifest.sources[0].rows == 238_418
    assert (len(trace), trace.manifest.counts["machines"]) == (2_600, 11_541)
    outcomes = dict(trace.attempts["outcome"].value_counts().iter_rows())
    assert (outcomes["preempted"], outcomes["failed"]) == (11_809, 6_043)
    assert len(trace.rejects) == 0
