from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from presage.testing import ReaderContract
from presage.traces import ReadOptions, Trace, read_trace

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"
COMPOSITE, THETA, EXCERPT = (FIXTURES / f"alcf_{name}" for name in ("composite.csv", "theta.csv", "excerpt.txt"))
TEN = 1_620_036_000_000  # 2021-05-03 10:00:00 UTC


class TestAlcfComposite(ReaderContract):
    format = "alcf"
    sample = COMPOSITE
    jobs = 5


class TestAlcfTheta(ReaderContract):
    format = "alcf"
    sample = THETA
    jobs = 4


class TestAlcfExcerpt(ReaderContract):
    format = "alcf"
    sample = EXCERPT
    jobs = 4


def job(trace: Trace, job_id: str) -> dict[str, Any]:
    return trace.jobs.row(by_predicate=pl.col("job_id") == job_id, named=True)


def test_reads_the_composite_columns() -> None:
    first = job(read_trace(COMPOSITE), "101.opal")
    assert (first["submit_ms"], first["start_ms"], first["end_ms"]) == (TEN, TEN + 1_800_000, TEN + 3_600_250)
    assert (first["wait_s"], first["run_s"], first["limit_s"]) == (1800.0, 1800.25, 3600.0)
    assert (first["user"], first["account"], first["queue"], first["cluster"]) == (
        "11112222",
        "333344",
        "prod",
        "opal",
    )
    assert (first["nodes_req"], first["nodes_alloc"], first["cpus_req"], first["cpus_alloc"]) == (
        4,
        4,
        256.0,
        256.0,
    )
    assert (first["x_eligible_wait_seconds"], first["x_mode"], first["x_cobalt_jobid"]) == (
        1700.0,
        "script",
        "101",
    )
    assert "x_queued_date_id" not in first


def test_exit_status_gives_the_outcome() -> None:
    jobs = read_trace(COMPOSITE).jobs
    assert jobs["outcome"].to_list() == ["completed", "timeout", "failed", "failed", None]
    assert jobs["exit_code"].to_list() == [0, -29, 143, 1, None]


def test_a_location_is_a_node_list_only_if_it_names_the_nodes_used() -> None:
    trace = read_trace(COMPOSITE)
    assert job(trace, "101.opal")["node_list"] == ["7", "12", "13", "14"]
    assert job(trace, "102.opal")["node_list"] == [str(node) for node in range(128)]
    assert job(trace, "104.opal")["node_list"] == ["x3004c0s37b1n0", "x3004c0s7b0n0"]
    block = job(trace, "103.opal")
    assert (block["node_list"], block["x_location"]) == (None, "OPL-00000-33331-512")
    assert (block["partition"], block["gpus_req"]) == ("MidplaneA", None)


def test_negative_waits_and_jobs_that_never_started() -> None:
    trace = read_trace(COMPOSITE)
    assert job(trace, "103.opal")["wait_s"] == 60.0  # from the times, which are there
    assert any("QUEUED_WAIT_SECONDS" in note for note in trace.manifest.notes)
    waiting = job(trace, "105.opal")
    assert (waiting["start_ms"], waiting["run_s"], waiting["nodes_alloc"], waiting["account"]) == (None,) * 4


def test_times_are_local_to_the_zone_given() -> None:
    trace = read_trace(COMPOSITE, options=ReadOptions(time_zone="America/Chicago"))
    assert job(trace, "101.opal")["submit_ms"] == TEN + 5 * 3_600_000


def test_reads_the_theta_columns() -> None:
    trace = read_trace(THETA)
    first, unknown = job(trace, "1"), job(trace, "4")
    assert (first["submit_ms"], first["end_ms"]) == (1_514_764_800_000, 1_514_764_800_000 + 3_660_000)
    assert (first["wait_s"], first["run_s"], first["limit_s"]) == (60.0, 3600.0, 7200.0)
    assert (first["cpus_req"], first["nodes_req"], first["user"]) == (8192.0, 128, "5")
    assert trace.jobs["outcome"].to_list() == ["completed", "failed", "cancelled", None]
    assert (unknown["wait_s"], unknown["start_ms"], unknown["run_s"]) == (None, None, None)


def test_theta_columns_under_their_long_names(tmp_path: Path) -> None:
    path = tmp_path / "theta.csv"
    path.write_text(
        "id,user,cpu_num,node_num,submit_time,wait_time,run_time,wall_time,state\n"
        "a7,5,64,1,2018-01-01 00:00:00,5,10,20,1\n"
    )
    only = job(read_trace(path), "a7")
    assert (only["submit_ms"], only["wait_s"], only["outcome"]) == (1_514_764_800_000, 5.0, "failed")


def test_a_count_that_cannot_be_costs_its_row(tmp_path: Path) -> None:
    path = tmp_path / "excerpt.txt"
    path.write_text(
        EXCERPT.read_text() + "50005 1546401000 60 99999999999999999999 0 5\n50006 1546401000 60 0.5 0 5\n"
    )
    trace = read_trace(path)
    assert (len(trace), trace.rejects["line"].to_list()) == (4, [6, 7])


def test_reads_excerpts() -> None:
    trace = read_trace(EXCERPT)
    first = job(trace, "50001")
    assert (first["submit_ms"], first["run_s"], first["nodes_req"]) == (1_546_400_000_000, 3600.0, 512)
    assert (first["wait_s"], first["start_ms"], first["x_perc"]) == (None, None, 50.0)
    assert trace.jobs["job_id"].to_list() == ["50001", "50002", "50002~2", "50004"]


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "most_nodes", "days"), [("Theta-2018", 512, (10, 11)), ("Mira-2019", 16_384, (29, 30))]
)
def test_reads_the_real_excerpts(shared_data: Path, name: str, most_nodes: int, days: tuple[int, int]) -> None:
    trace = read_trace(shared_data / f"ALCF-{name}-excerpt.txt.gz")
    assert len(trace) == 3000
    assert len(trace.rejects) == 0
    assert trace.jobs["nodes_req"].max() == most_nodes
    span_d = (trace.jobs["submit_ms"].max() - trace.jobs["submit_ms"].min()) / 86_400_000  # type: ignore[operator]
    assert days[0] <= span_d <= days[1]
    assert trace.manifest.has["waits"] is False
    assert trace.manifest.machine.nodes is None
