from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from presage.errors import UnreadableSourceError
from presage.testing import ReaderContract
from presage.traces import Source, detect, read_trace

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"
SAMPLE = FIXTURES / "surf_lisa.parquet"


class TestSurfLisa(ReaderContract):
    format = "surf-lisa"
    sample = SAMPLE
    jobs = 4
    line_based = False


def test_reads_milliseconds_and_megabytes() -> None:
    trace = read_trace(SAMPLE)
    columns = ["job_id", "submit_ms", "run_s", "cpus_req", "mem_req_bytes", "deadline_ms", "x_deferrable"]
    assert trace.jobs.select(columns).rows()[:3] == [
        ("31", 1_664_575_200_000, 1194.0, 16.0, 100_000 * 2**20, None, True),
        ("32", 1_664_575_200_000, 1.5, 1.0, 2**31, None, False),
        ("33", 1_664_575_260_500, 0.0, 4.0, None, None, True),
    ]
    assert trace.manifest.has["waits"] is False


def test_leaves_traces_of_presage_to_their_own_reader(tmp_path: Path) -> None:
    read_trace(SAMPLE).save(tmp_path / "trace.parquet")
    assert detect(Source(tmp_path / "trace.parquet")) == "parquet"


def test_rows_that_cannot_be_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "tasks.parquet"
    broken = pl.read_parquet(SAMPLE).with_columns(duration=pl.Series([5, -5, None, 10**17]))
    broken.write_parquet(path)
    trace = read_trace(path)
    assert trace.jobs["job_id"].to_list() == ["31"]
    assert trace.rejects["line"].to_list() == [2, 3, 4]


def test_other_parquet_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "tasks.parquet"
    pl.DataFrame({"id": [1]}).write_parquet(path)
    with pytest.raises(UnreadableSourceError, match="submission_time"):
        read_trace(path, format="surf-lisa")


@pytest.mark.shared_data
def test_reads_the_real_month(shared_data: Path) -> None:
    trace = read_trace(shared_data / "surf-lisa-month-tasks.parquet")
    assert (len(trace), len(trace.rejects)) == (68_648, 0)
    assert trace.jobs["submit_ms"].min() == 1_664_575_200_000  # 30 September 2022, 22:00 UTC
