from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from presage.testing import ReaderContract
from presage.traces import read_trace

SAMPLE = Path(__file__).parents[2] / "fixtures" / "traces" / "rumen.json"
T0 = 1_610_000_000_000


class TestRumen(ReaderContract):
    format = "rumen"
    sample = SAMPLE
    jobs = 2


def test_reads_jobs() -> None:
    first, second = read_trace(SAMPLE).jobs.to_dicts()
    assert (first["submit_ms"], first["wait_s"], first["run_s"], first["outcome"]) == (T0, 4.0, 60.0, "completed")
    assert (first["user"], first["queue"], first["name"], first["priority"]) == ("ada", "etl", "join", 4.0)
    assert (first["tasks"], first["x_heap_mb"]) == (3, 640)
    assert first["node_list"] == ["node7.example.com", "node8"]
    assert (second["outcome"], second["status"], second["name"], second["node_list"]) == (
        "cancelled",
        "KILLED",
        None,
        None,
    )


def test_reads_attempts_of_all_kinds_of_tasks() -> None:
    columns = ["task", "attempt", "queued_ms", "start_ms", "outcome", "node_list", "mem_bytes", "x_task_type"]
    assert read_trace(SAMPLE).attempts.sort("task", "attempt").select(columns).rows() == [
        (0, 0, T0 + 5000, T0 + 6000, "cancelled", ["node7.example.com"], 2**30, "MAP"),
        (0, 1, None, T0 + 11_000, "completed", ["node8"], 2**30, "MAP"),
        (1, 0, T0 + 5000, T0 + 6500, "failed", None, 2**30, "MAP"),
        (2, 0, T0 + 4100, T0 + 4200, "completed", ["node8"], None, "SETUP"),
        (3, 0, T0 + 31_000, T0 + 32_000, "completed", ["node7.example.com"], None, "REDUCE"),
    ]


def test_a_damaged_object_costs_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(SAMPLE.read_text().replace('"user" : "ada",', '"user" : ada,'))
    trace = read_trace(path)
    assert trace.jobs["job_id"].to_list() == ["job_202101010000_0002"]
    assert trace.rejects["line"].to_list() == [1]


def test_a_topology_gives_nodes(tmp_path: Path) -> None:
    path = tmp_path / "topology.json"
    path.write_text(
        '{"name": "<root>", "children": [{"name": "10\\\\.1", "children": [{"name": "n1", "children": null}]}]}'
    )
    trace = read_trace(SAMPLE, path)
    assert trace.nodes.select("node_id", "rack").rows() == [("n1", "/10.1")]
    assert trace.manifest.machine.nodes == 1


@pytest.mark.shared_data
def test_reads_the_samples_of_hadoop(shared_data: Path, tmp_path: Path) -> None:
    with tarfile.open(shared_data / "hadoop-samples.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / "hadoop-samples"
    counts = {  # of jobs and attempts, by walking through the JSON
        "rumen-folder-input-trace": (59, 1226),
        "rumen-zombie-input-trace": (4, 261),
        "sls-2jobs2min-rumen-jh": (2, 192),
    }
    for name, (jobs, attempts) in counts.items():
        trace = read_trace(folder / f"{name}.json")
        assert (len(trace), len(trace.attempts), len(trace.rejects)) == (jobs, attempts, 0)
    assert trace.jobs["queue"].to_list() == ["sls_queue_1", "sls_queue_1"]
    topology = read_trace(folder / "rumen-zombie-input-topology.json")
    assert len(topology.nodes) == topology.nodes["node_id"].n_unique() == 522
