from __future__ import annotations

from pathlib import Path

import pytest

from presage.testing import ReaderContract
from presage.traces import read_trace

SAMPLE = Path(__file__).parents[2] / "fixtures" / "traces" / "swim.tsv"


class TestSwim(ReaderContract):
    format = "swim"
    sample = SAMPLE
    jobs = 4


def test_reads_times_and_sizes() -> None:
    trace = read_trace(SAMPLE)
    columns = ["job_id", "submit_ms", "x_gap_s", "x_map_input_bytes", "x_shuffle_bytes", "x_reduce_output_bytes"]
    assert trace.jobs.select(columns).row(2) == ("job2", 40_000, 28.0, 50 * 2**30, 1, 0)
    assert trace.manifest.absolute_time is False
    assert trace.manifest.has["runs"] is False


@pytest.mark.shared_data
@pytest.mark.parametrize(("year", "jobs"), [(2009, 5_894), (2010, 24_442)])
def test_reads_the_real_workloads(shared_data: Path, year: int, jobs: int) -> None:
    trace = read_trace(shared_data / f"swim-FB-{year}-0.tsv.gz")
    assert (len(trace), len(trace.rejects)) == (jobs, 0)
    span_s = (trace.jobs["submit_ms"].max() - trace.jobs["submit_ms"].min()) / 1000  # type: ignore[operator]
    assert 85_000 < span_s <= 86_400
