from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from presage.errors import UnreadableSourceError
from presage.testing import ReaderContract
from presage.traces import Source, Trace, detect, read_trace

SAMPLE = Path(__file__).parents[2] / "fixtures" / "traces" / "sacct.json"
T_MS = 1_709_540_000_000
MIB = 2**20


class TestSacctJson(ReaderContract):
    format = "sacct-json"
    sample = SAMPLE
    jobs = 6
    line_based = False


@pytest.fixture(scope="module")
def trace() -> Trace:
    return read_trace(SAMPLE)


def job(trace: Trace, job_id: str) -> dict[str, Any]:
    return trace.jobs.row(by_predicate=pl.col("job_id") == job_id, named=True)


def test_numbers_that_say_whether_they_are_set(trace: Trace) -> None:
    fit = job(trace, "301")
    assert (fit["submit_ms"], fit["wait_s"], fit["run_s"], fit["limit_s"]) == (T_MS, 60, 3600, 7200)
    assert (fit["priority"], fit["constraint"], fit["qos"]) == (77, "fast", "normal")
    assert job(trace, "304+0")["limit_s"] is None
    assert trace.manifest.counts["unlimited"] == 1


def test_resources(trace: Trace) -> None:
    fit = job(trace, "301")
    assert (fit["cpus_req"], fit["nodes_req"], fit["mem_req_bytes"]) == (8, 2, 16384 * MIB)
    assert (fit["gpus_req"], fit["gpu_type_req"], fit["gpus_alloc"], fit["gpu_type"]) == (2, None, 2, "h100")
    assert fit["node_list"] == ["o1", "o2"]
    assert job(trace, "302_4")["gpus_req"] == 0


def test_steps_tell_what_their_job_used(trace: Trace) -> None:
    fit = job(trace, "301")
    assert fit["mem_used_bytes"] == 5_000_000  # all tasks of the largest step
    assert fit["cpu_used_s"] == pytest.approx(7010.5)
    assert trace.manifest.counts["steps_folded"] == 2


def test_ids_outcomes_and_exit_codes(trace: Trace) -> None:
    task = job(trace, "302_4")
    assert (task["array_id"], task["array_task"], task["outcome"], task["exit_code"]) == ("302", 4, "failed", 3)
    pending = job(trace, "302_[5-9%1]")
    assert (pending["outcome"], pending["start_ms"], pending["cpus_alloc"]) == ("pending", None, None)
    part = job(trace, "304+0")
    assert (part["het_id"], part["het_offset"], part["signal"]) == ("304", 0, 9)
    assert job(trace, "305")["run_s"] is None


def test_records_of_one_job_are_folded(trace: Trace) -> None:
    assert job(trace, "306")["restarts"] == 1
    assert trace.attempts["outcome"].to_list() == ["preempted", "completed"]


OLD_JOB: dict[str, Any] = {
    "account": "lab",
    "allocation_nodes": 1,
    "array": {"job_id": 0, "task": None, "task_id": None},
    "association": {"account": "lab", "cluster": "elm", "partition": None, "user": "jo"},
    "cluster": "elm",
    "time": {
        "elapsed": 8, "eligible": 1_600_000_000, "end": 1_600_000_022, "start": 1_600_000_010,
        "submission": 1_600_000_000, "suspended": 4, "limit": 30, "total": {"seconds": 3, "microseconds": 500_000},
    },
    "exit_code": {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 11, "name": "Segv"}},
    "het": {"job_id": 0, "job_offset": None},
    "job_id": 12,
    "name": "old",
    "nodes": "e7",
    "partition": "main",
    "priority": 1014,
    "qos": "normal",
    "required": {"CPUs": 2, "memory": 4000},
    "state": {"current": "FAILED", "reason": "None"},
    "steps": [],
    "tres": {
        "allocated": [{"type": "cpu", "name": None, "id": 1, "count": 2}],
        "requested": [{"type": "cpu", "name": None, "count": 2}, {"type": "mem", "name": None, "count": 4000}],
    },
    "user": "jo",
}  # fmt: skip


def written(tmp_path: Path, document: Any) -> Path:
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(document))
    return path


def test_the_shape_of_older_releases(tmp_path: Path) -> None:
    path = written(tmp_path, {"meta": {"plugin": {"type": "openapi/dbv0.0.38"}}, "errors": [], "jobs": [OLD_JOB]})
    assert detect(Source(path)) == "sacct-json"
    old = job(read_trace(path), "12")
    assert (old["outcome"], old["status"], old["exit_code"], old["signal"]) == ("failed", "FAILED", 0, 11)
    assert (old["run_s"], old["suspended_s"], old["limit_s"], old["cpu_used_s"]) == (12, 4, 1800, 3.5)
    assert (old["mem_req_bytes"], old["user"], old["nodes_alloc"]) == (4000 * MIB, "jo", 1)


def test_a_job_without_id_is_rejected_and_the_others_stay(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, {"jobs": [{"name": "lost"}, OLD_JOB, "junk"]}))
    assert len(trace) == 1
    assert trace.rejects["reason"].to_list() == [
        "job 1 of the list has no job_id",
        "job 3 of the list has no job_id",
    ]


@pytest.mark.parametrize("document", [{"jobs": {"a": 1}}, {"nodes": []}, 7, None])
def test_a_document_without_jobs_is_a_clear_error(tmp_path: Path, document: Any) -> None:
    with pytest.raises(UnreadableSourceError, match="list of jobs"):
        read_trace(written(tmp_path, document), format="sacct-json")


@pytest.mark.parametrize("value", [None, True, -1, 1e300, float("nan"), "x", [], {}, [1], {"number": "x"}, 2**70])
def test_any_value_in_any_place_gives_a_trace(tmp_path: Path, value: Any) -> None:
    places = [(name,) for name in OLD_JOB if name != "job_id"]
    places += [(name, part) for name, inner in OLD_JOB.items() if isinstance(inner, dict) for part in inner]
    jobs = []
    for number, (first, *rest) in enumerate(places, start=1):
        damaged = json.loads(json.dumps(OLD_JOB)) | {"job_id": number}
        target = damaged[first] if rest else damaged
        target[rest[0] if rest else first] = value
        jobs.append(damaged)
    assert len(read_trace(written(tmp_path, {"jobs": jobs}), format="sacct-json")) == len(places)
