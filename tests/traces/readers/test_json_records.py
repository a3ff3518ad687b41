from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from presage.testing import ReaderContract
from presage.traces import Trace, read_trace
from presage.traces.schema import JOBS
from presage.traces.writers.jsonl import JsonLinesWriter

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"
SAMPLE = FIXTURES / "json_records.jsonl"
EIGHT = 1_709_539_200_000  # 2024-03-04T08:00:00Z
GIB = 2**30


class TestJsonRecords(ReaderContract):
    format = "jsonl"
    sample = SAMPLE
    jobs = 5


def read_records(folder: Path, *records: dict[str, Any]) -> Trace:
    path = folder / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return read_trace(path, format="jsonl")


def job(trace: Trace, job_id: str) -> dict[str, Any]:
    return trace.jobs.row(by_predicate=pl.col("job_id") == job_id, named=True)


def test_folds_events_into_jobs() -> None:
    train = job(read_trace(SAMPLE), "train-17")
    assert train["submit_ms"] == EIGHT
    assert train["start_ms"] == EIGHT + 300_000
    assert train["end_ms"] == EIGHT + 95 * 60_000 + 500
    assert (train["wait_s"], train["run_s"]) == (300.0, 5400.5)
    assert (train["outcome"], train["status"], train["exit_code"]) == ("completed", "completed", 0)
    assert (train["cpus_req"], train["gpus_req"], train["limit_s"]) == (8.0, 2.0, 7200.0)
    assert (train["mem_req_bytes"], train["queue"], train["user"]) == (4 * GIB, "gpu", "ada")
    assert train["node_list"] == ["n1", "n2"]


def test_a_job_that_ran_twice_has_attempts_and_its_last_start() -> None:
    trace = read_trace(SAMPLE)
    fit = job(trace, "fit-2")
    assert (fit["start_ms"], fit["end_ms"], fit["restarts"]) == (EIGHT + 570_000, EIGHT + 1_230_000, 1)
    assert (fit["outcome"], fit["mem_req_bytes"], fit["x_team"]) == ("out_of_memory", 512 * 2**20, "vision")
    columns = ["job_id", "attempt", "queued_ms", "start_ms", "end_ms", "outcome"]
    assert trace.attempts.select(columns).rows() == [
        ("fit-2", 0, EIGHT + 30_000, EIGHT + 90_000, EIGHT + 390_000, "preempted"),
        ("fit-2", 1, EIGHT + 450_000, EIGHT + 570_000, EIGHT + 1_230_000, "out_of_memory"),
    ]
    assert trace.manifest.counts["events_folded"] == 10


def test_what_the_events_do_not_tell_is_missing() -> None:
    trace = read_trace(SAMPLE)
    cancelled, cut_off, running = job(trace, "etl-3"), job(trace, "old-1"), job(trace, "live-9")
    assert (cancelled["start_ms"], cancelled["run_s"], cancelled["outcome"]) == (None, None, "cancelled")
    assert cancelled["end_ms"] == EIGHT + 600_000
    assert (cut_off["submit_ms"], cut_off["start_ms"], cut_off["end_ms"]) == (None, None, EIGHT + 480_000)
    assert (running["end_ms"], running["outcome"]) == (None, "running")


def test_a_requeued_job_is_pending_again(tmp_path: Path) -> None:
    trace = read_records(
        tmp_path,
        {"job_id": 1, "timestamp": 1_700_000_000, "status": "queued"},
        {"job_id": 1, "timestamp": 1_700_000_010, "status": "running"},
        {"job_id": 1, "timestamp": 1_700_000_030, "status": "suspended"},
        {"job_id": 1, "timestamp": 1_700_000_040, "status": "running"},
        {"job_id": 1, "timestamp": 1_700_000_090, "status": "queued"},
    )
    assert job(trace, "1")["outcome"] == "pending"
    assert job(trace, "1")["start_ms"] is None
    assert trace.attempts["outcome"].to_list() == ["suspended", "requeued"]


def test_events_of_one_job_may_stand_in_several_files_in_any_order(tmp_path: Path) -> None:
    lines = SAMPLE.read_text().splitlines()
    (tmp_path / "a.jsonl").write_text("\n".join(lines[1::2]))
    (tmp_path / "b.jsonl").write_text("\n".join(lines[::2]))
    split = read_trace(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    whole = read_trace(SAMPLE)
    assert_frame_equal(split.jobs.sort("job_id"), whole.jobs.sort("job_id"), check_column_order=False)
    assert split.attempts.equals(whole.attempts)


def test_records_of_different_jobs_are_whole_jobs(tmp_path: Path) -> None:
    trace = read_records(
        tmp_path,
        {"job_id": "a", "timestamp": "2024-03-04 08:00:00", "status": "COMPLETED", "wait_s": 60, "run_s": 120.5},
        {"job_id": "b", "timestamp": "2024-03-04T08:00:01Z", "status": "node-fail", "cpu_req": 16},
        {"job_id": "b", "timestamp": "2024-03-05T08:00:01Z", "status": "completed", "cpu_req": 16},
    )
    first = job(trace, "a")
    assert (first["submit_ms"], first["start_ms"], first["end_ms"]) == (EIGHT, EIGHT + 60_000, EIGHT + 180_500)
    assert trace.jobs["outcome"].to_list() == ["completed", "node_failure", "completed"]
    assert trace.jobs["job_id"].to_list() == ["a", "b", "b~2"]  # an id that was used again is no event


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("4Gi", 4 * GIB), ("512M", 2**29), ("2048 MB", 2 * GIB), ("1.5GiB", 3 * 2**29), (1024, 1024), ("7", 7)],
)
def test_reads_sizes(tmp_path: Path, text: object, size_bytes: int) -> None:
    assert read_records(tmp_path, {"job_id": "a", "mem_req": text}).jobs["mem_req_bytes"].to_list() == [size_bytes]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"job_id": "b", "mem_req": "4 parsecs"}, "not a size"),
        ({"job_id": "b", "cpu_req": "many"}, "not a number"),
        ({"job_id": "b", "cpu_req": -1}, "negative"),
        ({"job_id": "b", "timestamp": "yesterday"}, "not a time"),
        ({"job_id": "b", "run_s": "long"}, "not a number"),
        ({"timestamp": 1_700_000_000}, "no job_id"),
        ({"job_id": " ", "timestamp": 1_700_000_000}, "no job_id"),
    ],
)
def test_rejects_records_it_cannot_read(tmp_path: Path, record: dict[str, Any], reason: str) -> None:
    trace = read_records(tmp_path, {"job_id": "a", "timestamp": 1_700_000_000}, record)
    assert trace.jobs["job_id"].to_list() == ["a"]
    assert trace.rejects["line"].to_list() == [2]
    assert reason in trace.rejects["reason"][0]


def test_times_before_1985_count_from_the_logs_own_zero(tmp_path: Path) -> None:
    trace = read_records(tmp_path, {"job_id": "a", "timestamp": 0}, {"job_id": "b", "timestamp": 12.5})
    assert trace.manifest.absolute_time is False
    assert trace.jobs["submit_ms"].to_list() == [0, 12_500]


def test_unknown_status_words_are_noted(tmp_path: Path) -> None:
    trace = read_records(tmp_path, {"job_id": "a", "status": "zombie"})
    assert trace.jobs.select("outcome", "status").rows() == [(None, "zombie")]
    assert any("zombie" in note for note in trace.manifest.notes)


def test_keys_that_are_data_do_not_become_columns(tmp_path: Path) -> None:
    trace = read_records(tmp_path, *({"job_id": i, f"key{i}": i} for i in range(1000)))
    assert len(trace) == 1000
    assert trace.jobs.width < 400
    assert any("1,000 keys" in note for note in trace.manifest.notes)


def test_half_a_surrogate_pair_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text('{"job_id": "\\ud800", "timestamp": 1, "k\\udc00": "v"}\n')
    assert len(read_trace(path)) == 1


def test_reads_back_what_the_writer_wrote(tmp_path: Path) -> None:
    trace = read_trace(FIXTURES / "swf.swf")
    path = tmp_path / "jobs.jsonl"
    with path.open("wb") as stream:
        JsonLinesWriter().write_text(trace, stream)
    assert_frame_equal(read_trace(path).jobs, trace.jobs.select(list(JOBS)))
    folded = read_trace(SAMPLE)
    with path.open("wb") as stream:
        JsonLinesWriter().write_text(folded, stream)
    assert_frame_equal(read_trace(path).jobs.select(folded.jobs.columns), folded.jobs)


def test_leftovers_of_another_type_in_another_log_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text('{"job_id": "a", "timestamp": 1600000000, "think_s": "a while"}\n')
    trace = read_trace(FIXTURES / "swf.swf", path)  # where x_think_s is a number
    assert job(trace, "a")["x_think_s"] == "a while"
