from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from presage.testing import ReaderContract
from presage.traces import ReadOptions, read_trace

SAMPLE = Path(__file__).parents[2] / "fixtures" / "traces" / "nrel_eagle.csv"
MIB = 2**20


class TestNrelEagle(ReaderContract):
    format = "nrel-eagle"
    sample = SAMPLE
    jobs = 5


def test_units_and_times() -> None:
    first, second = read_trace(SAMPLE, options=ReadOptions(time_zone="America/Denver")).jobs.rows(named=True)[:2]
    assert first["submit_ms"] == 1_559_404_800_000  # 16:00 UTC
    assert (first["wait_s"], first["run_s"], first["limit_s"], first["cpus_req"]) == (300, 36000, 172800, 360)
    assert (first["mem_req_bytes"], first["gpus_req"], first["outcome"]) == (None, 0, "completed")
    assert (second["mem_req_bytes"], second["gpus_req"], second["outcome"]) == (368000 * MIB, 4, "timeout")


def test_tasks_of_an_array_are_jobs_even_when_they_look_the_same() -> None:
    trace = read_trace(SAMPLE)
    tasks = trace.jobs.filter(array_id="900003")
    assert tasks["job_id"].to_list() == ["900003", "900003~2", "900003~3"]
    assert tasks["run_s"].to_list() == [60, 60, 120]
    assert trace.manifest.counts["array_tasks"] == 3
    assert trace.jobs.filter(job_id="900001")["array_id"].item() is None


@pytest.mark.shared_data
def test_the_published_sample(shared_data: Path) -> None:
    trace = read_trace(shared_data / "nrel-eagle-sample.csv.gz")
    jobs = trace.jobs
    assert (len(jobs), len(trace.rejects)) == (1_000, 0)
    assert dict(jobs["outcome"].value_counts().iter_rows()) == {"completed": 985, "timeout": 15}
    assert jobs["user"].n_unique() == 15
    assert jobs.select((pl.col("gpus_req") > 0).sum()).item() == 4
    assert jobs["wait_s"].mean() == pytest.approx(345.419)
