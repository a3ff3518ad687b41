from __future__ import annotations

import os
from pathlib import Path

import pytest

from presage.errors import PresageError
from presage.foundation.baselines.slurm import ExpectedStart, SlurmForecast, parse_line, parse_time
from presage.testing import SlurmCluster, missing_for_slurm

needs_slurm = pytest.mark.skipif(bool(missing_for_slurm()), reason=missing_for_slurm() or "Slurm is here")
NEW_YEAR_S = 1_767_225_600.0


def program(folder: Path, name: str, script: str) -> SlurmForecast:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    return SlurmForecast(environment, timeout_s=5, now_s=lambda: NEW_YEAR_S)


def test_times_are_read_as_utc() -> None:
    assert parse_time("2026-01-01T00:00:00") == NEW_YEAR_S
    assert parse_time("N/A") is None


def test_a_line_of_squeue_is_a_job_with_its_expected_start() -> None:
    found = parse_line("17_[1-3]|2026-01-01T00:00:00|2026-01-01T01:00:00\n")
    assert found == ExpectedStart("17_[1-3]", NEW_YEAR_S, NEW_YEAR_S + 3600)
    assert found.wait_s == 3600
    assert parse_line("18|2026-01-01T00:00:00|N/A").wait_s is None
    with pytest.raises(PresageError, match="expected start"):
        parse_line("slurm_load_jobs error")


def test_what_sbatch_tells_becomes_a_wait(tmp_path: Path) -> None:
    told = "sbatch: Job 9 to start at 2026-01-01T00:10:00 using 1 processors on nodes n1 in partition main"
    slurm = program(tmp_path, "sbatch", f"echo '{told}' >&2")
    assert slurm.wait_s(["--nodes=1"]) == 600


def test_a_start_that_is_past_means_no_wait(tmp_path: Path) -> None:
    slurm = program(tmp_path, "sbatch", "echo 'sbatch: Job 9 to start at 2025-12-31T23:59:59 using 1'")
    assert slurm.wait_s([]) == 0


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo hello", "told no start: hello"),
        ("echo 'to start at noon'", "told no start"),
        ("echo 'allocation failure: Invalid partition' >&2; exit 1", "exited 1: allocation failure"),
    ],
)
def test_what_goes_wrong_is_said(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(PresageError, match=message):
        program(tmp_path, "sbatch", script).wait_s([])


def test_a_slurm_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    slow = program(tmp_path, "squeue", "exec sleep 20")
    with pytest.raises(PresageError, match=r"did not answer within 0\.2 s"):
        SlurmForecast(slow.environment, timeout_s=0.2).waiting()


def test_no_slurm_at_all_is_an_error() -> None:
    with pytest.raises(PresageError, match="There is no squeue here"):
        SlurmForecast({"PATH": os.devnull}).waiting()


@needs_slurm
@pytest.mark.slow
def test_a_real_slurm_tells_when_it_expects_jobs_to_start() -> None:
    # A node is held for two minutes, a job of five waits for it, and so does what is asked about.
    with SlurmCluster(nodes=1, rate=10, parameters={"bf_interval": 5}) as slurm:
        forecast = SlurmForecast(slurm.environment, now_s=slurm.now_s)
        assert forecast.wait_s(["--time=1", "--exclusive"]) < 60
        first = slurm.submit(["--time=2", "--exclusive"], "sleep 110")
        while slurm.jobs()[first].state != "RUNNING":
            slurm.sleep_until(slurm.now_s() + 1)
        second = slurm.submit(["--time=5", "--exclusive"], "sleep 1")
        began = slurm.jobs()[first].start
        assert began is not None
        wait_s = forecast.wait_s(["--time=10", "--exclusive"])
        asked_s = slurm.now_s()
        (waiting,) = forecast.waiting()
        while waiting.start_s is None and slurm.now_s() < began + 100:
            slurm.sleep_until(slurm.now_s() + 2)
            (waiting,) = forecast.waiting()
    assert waiting.job_id == str(second)
    assert waiting.start_s == pytest.approx(began + 120, abs=30)
    # It comes after one job, or after both, depending on whether that Slurm counts those that wait.
    assert began + 120 - 30 <= asked_s + wait_s <= began + 120 + 300 + 60
