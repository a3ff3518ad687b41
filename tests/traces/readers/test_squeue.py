"""The queue of Slurm, as text and as JSON, alone and beside its accounting."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from presage.errors import UnreadableSourceError
from presage.simulator.present import latest_ms, present_state
from presage.testing import ReaderContract, SlurmCluster, missing_for_slurm
from presage.traces import Source, Trace, detect, read_trace

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"
T_MS = 1_794_874_519_000
MIB = 2**20
needs_slurm = pytest.mark.skipif(bool(missing_for_slurm()), reason=missing_for_slurm() or "Slurm is here")


class TestSqueue(ReaderContract):
    format = "squeue"
    sample = FIXTURES / "squeue.txt"
    jobs = 8


class TestAlignedSqueue(ReaderContract):
    format = "squeue"
    sample = FIXTURES / "squeue_aligned.txt"
    jobs = 8


class TestSqueueJson(ReaderContract):
    format = "squeue-json"
    sample = FIXTURES / "squeue.json"
    jobs = 7
    line_based = False


def job(trace: Trace, job_id: str) -> dict[str, Any]:
    return trace.jobs.row(by_predicate=pl.col("job_id") == job_id, named=True)


@pytest.mark.parametrize("name", ["squeue.txt", "squeue_aligned.txt", "squeue.json"])
def test_who_waits_and_who_runs(name: str) -> None:
    trace = read_trace(FIXTURES / name)
    runs, waits, task = (job(trace, each) for each in ("1", "4", "5_2"))

    assert (runs["outcome"], runs["start_ms"], runs["end_ms"]) == ("running", T_MS, None)
    assert (runs["user"], runs["account"], runs["partition"], runs["limit_s"]) == ("ada", "physics", "main", 3600)
    assert (waits["outcome"], waits["start_ms"], waits["cpus_req"], waits["nodes_req"]) == ("pending", None, 16, 2)
    assert (waits["gpus_req"], waits["gpu_type_req"]) == (2, "a100")
    assert (waits["submit_ms"], waits["x_expected_start_ms"]) == (T_MS + 1000, T_MS + 3_600_000)
    assert (task["array_id"], task["array_task"], task["limit_s"]) == ("5", 2, 1800)
    assert job(trace, "7")["x_expected_start_ms"] is None
    assert latest_ms(trace) - T_MS >= 300_000, "how long jobs have run tells when the queue was looked at"


@pytest.mark.parametrize("name", ["squeue_aligned.txt", "squeue.json"])
def test_resources_bring_memory(name: str) -> None:
    trace = read_trace(FIXTURES / name)
    assert job(trace, "1")["mem_req_bytes"] == 4000 * MIB
    assert job(trace, "4")["mem_req_bytes"] == 10_000 * MIB


def test_short_states_are_understood(tmp_path: Path) -> None:
    path = tmp_path / "queue.txt"
    path.write_text(
        "JOBID|ST|SUBMIT_TIME|START_TIME|CPUS\n"
        "1|PD|2026-01-01T00:00:00|2026-01-01T02:00:00|4\n"
        "2|R|2026-01-01T00:00:00|2026-01-01T00:10:00|4\n"
    )
    trace = read_trace(path)
    assert trace.jobs["outcome"].to_list() == ["pending", "running"]
    assert trace.jobs["cpus_req"].to_list() == [4, None]


PLAIN = """\
             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
                 4      main      big      eve PD       0:00      2 (Resources)
"""


@pytest.mark.parametrize("text", [PLAIN, "JOBID|TIME_LIMIT\n4|1:00:00\n"])
def test_a_queue_without_submit_times_says_what_to_ask_for(tmp_path: Path, text: str) -> None:
    path = tmp_path / "queue.txt"
    path.write_text(text)
    assert detect(Source(path)) == "squeue"
    with pytest.raises(UnreadableSourceError, match="squeue -a --json"):
        read_trace(path)


def number(value: int | None) -> dict[str, object]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def test_numbers_that_say_whether_they_are_set(tmp_path: Path) -> None:
    """The shape since Slurm 23.02."""
    new = {
        "job_id": 9, "name": "new", "user_name": "ada", "partition": "gpu", "job_state": ["RUNNING", "COMPLETING"],
        "submit_time": number(1_700_000_000), "start_time": number(1_700_000_100),
        "end_time": number(1_700_009_000),
        "time_limit": {"set": False, "infinite": True, "number": 0}, "cpus": number(8), "node_count": number(1),
        "array_job_id": number(0), "array_task_id": number(None), "array_task_string": "", "nodes": "n[1-2]",
        "tres_req_str": "cpu=8,mem=2G,node=1", "tres_alloc_str": "cpu=8,mem=2G,node=2,gres/gpu=1",
    }  # fmt: skip
    tasks = {
        **new, "job_id": 10, "job_state": ["PENDING"], "array_job_id": number(10),
        "array_task_string": "1-2,8-20:6%3", "start_time": number(None), "nodes": "",
    }  # fmt: skip
    many = {**tasks, "job_id": 11, "array_job_id": number(11), "array_task_string": "1-5,7,..."}
    path = tmp_path / "queue.json"
    path.write_text(json.dumps({"jobs": [new, tasks, many, {}], "last_update": number(1_700_000_400)}))
    trace = read_trace(path)

    found = job(trace, "9")
    assert (found["outcome"], found["limit_s"], found["end_ms"]) == ("running", None, None)
    assert (found["gpus_alloc"], found["node_list"], found["x_elapsed_s"]) == (1, ["n1", "n2"], 300)
    assert set(trace.jobs["job_id"]) == {"9", "10_1", "10_2", "10_8", "10_14", "10_20", "11_[1-5,7,...]"}
    assert trace.rejects["reason"].to_list() == ["job 4 of the list has no job_id"]


def accounting(folder: Path) -> Path:
    """A dump that was made before the queue was looked at, with one job that nobody will ever see end."""
    path = folder / "history.txt"
    path.write_text(
        "JobID|User|Submit|Start|End|State|ReqCPUS|Timelimit|JobName\n"
        "0|ada|2026-11-16T23:00:00|2026-11-16T23:10:00|2026-11-16T23:40:00|COMPLETED|4|60|old\n"
        "1|ada|2026-11-17T00:15:19|Unknown|Unknown|PENDING|4|60|run1\n"
        "4|eve|2026-11-17T00:15:20|Unknown|Unknown|PENDING|16|120|big\n"
        "5_[1-3]|bob|2026-11-17T00:15:20|Unknown|Unknown|PENDING|8|30|arr\n"
        "6|ada|2026-11-17T00:15:20|2026-11-17T00:15:20|2026-11-17T00:15:21|COMPLETED|1|1|done\n"
        "99|bob|2026-01-01T00:00:00|2026-01-01T00:00:00|Unknown|RUNNING|64|60|lost\n"
    )
    return path


@pytest.mark.parametrize("name", ["squeue.txt", "squeue.json"])
def test_a_queue_beside_a_history_is_the_present(tmp_path: Path, name: str) -> None:
    trace = read_trace(accounting(tmp_path), FIXTURES / name)
    state = present_state(trace)

    assert "1" in set(state.running["job_id"])
    assert set(state.waiting["job_id"]) == {"4", "5_1", "5_2", "5_3", "7"}
    assert trace.jobs["job_id"].n_unique() == len(trace)
    assert {"0", "6"} <= set(trace.jobs["job_id"])
    assert job(trace, "1")["outcome"] == "running"
    assert job(trace, "6")["outcome"] == "completed"
    assert "99" not in set(trace.jobs["job_id"])
    assert trace.manifest.counts["not_in_queue"] == 1
    assert any("not in the queue: left out" in note for note in trace.manifest.notes)
    # The order of the files does not matter.
    assert set(read_trace(FIXTURES / name, accounting(tmp_path)).jobs["job_id"]) == set(trace.jobs["job_id"])


def test_an_id_that_was_used_before_is_another_job(tmp_path: Path) -> None:
    path = tmp_path / "history.txt"
    path.write_text(
        "JobID|User|Submit|Start|End|State|ReqCPUS\n"
        "1|bob|2020-01-01T00:00:00|2020-01-01T00:00:00|2020-01-01T01:00:00|COMPLETED|4\n"
    )
    trace = read_trace(path, FIXTURES / "squeue.json")
    assert job(trace, "1")["user"] == "bob"
    assert job(trace, "1~2")["outcome"] == "running"


@needs_slurm
@pytest.mark.slow
def test_the_queue_of_a_real_slurm(tmp_path: Path) -> None:
    with SlurmCluster(nodes=1, cpus=2) as slurm:
        runs = slurm.submit(["-n2", "-t10"], "sleep 600")
        waits = slurm.submit(["-n1", "-t5"], "true")
        while slurm.jobs()[runs].state == "PENDING":
            time.sleep(0.1)
        told = {
            "queue.json": ["squeue", "-a", "--json"],
            "queue.txt": ["squeue", "-a", "-r", "-o", "%i|%u|%T|%V|%S|%M|%l|%C|%D"],
            "queue-2.txt": ["squeue", "-a", "-O", "JobArrayID:20,State:20,SubmitTime:30,StartTime:30,NumCPUs:9"],
        }
        for name, command in told.items():
            path = tmp_path / name
            path.write_text(slurm.run(command))
            trace = read_trace(path)
            assert job(trace, str(runs))["outcome"] == "running"
            assert job(trace, str(waits))["outcome"] == "pending"
            assert job(trace, str(waits))["cpus_req"] == 1
