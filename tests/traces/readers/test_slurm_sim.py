from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from presage.testing import ReaderContract
from presage.traces import Trace, read_trace

SAMPLE = Path(__file__).parents[2] / "fixtures" / "traces" / "slurm_sim.events"
GIB = 2**30
MIB = 2**20


class TestSlurmSim(ReaderContract):
    format = "slurm-sim"
    sample = SAMPLE
    jobs = 5


@pytest.fixture(scope="module")
def trace() -> Trace:
    return read_trace(SAMPLE)


def job(trace: Trace, name: str) -> dict[str, Any]:
    return trace.jobs.row(by_predicate=pl.col("name") == name, named=True)


def test_a_submission(trace: Trace) -> None:
    first = job(trace, "first")
    assert (first["job_id"], first["submit_ms"], first["run_s"], first["limit_s"]) == ("1", 500, 3600, 259200)
    assert (first["cpus_req"], first["nodes_req"], first["tasks"], first["mem_req_bytes"]) == (
        32,
        1,
        32,
        100 * GIB,
    )
    assert (first["user"], first["qos"], first["partition"]) == ("user001", "general", "general")
    assert (first["outcome"], first["start_ms"], first["wait_s"]) == (None, None, None)
    assert trace.manifest.absolute_time is False


def test_an_option_written_twice_counts_once_and_per_node_amounts_are_multiplied(trace: Trace) -> None:
    second = job(trace, "second")
    assert (second["gpus_req"], second["mem_req_bytes"], second["x_exclusive"]) == (4, 360 * GIB, True)
    assert job(trace, "first")["gpus_req"] == 0


def test_other_ways_to_ask(trace: Trace) -> None:
    third = job(trace, "third")
    assert (third["cpus_req"], third["nodes_req"], third["mem_req_bytes"]) == (32, 2, 32 * 2000 * MIB)
    assert (third["limit_s"], third["run_s"], third["constraint"]) == (1800, 1800, "CPU-X")  # runs to its limit
    fifth = job(trace, "fifth")
    assert (fifth["gpus_req"], fifth["gpu_type_req"], fifth["nodes_req"]) == (3, "a100", None)
    assert trace.edges.rows() == [(job(trace, "a name")["job_id"], "1", "afterok", None)]


def test_other_events_and_bad_options_are_rejected_with_their_reason(tmp_path: Path) -> None:
    good = "-dt 1 -e submit_batch_job | -sim-walltime 5 -J ok -n 1 -t 5 x.job"
    lines = [
        good,
        "-dt 2 -e cancel_job | -jid 1",
        good.replace("-dt 1", "-dt soon"),
        good.replace("-n 1", "-n many"),
        good.replace("-t 5", "-t 1:2:3:4"),
        good + " --mem=lots",
        good + " --comment='open",
        "-e submit_batch_job | -J timeless -n 1",
    ]
    path = tmp_path / "some.events"
    path.write_text("\n".join(lines))
    trace = read_trace(path)
    assert len(trace) == 1
    assert trace.rejects["line"].to_list() == [2, 3, 4, 5, 6, 7, 8]
    assert trace.rejects["reason"].to_list() == [
        "the event 'cancel_job' submits no job",
        "dt: 'soon' is not a number of seconds",
        "ntasks: 'many' is not a number",
        "time: '1:2:3:4' is not a duration",
        "mem: 'lots' is not an amount of memory",
        "unbalanced quotes",
        "no time of the event (-dt)",
    ]


@pytest.mark.shared_data
def test_a_week_of_ub_hpc(shared_data: Path) -> None:
    trace = read_trace(shared_data / "ub-hpc-week.events.gz")
    jobs = trace.jobs
    assert (len(jobs), len(trace.rejects)) == (19_579, 0)
    assert jobs["user"].n_unique() == 64
    assert jobs.select((pl.col("gpus_req") > 0).sum()).item() == 73
    days = (jobs["submit_ms"].max() - jobs["submit_ms"].min()) / 86_400_000
    assert days == pytest.approx(6.9, abs=0.05)
