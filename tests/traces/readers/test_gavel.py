from __future__ import annotations

from pathlib import Path

import pytest

from presage.errors import UnreadableSourceError
from presage.testing import ReaderContract
from presage.traces import Source, detect, read_trace

SAMPLE = Path(__file__).parents[2] / "fixtures" / "traces" / "gavel.trace"


class TestGavel(ReaderContract):
    format = "gavel"
    sample = SAMPLE
    jobs = 3


def test_reads_arrivals_sizes_and_steps() -> None:
    trace = read_trace(SAMPLE)
    assert trace.jobs["submit_ms"].to_list() == [0, 61_500, 3_600_000]
    assert trace.jobs["gpus_req"].to_list() == [4.0, 1.0, 16.0]
    assert trace.jobs["x_total_steps"].to_list() == [120_000, 9000, 500]
    assert trace.jobs["kind"].to_list() == ["ResNet-50 (batch size 64)", "LM (batch size 20)", "A3C"]
    assert not trace.manifest.absolute_time
    assert not trace.manifest.has["runs"]


@pytest.mark.parametrize(
    "line",
    [
        "A3C\tpython3 main.py\t--max-steps\t0\t500\t2\t1\t-1.0\t90.5",
        "A3C\tpython3 main.py\trl/\t--max-steps\t0\t500\t2\t1\t-1.0\t90.5",
        "A3C\tpython3 main.py\trl/\t--max-steps\t0\t500\t2\tstatic\t1\t-1.0\t360\t90.5",
    ],
)
def test_later_layouts_are_told_by_their_width(tmp_path: Path, line: str) -> None:
    path = tmp_path / "jobs.trace"
    path.write_text(f"{line}\n")
    assert detect(Source(path)) == "gavel"
    job = read_trace(path).jobs.row(0, named=True)
    assert (job["submit_ms"], job["gpus_req"], job["x_total_steps"], job["priority"]) == (90_500, 2.0, 500, 1.0)
    assert job["run_s"] == (360.0 if "static" in line else None)


def test_another_width_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "jobs.trace"
    path.write_text("a\tb\tc\n")
    with pytest.raises(UnreadableSourceError, match="3 fields"):
        read_trace(path, format="gavel")


@pytest.mark.shared_data
def test_a_philly_virtual_cluster_is_read_whole(shared_data: Path) -> None:
    trace = read_trace(shared_data / "gavel-philly-7f04ca.trace.gz")
    assert (len(trace), len(trace.rejects)) == (972, 0)
    assert trace.jobs["gpus_req"].sum() == 4430.0
    days = trace.jobs["submit_ms"].max() / 86_400_000
    assert days == pytest.approx(125, abs=0.5)
