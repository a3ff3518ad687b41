from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from presage.testing import ReaderContract
from presage.traces import ReadOptions, read_trace

SAMPLE = Path(__file__).parents[2] / "fixtures" / "traces" / "helios.csv"


class TestHelios(ReaderContract):
    format = "helios"
    sample = SAMPLE
    jobs = 6


def test_reads_waits_runs_sizes_and_states() -> None:
    jobs = read_trace(SAMPLE).jobs
    assert jobs["wait_s"].to_list() == [40, 0, 3600, 1, 0, 60]
    assert jobs["run_s"].to_list() == [7200, 0, 86_400, 600, 60, None]
    assert jobs["gpus_req"].to_list() == [8, 0, 16, 1, 1, 1]
    assert jobs["partition"].to_list() == ["vcOne", "vcTwo", "vcOne", "vcTwo", "vcTwo", "vcTwo"]
    assert jobs["outcome"].to_list() == ["completed", "cancelled", "timeout", "node_failure", None, "failed"]


def test_an_end_before_the_start_is_missing_and_counted() -> None:
    trace = read_trace(SAMPLE)
    assert trace.manifest.counts["ends_before_start"] == 1
    assert trace.jobs["end_ms"].null_count() == 1


def test_local_times_are_read_in_the_zone_of_the_options() -> None:
    as_utc = read_trace(SAMPLE)
    in_china = read_trace(SAMPLE, options=ReadOptions(time_zone="Asia/Shanghai"))
    assert (as_utc.jobs["submit_ms"] - in_china.jobs["submit_ms"]).unique().to_list() == [8 * 3_600_000]
    assert in_china.manifest.time_zone == "Asia/Shanghai"
    assert any("read as UTC" in note for note in as_utc.manifest.notes)
    told = read_trace(SAMPLE, options=ReadOptions(time_zone="UTC"))
    assert told.manifest.time_zone == "UTC"
    assert not any("read as UTC" in note for note in told.manifest.notes)


def test_the_folder_names_the_cluster(tmp_path: Path) -> None:
    folder = tmp_path / "Venus"
    folder.mkdir()
    shutil.copy(SAMPLE, folder / "cluster_log.csv")
    assert read_trace(folder / "cluster_log.csv").jobs["cluster"].unique().to_list() == ["Venus"]


def test_daily_gpu_counts_tell_the_machine(tmp_path: Path) -> None:
    counts = tmp_path / "cluster_gpu_number.csv"
    counts.write_text("date,vcOne,vcTwo,total\n2020-05-01,64,32,96\n2020-05-02,64,40,104\n2020-05-03,0,40,40\n")
    trace = read_trace(SAMPLE, counts)
    assert trace.manifest.machine.gpus == 104.0
    assert len(trace) == 6


@pytest.mark.shared_data
def test_the_documented_example_is_read(shared_data: Path) -> None:
    jobs = read_trace(shared_data / "format-samples" / "helios_cluster_log.csv").jobs
    assert jobs["run_s"].to_list() == [36_848.0, 249.0, 675_233.0]
    assert jobs["outcome"].to_list() == ["completed", "failed", "cancelled"]
