from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from presage.testing import ReaderContract
from presage.traces import read_trace

SAMPLE = Path(__file__).parents[2] / "fixtures" / "traces" / "swf.swf"


class TestSwf(ReaderContract):
    format = "swf"
    sample = SAMPLE
    jobs = 5


def job(trace_jobs: pl.DataFrame, job_id: str) -> dict[str, object]:
    return trace_jobs.row(by_predicate=pl.col("job_id") == job_id, named=True)


def test_converts_units_and_times() -> None:
    first = job(read_trace(SAMPLE).jobs, "1")
    assert first["submit_ms"] == 1_600_000_000_000
    assert first["start_ms"] == 1_600_000_010_000
    assert first["end_ms"] == 1_600_000_110_000
    assert first["mem_req_bytes"] == 4 * 4096 * 1024
    assert first["mem_used_bytes"] == 4 * 2048 * 1024
    assert first["cpu_used_s"] == pytest.approx(4 * 95.5)
