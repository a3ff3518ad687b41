from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presage.testing import ReaderContract
from presage.traces import Trace, read_trace
from presage.traces.writers import write_trace

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


def test_minus_one_is_missing_in_every_column() -> None:
    cancelled = job(read_trace(SAMPLE).jobs, "3")
    for column in ("start_ms", "end_ms", "wait_s", "run_s", "cpus_alloc", "executable"):
        assert cancelled[column] is None
    unknown = job(read_trace(SAMPLE).jobs, "5")
    assert (unknown["outcome"], unknown["user"], unknown["limit_s"], unknown["run_s"]) == (None, None, None, 0.0)


def test_the_manifest_tells_what_the_header_says() -> None:
    manifest = read_trace(SAMPLE).manifest
    assert (manifest.machine.nodes, manifest.machine.cpus) == (16, 64)
    assert manifest.time_zone == "Europe/Berlin"
    assert manifest.acknowledgement == "nobody; these rows are made up"
    assert manifest.origin_ms == 1_600_000_000_000
    assert manifest.absolute_time
    assert len(manifest.header) == 8
    assert manifest.has["waits"]
    assert not manifest.has["gpus"]


def test_preceding_jobs_become_edges() -> None:
    edges = read_trace(SAMPLE).edges
    assert edges.rows() == [("4", "1", "think", 30.0)]


ROW = "{job} {submit} 5 10 2 -1 -1 2 60 -1 {status} 1 1 1 1 1 -1 -1"


def rows(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def read_text(tmp_path: Path, text: str) -> Trace:
    path = tmp_path / "log.swf"
    path.write_text(text)
    return read_trace(path)


def test_a_log_without_header_counts_from_its_own_zero(tmp_path: Path) -> None:
    trace = read_text(tmp_path, rows(ROW.format(job=1, submit=7, status=1), ROW.format(job=2, submit=9, status=0)))
    assert not trace.manifest.absolute_time
    assert trace.jobs["submit_ms"].to_list() == [7_000, 9_000]
    assert trace.manifest.machine.cpus is None


def test_absolute_epochs_are_recognised(tmp_path: Path) -> None:
    trace = read_text(tmp_path, rows(ROW.format(job=0, submit=1_356_996_147, status=1)))
    assert trace.manifest.absolute_time
    assert trace.jobs["submit_ms"].to_list() == [1_356_996_147_000]


def test_statuses_beyond_the_standard_are_exit_codes(tmp_path: Path) -> None:
    trace = read_text(
        tmp_path, rows(*(ROW.format(job=i, submit=i, status=s) for i, s in enumerate([0, 1, 271, -1])))
    )
    assert trace.jobs["outcome"].to_list() == ["completed", "failed", "failed", None]
    assert trace.jobs["exit_code"].to_list() == [0, 1, 271, None]
    assert trace.jobs["status"].to_list() == ["0", "1", "271", None]


def test_rows_of_partial_executions_become_attempts(tmp_path: Path) -> None:
    statuses = [(1, 1), (1, 2), (1, 3), (2, 0)]
    trace = read_text(
        tmp_path, rows(*(ROW.format(job=j, submit=i, status=s) for i, (j, s) in enumerate(statuses)))
    )
    assert trace.jobs["job_id"].to_list() == ["1", "2"]
    assert trace.attempts.select("job_id", "attempt", "outcome").rows() == [
        ("1", 0, "suspended"),
        ("1", 1, "completed"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        SAMPLE.read_text().replace("  ", "\t"),
        SAMPLE.read_text().replace("\n", "\r\n"),
        SAMPLE.read_text().replace("\n", "   \n\n"),
        SAMPLE.read_text().replace("; ", ";\t   "),
        SAMPLE.read_text().replace("; ", ";"),
        SAMPLE.read_text().rstrip("\n"),
        SAMPLE.read_text() + "; a comment at the end\n",
    ],
    ids=["tabs", "crlf", "trailing blanks", "indented header", "dense header", "no last newline", "late comment"],
)
def test_layouts_that_mean_the_same_are_read_the_same(tmp_path: Path, text: str) -> None:
    trace = read_text(tmp_path, text)
    assert trace.jobs.equals(read_trace(SAMPLE).jobs)
    assert trace.manifest.machine.cpus == 64


def test_fractions_of_seconds_are_kept(tmp_path: Path) -> None:
    trace = read_text(tmp_path, rows("1 0.5 1.25 2.75 1 -1 -1 1 60.5 -1 1 1 1 1 1 1 -1 -1"))
    assert trace.jobs.select("submit_ms", "start_ms", "end_ms", "limit_s").row(0) == (500, 1750, 4500, 60.5)


def test_bad_rows_say_which_column_and_why(tmp_path: Path) -> None:
    good = ROW.format(job=1, submit=0, status=1)
    bad = ["1 2 3", good.replace("60", "soon"), good.replace("60", "nan"), good.replace(" 5 ", " 99999999999999 ")]
    trace = read_text(tmp_path, rows("; Version: 2", good, *bad))
    assert len(trace) == 1
    assert trace.rejects.select("line", "reason").rows() == [
        (3, "3 columns where 18 were expected"),
        (4, "column 9 (limit): 'soon' is not a number"),
        (5, "column 9 (limit): 'nan' is not a number"),
        (6, "column 3 (wait): '99999999999999' is not a plausible number of seconds"),
    ]


def test_impossible_values_are_missing_and_noted(tmp_path: Path) -> None:
    trace = read_text(tmp_path, rows(ROW.format(job=1, submit=0, status=1).replace(" 10 ", " -86400 ")))
    assert trace.jobs["run_s"].to_list() == [None]
    assert trace.manifest.notes[-1] == "1 negative value of the column 'run' read as missing"


def test_further_columns_are_kept(tmp_path: Path) -> None:
    base = ROW.format(job=1, submit=0, status=1)
    assert read_text(tmp_path, rows(f"{base} 7")).jobs["x_swf_19"].to_list() == ["7"]
    nameless = base.replace("60 -1", "60 1073741824").replace("1 1 -1 -1", "-1 1 -1 -1")
    alea = read_text(tmp_path, rows(nameless + " {3,3,5} q_1d 1:ppn=2")).jobs
    assert alea.select("node_list", "queue", "constraint", "nodes_alloc", "mem_req_bytes").row(0) == (
        ["3", "5"], "q_1d", "1:ppn=2", 2, 2**30,
    )  # fmt: skip


@given(
    st.lists(
        st.tuples(*[st.integers(-1, 10**6)] * 10, st.sampled_from([-1, 0, 1, 5]), *[st.integers(-1, 99)] * 5),
        min_size=1,
        max_size=30,
    )
)
def test_any_standard_log_survives_parquet_and_swf(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[tuple[int, ...]]
) -> None:
    folder = tmp_path_factory.mktemp("round")
    lines = [f"{n} {max(job[1], 0)} {' '.join(map(str, job[2:]))} -1 -1" for n, job in enumerate(jobs)]
    trace = read_text(folder, rows("; MaxProcs: 64", *lines))
    trace.save(folder / "trace.parquet")
    write_trace(read_trace(folder / "trace.parquet"), folder / "again.swf")
    written = [line.split() for line in (folder / "again.swf").read_text().splitlines() if line[0] != ";"]
    order = {str(job_id): position for position, job_id in enumerate(trace.jobs["job_id"])}
    expected = sorted((line.split() for line in lines), key=lambda cells: order[cells[0]])
    assert written == expected


# Counts of the files as they are published; status counts stand in the same order as OUTCOMES.
OUTCOMES = ("completed", "failed", "cancelled", None)
REAL = {
    "ANL-Intrepid-2009-1": (68_936, 163_840, 236, (0, 0, 0, 68_936)),
    "CEA-Curie-2011-2.1-cln": (312_826, 93_312, 582, (281_337, 14_003, 17_486, 0)),
    "CERIT-wagap-2013": (17_900, None, 75, (17_900, 0, 0, 0)),
    "CTC-SP2-1996-3.1-cln": (77_222, 338, 679, (60_553, 16_669, 0, 0)),
    "DOST-ASTI_COARE-Saliksik-2020-cln": (19_760, 1_728, 89, (12_386, 5_424, 1_950, 0)),
    "HPC2N-2002-2.2-cln": (202_871, 240, 257, (201_993, 0, 0, 878)),
    "KTH-SP2-1996-2.1-cln": (28_476, 100, 214, (20_530, 7_946, 0, 0)),
    "LANL-CM5-1994-4.1-cln": (122_060, 1_024, 213, (101_692, 20_368, 0, 0)),
    "LCG-2005-1": (188_041, 24_515, 216, (0, 0, 0, 188_041)),
    "LLNL-Atlas-2006-2.1-cln": (43_778, 9_216, 131, (21_915, 10_431, 11_432, 0)),
    "LLNL-Thunder-2007-1.1-cln": (121_039, 4_008, 283, (104_162, 8_856, 8_021, 0)),
    "LPC-EGEE-2004-1.2-cln": (234_889, 140, 56, (207_825, 10_490, 16_574, 0)),
    "METACENTRUM-2009-2": (103_656, None, 147, (87_831, 15_825, 0, 0)),
    "NASA-iPSC-1993-3.1-cln": (18_239, 128, 69, (0, 0, 0, 18_239)),
    "OSC-Clust-2000-3.1-cln": (36_097, 178, 253, (36_097, 0, 0, 0)),
    "RICC-2010-2": (447_794, 8_192, 176, (431_549, 0, 16_245, 0)),
    "SDSC-BLUE-2000-4.2-cln": (243_306, 1_152, 468, (195_586, 0, 47_718, 2)),
    "SDSC-Par-1996-3.1-cln": (32_135, 400, 60, (31_321, 814, 0, 0)),
    "SDSC-SP2-1998-4.2-cln": (59_715, 128, 437, (43_117, 0, 16_598, 0)),
    "Sandia-Ross-2001-1.1-cln": (57_882, 1_524, 203, None),
    "model-lublin_256": (10_000, 256, None, (10_000, 0, 0, 0)),
    "ALCF-Theta-2018-cqgym": (3_000, 4_360, None, None),
}


@pytest.mark.shared_data
@pytest.mark.parametrize("name", REAL)
def test_real_logs_have_the_counts_of_their_files(name: str, shared_data: Path) -> None:
    jobs, cpus, users, outcomes = REAL[name]
    trace = read_trace(shared_data / f"{name}.swf.gz")
    assert len(trace.rejects) == 0
    assert (len(trace), trace.manifest.machine.cpus) == (jobs, cpus)
    if users is not None:
        assert trace.jobs["user"].n_unique() == users  # where some are unknown, that is one of them
    if outcomes is not None:
        found = dict(trace.jobs["outcome"].value_counts().iter_rows())
        assert tuple(found.get(outcome, 0) for outcome in OUTCOMES) == outcomes


def test_of_several_logs_no_header_is_kept_and_the_largest_machine_is(tmp_path: Path) -> None:
    for name, start, processors in (("a.swf", 2000, 8), ("b.swf", 1000, 32)):
        text = SAMPLE.read_text().replace("1600000000", f"{start + 1_600_000_000}")
        (tmp_path / name).write_text(text.replace("MaxProcs: 64", f"MaxProcs: {processors}"))
    manifest = read_trace(tmp_path / "a.swf", tmp_path / "b.swf").manifest
    assert manifest.header == ()
    assert manifest.origin_ms == 1_600_001_000_000
    assert manifest.machine.cpus == 32
    assert manifest.acknowledgement == "nobody; these rows are made up"
