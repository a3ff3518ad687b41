from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from presage.errors import MalformedTraceError, UnknownNameError, UsageError
from presage.testing import WriterContract, make_job, make_trace
from presage.traces import Trace, read_trace
from presage.traces.schema import JOBS
from presage.traces.writers import choose_writer, write_trace

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"


class TestParquet(WriterContract):
    format = "parquet"
    suffix = ".parquet"
    keeps = tuple(JOBS)
    compresses = False


class TestJsonLines(WriterContract):
    format = "jsonl"
    suffix = ".jsonl"
    keeps = tuple(JOBS)


class TestCsv(WriterContract):
    format = "csv"
    suffix = ".csv"
    keeps = tuple(JOBS)


class TestSwf(WriterContract):
    format = "swf"
    suffix = ".swf"
    keeps = (
        "user",
        "queue",
        "submit_ms",
        "start_ms",
        "wait_s",
        "run_s",
        "limit_s",
        "cpus_req",
        "cpus_alloc",
        "outcome",
    )


def test_swf_to_parquet_to_swf_keeps_every_column(tmp_path: Path) -> None:
    original = read_trace(FIXTURES / "swf.swf")
    original.save(tmp_path / "a.parquet")
    write_trace(read_trace(tmp_path / "a.parquet"), tmp_path / "a.swf")
    rows = [line.split() for line in (FIXTURES / "swf.swf").read_text().splitlines() if line[0] != ";"]
    again = [line.split() for line in (tmp_path / "a.swf").read_text().splitlines() if line[0] != ";"]
    assert [[float(cell) for cell in row] for row in again] == [[float(cell) for cell in row] for row in rows]
    headers = [line for line in (tmp_path / "a.swf").read_text().splitlines() if line.startswith(";")]
    assert headers == [line for line in (FIXTURES / "swf.swf").read_text().splitlines() if line.startswith(";")]


@pytest.mark.shared_data
@pytest.mark.parametrize(
    "name",
    ["KTH-SP2-1996-2.1-cln", "Sandia-Ross-2001-1.1-cln", "LANL-CM5-1994-4.1-cln", "HPC2N-2002-2.2-cln",
     "SDSC-SP2-1998-4.2-cln", "METACENTRUM-2009-2", "ALCF-Theta-2018-cqgym"],
)  # fmt: skip
def test_real_swf_logs_survive_the_round_trip(name: str, shared_data: Path, tmp_path: Path) -> None:
    original = read_trace(shared_data / f"{name}.swf.gz")
    write_trace(original, tmp_path / "again.swf")
    assert_frame_equal(read_trace(tmp_path / "again.swf").jobs, original.jobs)


def test_swf_numbers_names_and_lists_them(tmp_path: Path) -> None:
    trace = make_trace(
        make_job(1_600_000_000, 0, 5, user="ann", queue="short", job_id="a"),
        make_job(1_600_000_001, 0, 5, user="bob", queue="long", job_id="b"),
        make_job(1_600_000_002, 0, 5, user="ann", queue="long", job_id="c"),
    )
    write_trace(trace, tmp_path / "t.swf")
    text = (tmp_path / "t.swf").read_text()
    assert "; Queue: 1 short\n; Queue: 2 long" in text
    assert "; UnixStartTime: 1600000000" in text
    again = read_trace(tmp_path / "t.swf").jobs
    assert again["user"].to_list() == ["1", "2", "1"]
    assert again["submit_ms"].to_list() == trace.jobs["submit_ms"].to_list()
    assert again["job_id"].to_list() == ["1", "2", "3"]


def test_side_tables_are_kept_beside_the_parquet_file(tmp_path: Path) -> None:
    trace = make_trace(make_job(0, 0, 1), make_job(1, 0, 1))
    edges = pl.DataFrame({"job_id": ["2"], "depends_on": ["1"], "kind": ["afterok"]})
    Trace.create(trace.jobs, trace.manifest, edges=edges).save(tmp_path / "t.parquet")
    assert Trace.load(tmp_path / "t.parquet").edges["depends_on"].to_list() == ["1"]
    (tmp_path / "t.edges.parquet").unlink()
    with pytest.raises(MalformedTraceError, match=r"t\.edges\.parquet is missing"):
        Trace.load(tmp_path / "t.parquet")
    trace.save(tmp_path / "t.parquet")
    assert len(Trace.load(tmp_path / "t.parquet").edges) == 0


def test_text_goes_to_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=buffer, flush=lambda: None))
    write_trace(make_trace(make_job(0, 0, 1)), "-", format="csv")
    assert buffer.getvalue().startswith(b"job_id,submit_ms,")
    with pytest.raises(UsageError, match="standard output"):
        write_trace(make_trace(make_job(0, 0, 1)), "-", format="parquet")


def test_wrong_endings_and_names_are_told() -> None:
    with pytest.raises(UsageError, match=r"\.parquet, \.swf"):
        choose_writer("out.xlsx")
    with pytest.raises(UnknownNameError, match="Did you mean 'parquet'"):
        choose_writer("out", "parket")
    with pytest.raises(UsageError, match="no folder"):
        write_trace(make_trace(make_job(0, 0, 1)), "nowhere/out.csv")
