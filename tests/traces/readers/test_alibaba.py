from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from presage.testing import ReaderContract
from presage.traces import Source, Trace, detect, read_trace

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"
TASKS, INSTANCES, SPOT_JOBS = (FIXTURES / f"alibaba_{year}.csv" for year in (2017, 2025, 2026))
GIB = 2**30


class TestAlibaba2017(ReaderContract):
    format = "alibaba-2017"
    sample = TASKS
    jobs = 6


class TestAlibaba2025(ReaderContract):
    format = "alibaba-2025"
    sample = INSTANCES
    jobs = 4


class TestAlibaba2026(ReaderContract):
    format = "alibaba-2026"
    sample = SPOT_JOBS
    jobs = 3


def row(trace: Trace, job_id: str) -> dict[str, object]:
    return trace.jobs.row(by_predicate=pl.col("job_id") == job_id, named=True)


def test_a_task_is_a_job_of_all_its_instances() -> None:
    task = row(read_trace(TASKS), "7.21")
    assert (task["array_id"], task["array_task"], task["tasks"], task["cpus_req"]) == ("7", 21, 40, 20.0)
    assert (task["submit_ms"], task["end_ms"], task["outcome"]) == (500_000, 620_000, "completed")
    assert (task["start_ms"], task["run_s"]) == (None, None)


def test_tasks_that_have_not_ended_have_no_end() -> None:
    trace = read_trace(TASKS)
    assert (row(trace, "8.22")["end_ms"], row(trace, "8.22")["outcome"]) == (None, "pending")
    assert (row(trace, "9.23")["end_ms"], row(trace, "9.23")["outcome"]) == (None, "running")
    assert row(trace, "8.22")["cpus_req"] is None


def test_times_before_the_trace_are_kept_and_backward_ones_are_not() -> None:
    trace = read_trace(TASKS)
    assert row(trace, "6.19")["submit_ms"] == -60_000
    assert row(trace, "9.24")["end_ms"] is None
    assert trace.manifest.counts["ends_before_submit"] == 1


def test_the_original_has_no_header(tmp_path: Path) -> None:
    bare = tmp_path / "batch_task.csv"
    bare.write_text("\n".join(TASKS.read_text().splitlines()[1:]) + "\n")
    assert detect(Source(bare)) == "alibaba-2017"
    assert read_trace(bare).jobs.equals(read_trace(TASKS).jobs)


def test_instances_may_begin_before_and_end_after_the_trace() -> None:
    trace = read_trace(INSTANCES)
    throughout, within, left, early = (row(trace, f"inst_{i}") for i in range(4))
    assert (throughout["submit_ms"], throughout["end_ms"], throughout["outcome"]) == (None, None, "running")
    assert (within["wait_s"], within["run_s"], within["outcome"]) == (60.0, 3600.0, None)
    assert (left["start_ms"], left["outcome"]) == (2_000_000, "running")
    assert (early["submit_ms"], early["end_ms"], early["outcome"]) == (None, 9_000_000, None)


def test_instances_keep_what_limits_their_placement() -> None:
    trace = read_trace(INSTANCES)
    assert [row(trace, f"inst_{i}")["x_max_per_node"] for i in range(3)] == [8, None, None]
    first = row(trace, "inst_0")
    assert (first["mem_req_bytes"], first["gpus_req"]) == (int(120.5 * GIB), 1.0)
    assert (first["x_rdma_percent"], first["x_disk_bytes"]) == (25.0, 640 * GIB)


def test_spot_jobs_multiply_by_their_workers() -> None:
    trace = read_trace(SPOT_JOBS)
    gang = row(trace, "5002")
    assert (gang["tasks"], gang["cpus_req"], gang["gpus_req"], gang["preemptible"]) == (16, 240.0, 16.0, True)
    assert row(trace, "5001")["preemptible"] is False
    assert row(trace, "5003")["run_s"] == 120.5


def test_spot_nodes_beside_jobs_are_the_machine(tmp_path: Path) -> None:
    nodes = tmp_path / "node_info_df.csv"
    nodes.write_text("gpu_model,gpu_capacity_num,cpu_num,node_name\nA10,1,128,0\nH800,8,192,1\n")
    trace = read_trace(SPOT_JOBS, nodes)
    assert (len(trace), trace.manifest.machine.gpus, trace.manifest.machine.cpus) == (3, 9.0, 320.0)


@pytest.mark.shared_data
def test_the_2017_tasks_are_read_whole(shared_data: Path) -> None:
    trace = read_trace(shared_data / "alibaba-2017-batch_task.csv.gz")
    assert (len(trace), len(trace.rejects)) == (80_553, 0)
    assert trace.jobs["array_id"].n_unique() == 12_951
    statuses = dict(trace.jobs.group_by("status").len().iter_rows())
    assert statuses == {"Terminated": 67_013, "Waiting": 8847, "Running": 3567, "Failed": 1126}
    assert trace.jobs["tasks"].max() == 64_486
    # Of the 209 rows that end before they start, 208 have end 0 because they run.
    assert trace.manifest.counts["ends_before_submit"] == 1
    assert trace.jobs["end_ms"].null_count() == 8847 + 3567 + 1


@pytest.mark.shared_data
def test_the_2025_instances_are_read_whole(shared_data: Path) -> None:
    trace = read_trace(shared_data / "alibaba-2025-dlrm.csv.gz")
    jobs = trace.jobs
    assert (len(trace), len(trace.rejects)) == (23_871, 0)
    assert (jobs["name"].n_unique(), jobs["gpus_req"].sum()) == (156, 7386.0)
    assert (jobs["submit_ms"].null_count(), jobs["end_ms"].null_count()) == (7280, 8878)
    assert (jobs["kind"] == "HN").sum() == 7386


@pytest.mark.shared_data
def test_the_2026_nodes_are_read_whole(shared_data: Path) -> None:
    trace = read_trace(shared_data / "alibaba-2026-spot-nodes.csv.gz")
    assert (len(trace), len(trace.nodes), trace.manifest.machine.gpus) == (0, 4278, 10_412.0)
    assert trace.nodes["gpu_type"].n_unique() == 6
