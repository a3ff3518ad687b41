from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from presage.errors import MalformedTraceError, OutputError, UnknownNameError, UsageError
from presage.testing import WriterContract, make_job, make_trace
from presage.traces import Trace, read_trace
from presage.traces.schema import JOBS
from presage.traces.workloads import make_model
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


def test_swf_has_whole_processors(tmp_path: Path) -> None:
    trace = make_trace(
        make_job(1_600_000_000, 0, 5, 0.5, cpus_req=0.25, mem_req_bytes=2**20),
        make_job(1_600_000_001, 0, 5, 2.5, cpus_req=4.0, mem_req_bytes=2**20),
        cpus=7.5,
    )
    write_trace(trace, tmp_path / "t.swf")
    again = read_trace(tmp_path / "t.swf")
    assert len(again.rejects) == 0
    assert again.jobs.select("cpus_alloc", "cpus_req", "mem_req_bytes").rows() == [(1, 1, 2**20), (3, 4, 2**20)]
    assert again.manifest.machine.cpus == 8


def test_generated_gpu_jobs_can_be_written_as_swf(tmp_path: Path) -> None:
    trace = make_model("gpu-cluster", {"nodes": 10}).generate(200, seed=1)
    write_trace(trace, tmp_path / "t.swf")
    again = read_trace(tmp_path / "t.swf")
    assert (len(again), len(again.rejects)) == (200, 0)


@pytest.mark.parametrize("through_parquet", [False, True])
def test_several_swf_logs_are_written_as_one(tmp_path: Path, through_parquet: bool) -> None:
    header = "; UnixStartTime: {}\n; MaxProcs: {}\n; MaxJobs: 1\n; Acknowledge: {}\n"
    row = "{} 5 10 100 4 -1 -1 4 600 -1 1 1 1 -1 1 -1 -1 -1\n"
    (tmp_path / "early.swf").write_text(header.format(1_600_000_000, 64, "Ann") + row.format(1))
    (tmp_path / "late.swf").write_text(header.format(1_600_009_000, 16, "Bob") + row.format(2))
    paths = [tmp_path / "early.swf", tmp_path / "late.swf"]
    if through_parquet:
        for path in paths:
            read_trace(path).save(path.with_suffix(".parquet"))
        paths = [path.with_suffix(".parquet") for path in paths]
    trace = read_trace(*paths)
    write_trace(trace, tmp_path / "both.swf")
    text = (tmp_path / "both.swf").read_text()
    assert [line.split()[:2] for line in text.splitlines() if line[0] != ";"] == [["1", "5"], ["2", "9005"]]
    for line in ("; UnixStartTime: 1600000000", "; MaxProcs: 64", "; MaxJobs: 2", "; Acknowledge: Ann; Bob"):
        assert line in text
    assert read_trace(tmp_path / "both.swf").jobs["submit_ms"].to_list() == trace.jobs["submit_ms"].to_list()


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    trace = make_trace(make_job(0, 0, 1))
    for suffix in (".parquet", ".swf", ".csv", ".jsonl"):
        folder = tmp_path / f"folder{suffix}"
        folder.mkdir()
        with pytest.raises(OutputError, match="is a folder"):
            write_trace(trace, folder)
        with pytest.raises(OutputError, match=r"'/proc/x.*cannot be written"):
            write_trace(trace, f"/proc/x{suffix}")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "folder.csv", "folder.jsonl", "folder.parquet", "folder.swf",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["parquet", "swf", "csv", "jsonl"])
def test_a_full_disk_is_a_clear_error_and_a_device_stays_one(name: str, tmp_path: Path) -> None:
    # Through a link, so that a mistake would replace the link and not the device of this machine.
    device = tmp_path / f"device.{name}"
    device.symlink_to("/dev/full")
    trace = make_trace(*(make_job(second, 0, 1) for second in range(2000)))
    with pytest.raises(OutputError, match="No space left"):
        write_trace(trace, device)
    assert device.is_symlink()
    assert device.is_char_device()


def test_what_a_link_points_to_is_written_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    write_trace(make_trace(make_job(0, 0, 1)), tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("job_id")


def test_endings_may_be_in_capitals(tmp_path: Path) -> None:
    trace = make_trace(make_job(0, 0, 1))
    for name in ("A.SWF", "A.Swf.GZ", "A.CSV.ZST", "A.PARQUET"):
        write_trace(trace, tmp_path / name)
        assert len(read_trace(tmp_path / name)) == 1
    assert (tmp_path / "A.Swf.GZ").read_bytes().startswith(b"\x1f\x8b")


@pytest.mark.parametrize(
    ("name", "to"), [("out.parquet.gz", None), ("out.PARQUET.ZST", None), ("o.gz", "parquet")]
)
def test_parquet_is_not_compressed_again(name: str, to: str | None) -> None:
    with pytest.raises(UsageError, match=r"compressed inside\. Leave out \."):
        choose_writer(name, to)


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
