from __future__ import annotations

from pathlib import Path

import pytest

from presage.errors import UnreadableSourceError
from presage.testing import ReaderContract
from presage.traces import read_trace

SAMPLE = Path(__file__).parents[2] / "fixtures" / "traces" / "batsim.json"


class TestBatsim(ReaderContract):
    format = "batsim"
    sample = SAMPLE
    jobs = 4
    line_based = False


def test_reads_jobs_and_their_profiles() -> None:
    trace = read_trace(SAMPLE)
    columns = ["job_id", "submit_ms", "run_s", "limit_s", "cpus_req", "kind", "user"]
    assert trace.jobs.select(columns).rows() == [
        ("w0!1", 500, 20.5, None, 1.0, "delay", "ada"),
        ("0", 1_250, 20.5, 100.0, 4.0, "delay", None),
        ("2", 30_000, None, None, 16.0, "parallel", None),
        ("3", 31_000, None, 60.0, 2.0, None, None),
    ]
    assert (trace.manifest.machine.cpus, trace.manifest.synthetic) == (16, True)


def test_a_profile_that_is_no_profile_gives_no_run_time(tmp_path: Path) -> None:
    path = tmp_path / "workload.json"
    path.write_text(
        '{"jobs": [{"id": 1, "profile": "p", "res": 1, "subtime": 0}], "profiles": {"p": {"type": {}}}}'
    )
    assert read_trace(path).jobs["run_s"].to_list() == [None]


@pytest.mark.parametrize("text", ["[]", '{"jobs": 3}', '{"jobs": [1, "x"]}', "{"])
def test_other_json_is_a_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "workload.json"
    path.write_text(text)
    with pytest.raises(UnreadableSourceError):
        read_trace(path, format="batsim")


@pytest.mark.shared_data
def test_reads_the_real_workload(shared_data: Path) -> None:
    trace = read_trace(shared_data / "model-batsim-hpc-250.json.gz")
    assert (len(trace), len(trace.rejects), trace.manifest.machine.cpus) == (250, 0, 128)
    assert trace.jobs["run_s"].null_count() == 0
