from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from presage.testing import ReaderContract
from presage.traces import Trace, read_trace

SAMPLE = Path(__file__).parents[2] / "fixtures" / "traces" / "borg_2019.csv"


class TestBorg2019(ReaderContract):
    format = "borg-2019"
    sample = SAMPLE
    jobs = 3


def job(trace: Trace, job_id: str) -> dict[str, Any]:
    return trace.jobs.row(by_predicate=pl.col("job_id") == job_id, named=True)


def test_folds_instance_events() -> None:
    trace = read_trace(SAMPLE)
    whole = job(trace, "11001")
    assert (whole["submit_ms"], whole["start_ms"], whole["end_ms"]) == (700_000, 701_000, 716_000)
    assert (whole["outcome"], whole["tasks"], whole["kind"], whole["qos"]) == ("completed", 1, "job", "2")
    assert (whole["cpus_req"], whole["x_mem_req_normalised"], whole["priority"]) == (0.25, 0.125, 103.0)
    columns = ["task", "attempt", "queued_ms", "start_ms", "end_ms", "outcome", "node_list"]
    assert trace.attempts.filter(job_id="11001").select(columns).rows() == [
        (0, 0, 700_000, 701_000, 705_000, "preempted", ["5001"]),
        (0, 1, 705_000, 706_000, 716_000, "completed", ["5002"]),
    ]


def test_survives_a_spreadsheet() -> None:
    trace = read_trace(SAMPLE)
    mangled = job(trace, "2.60698E+11")
    assert (mangled["submit_ms"], mangled["start_ms"], mangled["end_ms"]) == (None, None, None)
    assert (mangled["outcome"], mangled["tasks"], mangled["x_alloc_collection"]) == ("running", 2, "2.21495E+11")
    assert mangled["cpus_req"] == 0.0625
    assert any("2 rows have a rounded collection id" in note for note in trace.manifest.notes)


def test_alloc_sets_are_told_from_jobs() -> None:
    alloc = job(read_trace(SAMPLE), "12002")
    assert (alloc["kind"], alloc["outcome"], alloc["x_mem_req_normalised"]) == ("alloc_set", None, None)


def test_requests_may_stand_in_columns_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text(
        "time,type,collection_id,scheduling_class,priority,instance_index,machine_id,resource_request.cpus\n"
        "5000000,3,7,1,25,0,9,0.5\n"
    )
    only = job(read_trace(path), "7")
    assert (only["cpus_req"], only["outcome"], only["node_list"]) == (0.5, "running", ["9"])


@pytest.mark.shared_data
def test_reads_the_real_sample(shared_data: Path) -> None:
    trace = read_trace(shared_data / "google-2019-borg-sample.csv.gz")
    assert trace.manifest.sources[0].rows == 4_999
    assert len(trace) == 810  # distinct collection ids, as far as the spreadsheet left them
    assert len(trace.rejects) == 0
