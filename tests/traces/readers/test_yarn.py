from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from presage.errors import UnreadableSourceError
from presage.testing import ReaderContract
from presage.traces import Trace, read_trace

SAMPLE = Path(__file__).parents[2] / "fixtures" / "traces" / "yarn_apps.json"
MIB = 2**20


class TestYarn(ReaderContract):
    format = "yarn"
    sample = SAMPLE
    jobs = 5
    line_based = False


def app(trace: Trace, number: int) -> dict[str, Any]:
    return trace.jobs.row(by_predicate=pl.col("job_id") == f"application_1700000000000_{number:04}", named=True)


def test_a_finished_application() -> None:
    done = app(read_trace(SAMPLE), 1)
    assert (done["submit_ms"], done["start_ms"], done["end_ms"]) == (
        1_700_000_100_000,
        1_700_000_105_000,
        1_700_000_205_000,
    )
    assert (done["wait_s"], done["run_s"], done["x_elapsed_s"]) == (5.0, 100.0, 105.0)
    assert (done["cpus_alloc"], done["mem_alloc_bytes"], done["gpus_alloc"]) == (2.5, 4096 * MIB, 2.0)
    assert (done["cpus_req"], done["mem_req_bytes"]) == (None, None)
    assert (done["outcome"], done["status"], done["kind"], done["queue"]) == (
        "completed", "SUCCEEDED", "MAPREDUCE", "root.default",
    )  # fmt: skip
    assert (done["x_application_tags"], done["x_preempted_mb"], done["x_preempted_containers"]) == (
        "daily,etl",
        1024,
        1,
    )


def test_applications_that_have_not_ended() -> None:
    trace = read_trace(SAMPLE)
    running, accepted = app(trace, 2), app(trace, 4)
    assert (running["outcome"], running["status"], running["end_ms"], running["run_s"]) == (
        "running",
        "RUNNING",
        None,
        None,
    )
    assert (running["cpus_alloc"], running["mem_alloc_bytes"]) == (3.0, 6144 * MIB)
    assert (running["cpus_req"], running["mem_req_bytes"]) == (5.0, 10_240 * MIB)  # 3 held, 2 outstanding
    assert (running["priority"], running["constraint"]) == (5.0, "gpu")
    assert (accepted["outcome"], accepted["start_ms"], accepted["cpus_req"]) == ("pending", None, 2.0)


def test_applications_that_went_wrong() -> None:
    trace = read_trace(SAMPLE)
    killed, failed = app(trace, 3), app(trace, 5)
    assert (killed["outcome"], killed["start_ms"], killed["run_s"], killed["cpus_alloc"]) == (
        "cancelled",
        None,
        None,
        None,
    )
    assert (failed["outcome"], failed["run_s"], failed["cpus_alloc"]) == ("failed", 0.0, None)


def test_reads_a_single_application_in_both_shapes(tmp_path: Path) -> None:
    one = json.loads(SAMPLE.read_text())["apps"]["app"][0]
    for number, document in enumerate(({"app": one}, {"apps": {"app": one}})):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(document))
        assert app(read_trace(path), 1)["run_s"] == 100.0


def test_without_launch_times_the_run_is_not_known(tmp_path: Path) -> None:
    one = json.loads(SAMPLE.read_text())["apps"]["app"][0]
    del one["launchTime"]
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"app": one}))
    trace = read_trace(path)
    assert app(trace, 1)["run_s"] is None
    assert app(trace, 1)["x_elapsed_s"] == 105.0
    assert any("launch times" in note for note in trace.manifest.notes)


def test_an_application_without_id_is_rejected(tmp_path: Path) -> None:
    document = json.loads(SAMPLE.read_text())
    document["apps"]["app"][1:] = [{"user": "\ud800"}, 7]
    path = tmp_path / "apps.json"
    path.write_text(json.dumps(document))
    trace = read_trace(path)
    assert len(trace) == 1
    assert trace.rejects["reason"].str.contains("application [23] is no object").to_list() == [True, True]


@pytest.mark.parametrize("text", ['{"apps": 3}', "[3", '{"apps": null}', '{"apps": {"app": "x"}}'])
def test_other_json_is_a_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "apps.json"
    path.write_text(text)
    with pytest.raises(UnreadableSourceError):
        read_trace(path, format="yarn")
