from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from presage.errors import UnreadableSourceError
from presage.testing import ReaderContract
from presage.traces import ReadOptions, Trace, read_trace

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"
LOG, FLAT = FIXTURES / "philly.json", FIXTURES / "philly_flat.csv"


class TestPhilly(ReaderContract):
    format = "philly"
    sample = LOG
    jobs = 5
    line_based = False


class TestPhillyFlat(ReaderContract):
    format = "philly-flat"
    sample = FLAT
    jobs = 5


def ms(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=UTC).timestamp()) * 1000


def job(trace: Trace, number: int) -> dict[str, object]:
    return next(row for row in trace.jobs.iter_rows(named=True) if row["job_id"].endswith(f"000{number}"))


def test_local_times_are_pacific() -> None:
    trace = read_trace(LOG)
    assert trace.manifest.time_zone == "America/Los_Angeles"
    assert job(trace, 1)["submit_ms"] == ms(2017, 10, 2, 16)  # PDT
    assert job(trace, 5)["submit_ms"] == ms(2017, 12, 1, 17)  # PST


@pytest.mark.parametrize(("zone", "hour"), [("UTC", 9), ("Asia/Tokyo", 0)])
def test_options_may_name_another_zone(zone: str, hour: int) -> None:
    trace = read_trace(LOG, options=ReadOptions(time_zone=zone))
    assert job(trace, 1)["submit_ms"] == ms(2017, 10, 2, hour)


def test_a_job_is_its_last_attempt_and_keeps_the_others() -> None:
    trace = read_trace(LOG)
    first = job(trace, 1)
    assert (first["wait_s"], first["run_s"], first["restarts"]) == (21 * 60, 7200, 1)
    assert (first["gpus_req"], first["node_list"]) == (4.0, ["m3"])
    attempts = trace.attempts.to_dicts()
    assert [row["job_id"] for row in attempts] == [first["job_id"]] * 2
    assert [row["node_list"] for row in attempts] == [["m1", "m2"], ["m3"]]
    assert [row["gpus"] for row in attempts] == [4.0, 4.0]
    assert [row["outcome"] for row in attempts] == [None, "completed"]
    assert attempts[0]["queued_ms"] == first["submit_ms"]
    assert attempts[1]["queued_ms"] == attempts[0]["end_ms"]


def test_jobs_without_attempts_or_times_keep_their_outcome() -> None:
    trace = read_trace(LOG)
    assert (job(trace, 2)["outcome"], job(trace, 2)["start_ms"]) == ("cancelled", None)
    assert (job(trace, 5)["outcome"], job(trace, 5)["start_ms"]) == ("failed", None)


def test_a_last_attempt_without_end_is_still_running() -> None:
    running = job(read_trace(LOG), 4)
    assert (running["outcome"], running["status"], running["run_s"]) == ("running", "Pass", None)


def test_a_run_across_the_repeated_hour_has_its_true_length() -> None:
    across = job(read_trace(LOG), 3)
    assert across["start_ms"] == ms(2017, 11, 5, 8, 50)  # 01:50 PDT
    assert across["end_ms"] == ms(2017, 11, 5, 9, 10)  # 01:10 PST
    assert across["run_s"] == 20 * 60


def test_a_job_that_is_none_is_rejected_by_its_position(tmp_path: Path) -> None:
    jobs = json.loads(LOG.read_text())
    damaged = tmp_path / "log.json"
    jobs[1] = {**jobs[1], "attempts": "many"}
    jobs[3] = {**jobs[3], "submitted_time": "yesterday"}
    damaged.write_text(json.dumps([*jobs, 7]))
    trace = read_trace(damaged, format="philly")
    assert len(trace) == 3
    reasons = trace.rejects["reason"].to_list()
    assert reasons == [
        "item 2 has attempts that are no list of objects",
        "item 6 is no JSON object",
        "submitted_time: 'yesterday' is not a time",
    ]


def test_bad_rows_at_the_end_cost_no_other(tmp_path: Path) -> None:
    good = json.loads(LOG.read_text())[:2]
    bad = [{**good[0], "jobid": "b1", "submitted_time": "?"}, {**good[1], "jobid": "b2", "submitted_time": {}}]
    path = tmp_path / "log.json"
    path.write_text(json.dumps([*good, *bad]))
    trace = read_trace(path)
    assert (len(trace), trace.rejects["line"].to_list()) == (2, [3, 4])


@pytest.mark.parametrize(("text", "complaint"), [("{}", "no list"), ("[]", "no job"), ("[{", "whole JSON")])
def test_a_document_without_jobs_is_a_clear_error(tmp_path: Path, text: str, complaint: str) -> None:
    other = tmp_path / "log.json"
    other.write_text(text)
    with pytest.raises(UnreadableSourceError, match=complaint):
        read_trace(other, format="philly")


def test_machines_beside_jobs_are_nodes(tmp_path: Path) -> None:
    machines = tmp_path / "cluster_machine_list"
    machines.write_text("machineId, number of GPUs,single GPU mem\nm1,8, 24GB\nm2,2,12GB\n")
    trace = read_trace(LOG, machines)
    assert (len(trace), trace.manifest.machine.gpus) == (5, 10.0)
    assert trace.nodes["gpu_mem_bytes"].to_list() == [24 * 2**30, 12 * 2**30]


def test_equal_rows_of_the_flat_log_are_different_jobs() -> None:
    trace = read_trace(FLAT)
    assert not len(trace.rejects)
    assert trace.jobs["job_id"].to_list() == ["2", "1", "5", "3", "4"]
    assert trace.jobs["gpus_req"].sum() == 138.0
    assert trace.jobs["submit_ms"][0] == ms(2017, 10, 2, 6, 59, 59)
    assert trace.jobs["submit_ms"][4] == ms(2017, 11, 5, 10, 30)


@pytest.mark.shared_data
def test_the_flat_log_is_read_whole(shared_data: Path) -> None:
    trace = read_trace(shared_data / "philly-2017-gpu-jobs.csv.gz")
    jobs = trace.jobs
    assert (len(trace), len(trace.rejects)) == (66_156, 0)
    assert jobs["partition"].n_unique() == 14
    assert jobs["gpus_req"].max() == 128
    assert (jobs["gpus_req"] * jobs["run_s"]).sum() == 3_419_907_039.0  # the log's own sum of gpu_time
    assert jobs["submit_ms"].min() == ms(2017, 9, 4, 17, 30, 41)
    assert jobs["submit_ms"].max() == ms(2017, 12, 22, 15, 41, 13)


@pytest.mark.shared_data
def test_the_documented_example_is_read(shared_data: Path) -> None:
    trace = read_trace(shared_data / "format-samples" / "philly_cluster_job_log.json")
    assert trace.jobs["wait_s"].to_list() == [111.0]
    assert trace.jobs["run_s"].to_list() == [193_182.0]
    assert trace.attempts["gpus"].to_list() == [8.0, 8.0]
