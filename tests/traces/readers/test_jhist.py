from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from presage.errors import UnreadableSourceError
from presage.testing import ReaderContract
from presage.traces import Source, detect, read_trace

SAMPLE = Path(__file__).parents[2] / "fixtures" / "traces" / "jhist.jhist"
T0 = 1_700_000_100_000


class TestJhist(ReaderContract):
    format = "jhist"
    sample = SAMPLE
    jobs = 1


def test_reads_the_job() -> None:
    trace = read_trace(SAMPLE)
    (job,) = trace.jobs.to_dicts()
    assert (job["job_id"], job["name"], job["user"], job["queue"]) == (
        "job_1700000000000_0042", "nightly join", "ada", "root.etl",
    )  # fmt: skip
    assert (job["submit_ms"], job["start_ms"], job["end_ms"]) == (T0, T0 + 5000, T0 + 15_000)
    assert (job["wait_s"], job["run_s"], job["outcome"], job["status"]) == (5.0, 10.0, "completed", "FINISHED")
    assert (job["tasks"], job["x_maps"], job["x_reduces"], job["restarts"]) == (3, 2, 1, 1)
    assert (job["priority"], job["cpu_used_s"]) == (4.0, 2.6)
    assert (job["cpus_alloc"], job["mem_alloc_bytes"]) == (2.0, 2048 * 2**20)
    assert job["node_list"] == ["n1", "n2", "n3"]
    assert trace.manifest.counts["events_not_used"] == 1


def test_reads_the_attempts() -> None:
    attempts = read_trace(SAMPLE).attempts
    columns = ["task", "attempt", "queued_ms", "start_ms", "end_ms", "outcome", "node_list", "x_task_type"]
    assert attempts.select(columns).rows() == [
        (0, 0, T0 + 5100, T0 + 6000, T0 + 9000, "failed", ["n1"], "MAP"),
        (0, 1, None, T0 + 9500, T0 + 12_500, "completed", ["n3"], "MAP"),
        (1, 0, T0 + 5200, T0 + 6500, T0 + 8500, "completed", ["n2"], "MAP"),
        (2, 0, T0 + 9000, T0 + 10_000, T0 + 11_000, "cancelled", ["n1"], "REDUCE"),
        (2, 1, None, T0 + 11_500, T0 + 15_000, "completed", ["n2"], "REDUCE"),
    ]


def test_a_file_that_stops_in_the_middle_is_a_running_job(tmp_path: Path) -> None:
    path = tmp_path / "cut.jhist"
    path.write_text("\n".join(SAMPLE.read_text().splitlines()[:10]) + "\n")
    trace = read_trace(path)
    assert trace.jobs.select("outcome", "end_ms", "run_s").rows() == [("running", None, None)]
    assert trace.attempts.select("outcome", "end_ms").rows() == [("running", None)]


def test_an_event_of_no_job_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "odd.jhist"
    path.write_text(SAMPLE.read_text() + '{"type": "JOB_INITED", "event": {"X": {"launchTime": 5}}}\n')
    trace = read_trace(path)
    assert len(trace) == 1
    assert trace.rejects["line"].to_list() == [len(SAMPLE.read_text().splitlines()) + 1]


def test_the_binary_form_is_refused_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "binary.jhist"
    path.write_bytes(b'Avro-Binary\n{"type":"record"}\n\x00\x02\x14')
    assert detect(Source(path)) == "jhist"
    with pytest.raises(UnreadableSourceError, match=r"jhist\.format"):
        read_trace(path)


@pytest.mark.shared_data
def test_reads_the_samples_of_hadoop(shared_data: Path, tmp_path: Path) -> None:
    with tarfile.open(shared_data / "hadoop-samples.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    files = sorted((tmp_path / "hadoop-samples").glob("*.jhist"))
    trace = read_trace(*files)
    assert len(trace) == len(files) == 6
    assert len(trace.rejects) == 0
    assert trace.jobs["outcome"].value_counts().sort("outcome").rows() == [("completed", 2), ("failed", 4)]
    # Counted in the files by hand: finished, failed and killed attempts.
    assert trace.attempts["outcome"].value_counts().sort("outcome").rows() == [
        ("completed", 14), ("failed", 16), ("cancelled", 1),
    ]  # fmt: skip
    teragen = trace.jobs.filter(name="TeraGen").row(0, named=True)
    assert (teragen["user"], teragen["tasks"], teragen["run_s"]) == ("root", 2, 6.084)
