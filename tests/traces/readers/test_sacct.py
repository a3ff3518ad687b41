from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from presage.errors import UnreadableSourceError
from presage.testing import ReaderContract
from presage.traces import ReadOptions, Source, Trace, detect, read_trace

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"
GIB = 2**30
MIB = 2**20


class TestSacct(ReaderContract):
    format = "sacct"
    sample = FIXTURES / "sacct.txt"
    jobs = 14


class TestXdmodLayout(ReaderContract):
    format = "sacct"
    sample = FIXTURES / "sacct_xdmod.txt"
    jobs = 5


class TestLayoutWithSteps(ReaderContract):
    format = "sacct"
    sample = FIXTURES / "sacct_steps.txt"
    jobs = 4


class TestAligned(ReaderContract):
    format = "sacct"
    sample = FIXTURES / "sacct_aligned.txt"
    jobs = 4


@pytest.fixture(scope="module")
def trace() -> Trace:
    return read_trace(FIXTURES / "sacct.txt")


def job(trace: Trace, job_id: str) -> dict[str, Any]:
    return trace.jobs.row(by_predicate=pl.col("job_id") == job_id, named=True)


def ms(text: str) -> int:
    return int(datetime.fromisoformat(f"2024-03-04T{text}").replace(tzinfo=UTC).timestamp() * 1000)


def sacct(tmp_path: Path, text: str, **options: Any) -> Trace:
    path = tmp_path / "dump.txt"
    path.write_text(text)
    return read_trace(path, format="sacct", options=ReadOptions(**options))


def test_times_and_durations(trace: Trace) -> None:
    first = job(trace, "100")
    assert (first["submit_ms"], first["start_ms"], first["end_ms"]) == (
        ms("08:00:00"),
        ms("08:10:00"),
        ms("10:10:00"),
    )
    assert (first["wait_s"], first["run_s"], first["limit_s"]) == (600, 7200, 86400)
    assert trace.manifest.scheduler == "slurm"


def test_run_time_includes_suspensions_which_elapsed_does_not(trace: Trace) -> None:
    stopped = job(trace, "108")
    assert (stopped["run_s"], stopped["suspended_s"]) == (1800, 300)


def test_memory_of_the_whole_job(trace: Trace) -> None:
    assert job(trace, "100")["mem_req_bytes"] == 64 * 4 * GIB  # 4Gc
    assert job(trace, "101_1")["mem_req_bytes"] == 2000 * MIB  # 2000Mn
    assert job(trace, "102+1")["mem_req_bytes"] == 8 * GIB  # 8G
    assert job(trace, "106")["mem_req_bytes"] == 4 * 2800 * MIB  # 2147486448Mn: the flag for "per CPU" unmasked


def test_steps_tell_what_their_job_used(trace: Trace) -> None:
    assert job(trace, "100")["mem_used_bytes"] == 3 * GIB  # all tasks together, though MaxRSS is 1.5G
    assert job(trace, "101_1")["mem_used_bytes"] == 512 * MIB
    assert job(trace, "100")["cpu_used_s"] == 5 * 86400 + 4 * 3600
    assert job(trace, "101_1")["cpu_used_s"] == 29 * 60 + 30.25
    assert trace.manifest.counts["steps_folded"] == 8


def test_arrays_and_heterogeneous_jobs(trace: Trace) -> None:
    task = job(trace, "101_2")
    assert (task["array_id"], task["array_task"], task["outcome"]) == ("101", 2, "timeout")
    part = job(trace, "102+1")
    assert (part["het_id"], part["het_offset"], part["cpus_alloc"]) == ("102", 1, 8)
    pending = job(trace, "101_[3-8%2]")
    assert (pending["array_id"], pending["array_task"], pending["outcome"]) == ("101", None, "pending")
    assert trace.manifest.counts["pending_arrays"] == 1


def test_a_job_that_never_started_got_nothing(trace: Trace) -> None:
    for job_id in ("103", "101_[3-8%2]"):
        never = job(trace, job_id)
        assert [
            never[name] for name in ("start_ms", "wait_s", "run_s", "cpus_alloc", "nodes_alloc", "node_list")
        ] == ([None] * 6)
    assert job(trace, "103")["cpus_req"] == 16
    assert job(trace, "103")["end_ms"] == ms("08:04:00")


def test_gpus_and_their_types(trace: Trace) -> None:
    train = job(trace, "104")
    assert (train["gpus_req"], train["gpus_alloc"], train["gpu_type"]) == (4, 4, "a100")
    assert train["gpu_type_req"] is None
    assert job(trace, "100")["gpus_req"] == 0  # known to be none, in a log that counts GPUs
    assert train["node_list"] == ["g1n07", "g1n09", "g2n07", "g2n09"]


def test_gpus_are_unknown_in_a_log_that_never_names_them() -> None:
    jobs = read_trace(FIXTURES / "sacct_xdmod.txt").jobs
    assert jobs["gpus_req"].null_count() == len(jobs)


def test_outcomes_and_exit_codes(trace: Trace) -> None:
    killed = job(trace, "106")
    assert (killed["outcome"], killed["exit_code"], killed["signal"]) == ("out_of_memory", 0, 125)
    assert (job(trace, "108")["exit_code"], job(trace, "108")["signal"]) == (7, None)
    assert job(trace, "109")["outcome"] == "node_failure"
    assert (job(trace, "103")["outcome"], job(trace, "103")["status"]) == ("cancelled", "CANCELLED by 1002")


def test_limits_that_are_none(trace: Trace) -> None:
    assert job(trace, "107")["limit_s"] is None
    assert job(trace, "109")["limit_s"] is None
    assert trace.manifest.counts["unlimited"] == 1
    assert trace.manifest.counts["partition_limits"] == 1


def test_a_running_job_has_no_run_time_yet(trace: Trace) -> None:
    running = job(trace, "107")
    assert (running["outcome"], running["end_ms"], running["run_s"]) == ("running", None, None)
    assert running["x_elapsed_s"] == 6 * 3600


def test_a_requeued_job_is_one_job_with_attempts(trace: Trace) -> None:
    patient = job(trace, "105")
    assert (patient["submit_ms"], patient["wait_s"], patient["run_s"]) == (ms("08:16:31"), 240, 1800)
    assert (patient["restarts"], patient["outcome"], patient["mem_used_bytes"]) == (1, "completed", 2 * GIB)
    attempts = trace.attempts.filter(job_id="105").drop("node_list").rows(named=True)
    assert [attempt["outcome"] for attempt in attempts] == ["requeued", "completed"]
    assert [attempt["attempt"] for attempt in attempts] == [0, 1]
    assert [attempt["queued_ms"] for attempt in attempts] == [ms("08:06:00"), ms("08:16:31")]
    assert len(trace.attempts) == 2


def test_dependencies_become_edges(trace: Trace) -> None:
    assert trace.edges.rows() == [("104", "100", "afterok", None)]


def test_a_text_with_the_delimiter_in_it_is_put_together_again(trace: Trace) -> None:
    assert job(trace, "110")["name"] == "grid|a=1|b=2"
    assert trace.manifest.counts["rows_mended"] == 1


def test_what_has_no_column_is_kept(trace: Trace) -> None:
    assert job(trace, "104")["x_reason"] == "Dependency"
    assert job(trace, "101_1")["x_jobidraw"] == "111"


def test_known_layouts_need_no_header() -> None:
    xdmod = read_trace(FIXTURES / "sacct_xdmod.txt")
    wide = job(xdmod, "502")
    assert (wide["wait_s"], wide["user"], wide["nodes_alloc"]) == (120, "erin", 2)
    assert wide["mem_req_bytes"] == 24 * 2800 * MIB
    assert wide["node_list"] == ["fir-a1-06", "fir-a1-08"]
    stepped = read_trace(FIXTURES / "sacct_steps.txt")
    assert job(stepped, "9001")["mem_used_bytes"] == 139068 * 1024
    assert job(stepped, "9002")["mem_used_bytes"] == 1248 * 1024  # its step stands above it
    assert job(stepped, "9002")["partition"] == "spot"
    assert job(stepped, "9001")["partition"] is None  # those rows have a field less
    assert stepped.manifest.counts["steps_folded"] == 2


def test_a_cancellation_in_the_queue_is_no_start() -> None:
    for name, job_id in (("sacct_xdmod.txt", "503"), ("sacct_steps.txt", "9003")):
        trace = read_trace(FIXTURES / name)
        assert job(trace, job_id)["start_ms"] is None
        assert trace.manifest.counts["cancelled_before_start"] == 1
    # A job that failed at once on a node did start.
    assert job(read_trace(FIXTURES / "sacct_xdmod.txt"), "505")["wait_s"] == 0


def test_aligned_columns_may_cut_their_cells() -> None:
    trace = read_trace(FIXTURES / "sacct_aligned.txt")
    assert job(trace, "7001")["node_list"] == ["c01", "c02"]
    assert (job(trace, "7002_15")["outcome"], job(trace, "7002_15")["array_task"]) == ("cancelled", 15)
    assert (job(trace, "7003")["outcome"], job(trace, "7003")["node_list"]) == ("out_of_memory", None)
    assert trace.manifest.counts["steps_folded"] == 3
    assert trace.manifest.counts["cut_cells"] == 4


def test_all_shapes_of_the_same_table_read_the_same(tmp_path: Path) -> None:
    lines = (FIXTURES / "sacct.txt").read_text().splitlines()
    expected = read_trace(FIXTURES / "sacct.txt").jobs
    trailing = sacct(tmp_path, "\n".join(f"{line}|" for line in lines))  # --parsable
    assert_frame_equal(trailing.jobs, expected)
    bare = sacct(tmp_path, "\n".join(lines[1:]), fields=tuple(lines[0].split("|")))  # --noheader
    assert_frame_equal(bare.jobs, expected)
    twice = sacct(tmp_path, "\n".join([*lines[:12], lines[0], *lines[12:]]))  # dumps put together
    assert_frame_equal(twice.jobs, expected)
    windows = sacct(tmp_path, "\r\n".join(lines) + "\r\n")
    assert_frame_equal(windows.jobs, expected)
    caret = sacct(tmp_path, "\n".join(line.replace("grid|a=1|b=2", "grid").replace("|", "^") for line in lines))
    assert_frame_equal(caret.jobs.drop("name"), expected.drop("name"))


def test_a_table_that_went_through_a_spreadsheet(tmp_path: Path) -> None:
    trace = sacct(
        tmp_path,
        ',"JobID","State","NodeList","ReqCPUS","Made up","job_id"\n'
        '0,"7","COMPLETED","n[1-2,4]",2,"yes","a"\n1,"7.batch","COMPLETED","n1",2,"",\n',
    )
    assert job(trace, "7")["node_list"] == ["n1", "n2", "n4"]
    assert (job(trace, "7")["x_made_up"], job(trace, "7")["x_job_id"]) == ("yes", "a")


def test_epochs_are_times_too(tmp_path: Path) -> None:
    header = "JobID|Submit|Start|End|State\n"
    trace = sacct(tmp_path, header + "1|1700000000|1700000010|1700000070|COMPLETED\n", time_zone="Asia/Tokyo")
    assert (job(trace, "1")["submit_ms"], job(trace, "1")["run_s"]) == (1_700_000_000_000, 60)


def test_local_times_follow_their_zone(tmp_path: Path) -> None:
    header = "JobID|Submit|Start|End|State\n"
    row = "1|2024-07-01T12:00:00|2024-07-01T12:00:10|2024-07-01T12:01:10|COMPLETED\n"
    trace = sacct(tmp_path, header + row, time_zone="Europe/Berlin")
    assert job(trace, "1")["submit_ms"] == int(datetime(2024, 7, 1, 10, tzinfo=UTC).timestamp() * 1000)
    assert trace.manifest.time_zone == "Europe/Berlin"
    # 02:30 happens twice in this night; a job cannot end before it starts.
    night = "1|2024-10-27T02:10:00|2024-10-27T02:50:00|2024-10-27T02:20:00|COMPLETED\n"
    assert job(sacct(tmp_path, header + night, time_zone="Europe/Berlin"), "1")["run_s"] == 1800


def test_without_header_and_known_order_the_user_is_asked(tmp_path: Path) -> None:
    row = "COMPLETED|someone|17|2024-07-01T12:00:00|2024-07-01T12:00:10|gpu\n"
    path = tmp_path / "dump.txt"
    path.write_text(row)
    assert detect(Source(path)) == "sacct"
    with pytest.raises(UnreadableSourceError, match="--fields"):
        read_trace(path)
    named = read_trace(
        path, options=ReadOptions(fields=("State", "User", "JobID", "Submit", "Start", "Partition"))
    )
    assert named.jobs.select("job_id", "user", "partition", "wait_s").row(0) == ("17", "someone", "gpu", 10)


def test_fields_without_an_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSourceError, match="JobID"):
        sacct(tmp_path, "COMPLETED|someone\n", fields=("State", "User"))


def test_a_step_without_its_job_is_rejected(tmp_path: Path) -> None:
    trace = sacct(tmp_path, "JobID|State|MaxRSS\n1|COMPLETED|\n1.batch|COMPLETED|5K\n2.batch|COMPLETED|6K\n")
    assert len(trace) == 1
    assert trace.rejects.select("line", "reason", "text").rows() == [
        (4, "a step of a job that the log does not show", "2.batch")
    ]


def test_bad_cells_reject_their_row_with_the_reason(tmp_path: Path) -> None:
    header = "JobID|State|Submit|Elapsed|ReqCPUS|ReqMem|ReqTRES\n"
    rows = [
        "1|COMPLETED|2024-07-01T12:00:00|00:01:00|4|4Gc|garbage",
        "2|SLEEPING|2024-07-01T12:00:00|00:01:00|4|4Gc|",
        "x|COMPLETED|2024-07-01T12:00:00|00:01:00|4|4Gc|",
        "4|COMPLETED|yesterday|00:01:00|4|4Gc|",
        "5|COMPLETED|2024-07-01T12:00:00|a while|4|4Gc|",
        "6|COMPLETED|2024-07-01T12:00:00|00:01:00|four|4Gc|",
        "7|COMPLETED|2024-07-01T12:00:00|00:01:00|4|lots|",
    ]
    trace = sacct(tmp_path, header + "\n".join(rows))
    assert trace.jobs["job_id"].to_list() == ["1"]
    assert trace.rejects["line"].to_list() == [3, 4, 5, 6, 7, 8]
    assert [reason.partition(":")[0] for reason in trace.rejects["reason"]] == [
        "state", "jobid", "submit", "elapsed", "reqcpus", "reqmem",
    ]  # fmt: skip
    # What a job can do without is only missing, and counted.
    assert trace.manifest.counts["unread_resources"] == 1


def test_an_absurd_node_list_is_noted_and_not_expanded(tmp_path: Path) -> None:
    trace = sacct(tmp_path, "JobID|State|NodeList\n1|COMPLETED|n[0-999999999]\n2|COMPLETED|n[1-2]\n")
    assert trace.jobs["node_list"].to_list() == [None, ["n1", "n2"]]
    assert trace.manifest.counts["unread_node_lists"] == 1


HEADER = "JobID|JobName|User|State|Submit|Start|End|NNodes\n"


def record(state: str, submit: str, start: str, end: str, *, user: str = "ann", job_id: str = "9") -> str:
    times = "|".join(text if text == "Unknown" else f"2024-07-{text}" for text in (submit, start, end))
    return f"{job_id}|run|{user}|{state}|{times}|2\n"


def test_a_resized_job_keeps_its_submit_and_start(tmp_path: Path) -> None:
    before = record("RESIZING", "01T12:00:00", "01T12:01:00", "01T12:11:00")
    after = record("COMPLETED", "01T12:11:00", "01T12:01:00", "01T12:31:00")
    trace = sacct(tmp_path, HEADER + before + after)
    only = job(trace, "9")
    assert (only["wait_s"], only["run_s"], only["restarts"]) == (60, 1800, None)
    assert trace.attempts["outcome"].to_list() == ["suspended", "completed"]
    lengths = trace.attempts.select((pl.col("end_ms") - pl.col("start_ms")) / 60_000).to_series()
    assert lengths.to_list() == [10, 20]


def test_an_id_that_another_job_had_is_no_requeue(tmp_path: Path) -> None:
    first = record("COMPLETED", "01T12:00:00", "01T12:01:00", "01T12:02:00")
    months_later = record("COMPLETED", "31T12:00:00", "31T12:01:00", "31T12:02:00")
    someone_else = record("PREEMPTED", "01T12:02:01", "01T12:02:10", "01T12:02:20", user="bea")
    trace = sacct(tmp_path, HEADER + first + someone_else + months_later)
    assert trace.jobs["job_id"].to_list() == ["9", "9~2", "9~3"]
    assert trace.manifest.counts["duplicate_ids"] == 2
    assert len(trace.attempts) == 0


def test_attempts_follow_the_job_whose_id_is_reused(tmp_path: Path) -> None:
    first = record("COMPLETED", "01T12:00:00", "01T12:01:00", "01T12:02:00")
    preempted = record("PREEMPTED", "31T12:00:00", "31T12:01:00", "31T12:02:00")
    again = record("COMPLETED", "31T12:02:00", "31T12:03:00", "31T12:04:00")
    trace = sacct(tmp_path, HEADER + again + preempted + first)
    assert trace.jobs.select("job_id", "restarts").rows() == [("9", None), ("9~2", 1)]
    assert trace.attempts["job_id"].to_list() == ["9~2", "9~2"]


def test_of_two_looks_at_a_job_the_later_one_counts(tmp_path: Path) -> None:
    running = record("RUNNING", "01T12:00:00", "01T12:01:00", "Unknown")
    ended = record("TIMEOUT", "01T12:00:00", "01T12:01:00", "01T13:01:00")
    monday, tuesday = tmp_path / "monday.txt", tmp_path / "tuesday.txt"
    monday.write_text(HEADER + running)
    tuesday.write_text(HEADER + ended)
    for order in ((monday, tuesday), (tuesday, monday)):
        trace = read_trace(*order)
        assert trace.jobs.select("job_id", "outcome", "run_s", "restarts").rows() == [("9", "timeout", 3600, None)]
        assert trace.manifest.counts["earlier_looks"] == 1
        assert len(trace.manifest.sources) == 2


def test_the_same_id_on_two_clusters_is_two_jobs(tmp_path: Path) -> None:
    trace = sacct(
        tmp_path,
        "JobID|Cluster|State|Submit|End|MaxRSS\n"
        "5|east|REQUEUED|2024-07-01T12:00:00|2024-07-01T12:01:00|\n"
        "5|west|COMPLETED|2024-07-01T12:01:00|2024-07-01T12:02:00|\n"
        "5.batch|east|CANCELLED|2024-07-01T12:00:00|2024-07-01T12:01:00|7K\n",
    )
    assert trace.jobs.select("job_id", "cluster", "mem_used_bytes").rows() == [
        ("5", "east", 7168),
        ("5~2", "west", None),
    ]


@pytest.mark.shared_data
def test_a_real_site(shared_data: Path) -> None:
    trace = read_trace(shared_data / "xdmod-pozidriv.sacct.txt.gz")
    jobs = trace.jobs
    assert (len(jobs), len(trace.rejects)) == (11_704, 0)
    assert dict(jobs["outcome"].value_counts().iter_rows()) == {
        "completed": 10_134, "failed": 1_007, "cancelled": 468, "preempted": 86, "timeout": 9,
    }  # fmt: skip
    assert jobs["user"].n_unique() == 18
    in_queue_s = jobs.select((pl.coalesce("start_ms", "end_ms") - pl.col("submit_ms")) / 1000).to_series()
    assert in_queue_s.median() == 141
    assert in_queue_s.mean() == pytest.approx(7_577, abs=1)
    # 419 of these were cancelled in the queue and waited for nothing.
    assert trace.manifest.counts["cancelled_before_start"] == 419
    assert jobs["wait_s"].median() == 127
    assert jobs["wait_s"].mean() == pytest.approx(6_688, abs=1)
    assert trace.manifest.counts["partition_limits"] == 58
    per_cpu = jobs.filter(pl.col("mem_req_bytes") == pl.col("cpus_req") * 2800 * MIB)
    assert len(per_cpu) > 0
    asked_otherwise = jobs.filter(
        (pl.col("mem_req_bytes") - pl.col("mem_alloc_bytes")).abs() > 0.01 * pl.col("mem_req_bytes")
    )
    assert len(asked_otherwise) == 0  # ReqMem with its flags and factors agrees with what Slurm allocated
    assert (jobs["node_list"].list.len() == jobs["nodes_alloc"]).all()


@pytest.mark.shared_data
def test_a_real_dump_with_steps(shared_data: Path) -> None:
    trace = read_trace(shared_data / "aws-slurm-sacct-steps.txt.gz")
    assert (len(trace), len(trace.rejects)) == (483, 0)  # 878 rows, 395 of them steps
    assert trace.manifest.counts["steps_folded"] == 395
    assert trace.manifest.sources[0].rows == 878
    assert dict(trace.jobs["outcome"].value_counts().iter_rows()) == {
        "out_of_memory": 261, "failed": 129, "cancelled": 91, "completed": 2,
    }  # fmt: skip
    assert trace.jobs["mem_used_bytes"].count() == 395
