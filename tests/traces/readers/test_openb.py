from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from presage.testing import ReaderContract
from presage.traces import read_trace

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"
PODS, NODES = FIXTURES / "openb_pods.csv", FIXTURES / "openb_nodes.csv"
GIB = 2**30

POD_LISTS = {
    "cpu0": 7064, "cpu037": 7336, "cpu050": 7439, "cpu072": 7608, "cpu100": 7853, "cpu200": 8832, "cpu235": 9240,
    "cpu250": 9420, "default": 8152, "gpushare20": 8152, "gpushare40": 8152, "gpushare60": 8152,
    "gpushare80": 8152, "gpuspec05": 8152, "gpuspec10": 8152, "gpuspec20": 8152, "gpuspec25": 8152,
    "multigpu20": 8324, "multigpu30": 8508, "multigpu40": 8746,
}  # fmt: skip


class TestOpenb(ReaderContract):
    format = "openb"
    sample = PODS
    jobs = 6


def rows_by_id(path: Path) -> dict[str, dict[str, object]]:
    return {row["job_id"]: row for row in read_trace(path).jobs.iter_rows(named=True)}


def test_converts_units_and_gpu_shares() -> None:
    rows = rows_by_id(PODS)
    assert (rows["pod-a"]["cpus_req"], rows["pod-a"]["mem_req_bytes"]) == (4.0, 8 * GIB)
    assert [rows[f"pod-{x}"]["gpus_req"] for x in "abcde"] == [0.5, 8.0, 0.0, 1.0, 0.25]
    assert rows["pod-b"]["gpu_type_req"] == "V100M16|V100M32"
    assert rows["pod-d"]["gpu_type_req"] is None


def test_times_count_from_the_traces_zero() -> None:
    trace = read_trace(PODS)
    assert not trace.manifest.absolute_time
    pod = rows_by_id(PODS)["pod-a"]
    assert (pod["submit_ms"], pod["start_ms"], pod["end_ms"]) == (100_000, 130_000, 4_100_000)
    assert (pod["wait_s"], pod["run_s"]) == (30.0, 3970.0)


def test_phases_become_outcomes_only_where_they_tell_the_end() -> None:
    rows = rows_by_id(PODS)
    assert [rows[f"pod-{x}"]["outcome"] for x in "abcdef"] == [
        None, "completed", "failed", "cancelled", "running", "running",
    ]  # fmt: skip
    assert rows["pod-d"]["start_ms"] is None
    assert rows["pod-d"]["end_ms"] == 1_500_000
    assert rows["pod-e"]["end_ms"] is None
    assert rows["pod-e"]["run_s"] is None


def test_one_running_pod_deleted_last_is_no_sign_of_the_logs_end(tmp_path: Path) -> None:
    lines = PODS.read_text().splitlines()
    sample = tmp_path / "pods.csv"
    sample.write_text("\n".join(lines[:-1]) + "\n")
    assert rows_by_id(sample)["pod-e"]["end_ms"] == 9_000_000


def test_pods_without_times_are_jobs_without_times(tmp_path: Path) -> None:
    short = tmp_path / "pods.csv"
    short.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np1,1000,1024,1,300\np2,8000,2048,4,1000\n")
    trace = read_trace(short)
    assert trace.jobs["gpus_req"].to_list() == [0.3, 4.0]
    assert not trace.manifest.has["submits"]
    assert not trace.manifest.has["outcomes"]


def test_nodes_beside_pods_tell_the_machine() -> None:
    trace = read_trace(PODS, NODES)
    assert len(trace) == 6
    machine = trace.manifest.machine
    assert (machine.nodes, machine.cpus, machine.gpus) == (3, 192.0, 10.0)
    assert trace.nodes["gpu_type"].to_list() == ["V100M32", "T4", None]


@pytest.mark.shared_data
@pytest.mark.parametrize(("variant", "pods"), POD_LISTS.items())
def test_reads_every_variant_whole(shared_data: Path, variant: str, pods: int) -> None:
    trace = read_trace(shared_data / "openb" / f"openb_pod_list_{variant}.csv.gz")
    assert len(trace) == pods
    assert not len(trace.rejects)
    assert trace.manifest.has["submits"] is not variant.startswith("multigpu")


@pytest.mark.shared_data
def test_totals_of_the_default_list_and_its_machine(shared_data: Path) -> None:
    folder = shared_data / "openb"
    trace = read_trace(folder / "openb_pod_list_default.csv.gz", folder / "openb_node_list_all_node.csv.gz")
    jobs = trace.jobs
    machine = trace.manifest.machine
    assert (machine.nodes, machine.cpus, machine.gpus) == (1523, 125_514.0, 6212.0)
    gpus = jobs["gpus_req"]
    assert ((gpus > 0).sum(), (gpus > 1).sum(), ((gpus > 0) & (gpus < 1)).sum()) == (7064, 75, 3078)
    assert (jobs["wait_s"] > 0).sum() == 5209
    phases = dict(jobs.group_by("status").len().iter_rows())
    assert phases == {"Running": 5193, "Failed": 1870, "Pending": 897, "Succeeded": 192}
    assert jobs.filter(pl.col("status") == "Pending")["start_ms"].null_count() == 897
    assert trace.manifest.counts["still_running"] == 34


@pytest.mark.shared_data
def test_gpu_nodes_alone_are_a_trace_of_nodes(shared_data: Path) -> None:
    trace = read_trace(shared_data / "openb" / "openb_node_list_gpu_node.csv.gz")
    assert (len(trace), len(trace.nodes), trace.manifest.machine.gpus) == (0, 1213, 6212.0)
