from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from presage.testing import ReaderContract
from presage.traces import read_trace

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"
SEREN, KALOS = FIXTURES / "acme_seren.csv", FIXTURES / "acme_kalos.csv"


class TestAcmeSeren(ReaderContract):
    format = "acme"
    sample = SEREN
    jobs = 3


class TestAcmeKalos(ReaderContract):
    format = "acme"
    sample = KALOS
    jobs = 2


def test_times_carry_their_own_zone() -> None:
    midnight_ms = int(datetime(2023, 4, 1, tzinfo=UTC).timestamp()) * 1000
    assert read_trace(SEREN).jobs["submit_ms"][0] == midnight_ms


def test_run_times_are_end_minus_start_in_both_clusters() -> None:
    assert read_trace(SEREN).jobs["run_s"].to_list() == [3600.0, 45.0, None]
    kalos = read_trace(KALOS)
    assert kalos.jobs["run_s"].to_list() == [600.0, 30.0]
    assert kalos.jobs["wait_s"].to_list() == [20.0, 10.0]


def test_memory_of_a_pod_becomes_that_of_the_job() -> None:
    jobs = read_trace(KALOS).jobs
    assert jobs["mem_req_bytes"].to_list() == [4 * 500 * 10**9, 20_500_000_000]
    assert jobs["tasks"].to_list() == [4, 1]
    assert jobs["x_shared_mem_per_pod"].to_list() == [100.0, None]


def test_both_clusters_make_one_trace() -> None:
    trace = read_trace(SEREN, KALOS)
    assert trace.jobs["cluster"].to_list() == ["seren"] * 3 + ["kalos"] * 2
    assert trace.jobs["kind"].to_list() == ["Pretrain", "Evaluation", "Other", "Pretrain", "Debug"]


@pytest.mark.shared_data
def test_the_documented_examples_are_read(shared_data: Path) -> None:
    folder = shared_data / "format-samples"
    seren = read_trace(folder / "acme_trace_seren.csv").jobs
    kalos = read_trace(folder / "acme_trace_kalos.csv").jobs
    assert seren["run_s"].to_list() == [117.0, 2693.0]
    assert kalos["run_s"].to_list() == [8.0, 70.0]
