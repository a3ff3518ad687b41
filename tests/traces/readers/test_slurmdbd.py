from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from presage.testing import ReaderContract
from presage.traces import Trace, read_trace

SAMPLE = Path(__file__).parents[2] / "fixtures" / "traces" / "slurmdbd.csv"
MIB = 2**20


class TestSlurmdbd(ReaderContract):
    format = "slurmdbd"
    sample = SAMPLE
    jobs = 7


@pytest.fixture(scope="module")
def trace() -> Trace:
    return read_trace(SAMPLE)


def job(trace: Trace, job_id: str) -> dict[str, Any]:
    return trace.jobs.row(by_predicate=pl.col("job_id") == job_id, named=True)


def test_epochs_minutes_and_numbers_for_states(trace: Trace) -> None:
    second = job(trace, "6002")
    assert (second["submit_ms"], second["wait_s"], second["run_s"]) == (1_700_000_010_000, 190, 60)
    assert (second["limit_s"], second["outcome"], second["status"]) == (86400, "failed", "5")
    assert (second["exit_code"], second["signal"]) == (1, None)  # 256 of wait(2)
    killed = job(trace, "6004")
    assert (killed["outcome"], killed["exit_code"], killed["signal"]) == ("out_of_memory", 0, 9)
    assert job(trace, "6001")["limit_s"] is None
    assert trace.manifest.counts["unlimited"] == 1


def test_resources_by_number(trace: Trace) -> None:
    second = job(trace, "6002")
    assert (second["cpus_req"], second["mem_req_bytes"], second["nodes_req"]) == (40, 340000 * MIB, 2)
    assert (second["gpus_req"], second["gpus_alloc"]) == (4, 4)
    assert job(trace, "6001")["gpus_req"] == 0
    assert any("TRES 1002 is read as GPUs" in note for note in trace.manifest.notes)
    assert second["node_list"] == ["r1-n1", "r2-n5"]


def test_no_value_is_null(trace: Trace) -> None:
    first, second = job(trace, "6001"), job(trace, "6002")
    assert (first["array_id"], first["array_task"]) == (None, None)
    assert (second["array_id"], second["array_task"]) == ("6002", 7)
    assert second["constraint"] is None  # \N
    running = job(trace, "6006")
    assert (running["outcome"], running["end_ms"], running["mem_req_bytes"]) == ("running", None, None)
    never = job(trace, "6003")
    assert (never["start_ms"], never["wait_s"], never["node_list"], never["outcome"]) == (
        None,
        None,
        None,
        "cancelled",
    )


def test_requeued_records_are_folded_and_reused_ids_are_not(trace: Trace) -> None:
    assert (job(trace, "6005")["restarts"], job(trace, "6005")["wait_s"]) == (1, 129)
    assert trace.attempts["outcome"].to_list() == ["requeued", "completed"]
    assert job(trace, "6001~2")["user"] == "2003"


def test_memory_per_cpu_where_the_table_has_no_resources(tmp_path: Path) -> None:
    path = tmp_path / "job_table.tsv"
    path.write_text(
        "id_job\ttime_submit\ttime_start\ttime_end\ttimelimit\tstate\tcpus_req\tmem_req\tjob_name\tnodelist\n"
        '1\t1700000000\t1700000001\t1700000002\t5\t3\t4\t9223372036854775908\tan "odd", name\tn[1-2]\n'
        "2\t1700000000\t1700000001\t1700000002\t5\t3\t4\t300\tNULL\tn3\n"
    )
    trace = read_trace(path)  # as `mysql --batch` prints it
    assert trace.manifest.sources[0].format == "slurmdbd"
    assert trace.jobs["mem_req_bytes"].to_list() == [400 * MIB, 300 * MIB]
    assert trace.jobs["name"].to_list() == ['an "odd", name', None]
    assert trace.jobs["node_list"].to_list() == [["n1", "n2"], ["n3"]]


@pytest.mark.shared_data
def test_the_sample_of_mit_supercloud(shared_data: Path) -> None:
    trace = read_trace(shared_data / "mit-supercloud-2021-sample.csv.gz")
    jobs = trace.jobs
    assert (len(jobs), len(trace.rejects)) == (9_628, 0)
    assert trace.manifest.counts["duplicate_ids"] == 9_628 - 9_582
    assert jobs["user"].n_unique() == 322
    assert dict(jobs["outcome"].value_counts().iter_rows()) == {
        "completed": 5_784, "cancelled": 1_893, "failed": 1_077, "timeout": 841, "out_of_memory": 21,
        "node_failure": 12,
    }  # fmt: skip
    assert trace.manifest.counts["unlimited"] == 3_216
    assert jobs.select((pl.col("gpus_req") > 0).sum()).item() == 2_368
    assert (jobs["node_list"].list.len() == jobs["nodes_alloc"]).all()
    author = jobs.select((pl.col("run_s") - pl.col("x_service_time").cast(pl.Float64)).abs().max()).item()
    assert author == 0
