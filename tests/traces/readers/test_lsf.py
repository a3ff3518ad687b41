from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from presage.testing import ReaderContract
from presage.traces import Trace, read_trace

SAMPLE = Path(__file__).parents[2] / "fixtures" / "traces" / "lsb.acct"
T0 = 1_700_000_000_000


class TestLsf(ReaderContract):
    format = "lsf"
    sample = SAMPLE
    jobs = 6


def job(trace: Trace, job_id: str) -> dict[str, Any]:
    return trace.jobs.row(by_predicate=pl.col("job_id") == job_id, named=True)


def test_reads_a_finished_job() -> None:
    done = job(read_trace(SAMPLE), "201")
    assert (done["submit_ms"], done["wait_s"], done["run_s"], done["outcome"]) == (T0, 10.0, 100.0, "completed")
    assert (done["name"], done["executable"]) == ('say "hi"', 'echo "a b"; sleep 5')
    assert (done["user"], done["queue"], done["account"], done["x_app"]) == ("ada", "normal", "default", "cfd")
    assert (done["cpus_req"], done["cpus_alloc"], done["nodes_alloc"], done["node_list"]) == (
        4.0,
        4.0,
        2,
        ["n1", "n2"],
    )
    assert (done["cpu_used_s"], done["mem_used_bytes"]) == (1.75, 2 * 2**20)
    assert (done["exit_code"], done["signal"], done["constraint"]) == (0, None, "rusage[mem=4096]")


def test_lists_of_hosts_move_the_fields_behind_them() -> None:
    failed = job(read_trace(SAMPLE), "202")
    assert (failed["cpus_alloc"], failed["node_list"]) == (8.0, ["n3", "n4"])
    assert (failed["outcome"], failed["exit_code"], failed["user"], failed["queue"]) == (
        "failed",
        127,
        "ben",
        "big",
    )


def test_reasons_why_a_job_ended() -> None:
    trace = read_trace(SAMPLE)
    killed, late, large = job(trace, "203"), job(trace, "204[3]"), job(trace, "204[4]")
    assert (killed["outcome"], killed["start_ms"], killed["wait_s"]) == ("cancelled", None, None)
    assert (killed["cpu_used_s"], killed["mem_used_bytes"], killed["node_list"]) == (None, None, None)
    assert (killed["eligible_ms"], killed["deadline_ms"]) == (T0 + 100_000, T0 + 1_000_000)
    assert (late["outcome"], late["array_id"], late["array_task"], late["signal"]) == ("timeout", "204", 3, 12)
    assert (large["outcome"], large["mem_used_bytes"]) == ("out_of_memory", 8 * 2**30)


def test_records_of_other_kinds_are_counted() -> None:
    assert read_trace(SAMPLE).manifest.counts["records_that_are_no_jobs"] == 1


@pytest.mark.parametrize("fields", [10, 24, 40])
def test_a_record_that_ends_early_is_rejected(tmp_path: Path, fields: int) -> None:
    lines = SAMPLE.read_text().splitlines()
    path = tmp_path / "lsb.acct"
    path.write_text("\n".join([*lines, " ".join(lines[-1].split(" ")[:fields])]) + "\n")
    trace = read_trace(path)
    assert (len(trace), trace.rejects["line"].to_list()) == (6, [len(lines) + 1])


@pytest.mark.shared_data
def test_reads_the_real_file(shared_data: Path) -> None:
    trace = read_trace(shared_data / "aws-lsf-lsb.acct.gz")
    assert (len(trace), len(trace.rejects)) == (82, 0)
    assert dict(trace.jobs["outcome"].value_counts().iter_rows()) == {"completed": 41, "failed": 41}
    assert trace.jobs["cpus_alloc"].sum() == 63 + 2 * 5 + 3 + 4 * 4 + 6 * 2 + 8 * 3 + 12 * 2 + 20 + 30
