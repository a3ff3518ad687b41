"""What the benchmark `train_on_synthetic` draws and compares."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from presage.traces.workloads import make_model
from tests.docs_runner import ROOT

pytest.importorskip("cma")


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    folder = str(ROOT / "benchmarks")
    sys.path.insert(0, folder)  # where a script finds its neighbours
    found = importlib.util.spec_from_file_location(
        "train_on_synthetic", ROOT / "benchmarks" / "train_on_synthetic.py"
    )
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    yield module
    sys.path.remove(folder)


def test_ratios_are_taken_window_by_window_and_of_means(benchmark: ModuleType) -> None:
    one = np.array([[2.0, 30.0], [8.0, 30.0]])  # (seeds, windows)
    other = np.array([[1.0, 60.0]])
    found = benchmark.ratio_of(one, other)
    assert found["ratio"] == pytest.approx((4 * 0.5) ** 0.5)
    assert found["of_means"] == pytest.approx(35 / 61)
    assert found["ci95"] == (None, None)


def test_an_interval_holds_the_ratio_and_shrinks_to_it_where_all_windows_agree(benchmark: ModuleType) -> None:
    rng = np.random.default_rng(0)
    other = rng.lognormal(1, 1, (3, 60))
    low, high = benchmark.ratio_of(other * rng.lognormal(0, 0.2, (3, 60)), other)["ci95"]
    assert 0.85 < low < 1 < high < 1.15
    assert benchmark.ratio_of(1.5 * other, other)["ci95"] == pytest.approx((1.5, 1.5))


def test_windows_come_equally_from_all_jobs_and_have_the_same_load(benchmark: ModuleType) -> None:
    cases = [benchmark.case_of_requests(make_model("lublin").generate(600, seed=seed)) for seed in (0, 1)]
    windows = benchmark.random_windows(cases, 6, np.random.default_rng(0))
    wholes = [set(case.jobs.run_ms.tolist()) for case in cases]
    assert [len(each) for each in windows] == [benchmark.JOBS] * 6
    assert all(set(each.jobs.run_ms.tolist()) <= wholes[place // 3] for place, each in enumerate(windows))
    assert [each.load for each in windows] == pytest.approx([benchmark.LOAD] * 6, rel=1e-3)


def test_every_training_searches_on_equally_many_windows(benchmark: ModuleType) -> None:
    assert {benchmark.WINDOWS % len(which) for which in benchmark.TRAININGS.values()} == {0}


def test_logs_are_compared_as_soon_as_a_seed_is_done(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(benchmark, "CELLS", tmp_path)
    monkeypatch.setattr(benchmark, "parts", lambda _: (range(30), range(20)))
    assert benchmark.conclusions() == {"compared": {}}
    log = next(iter(benchmark.LOGS))
    benchmark.keep_cell(tmp_path, f"{log}/rules", {"index": [2.0, 4.0], "fcfs": [4.0, 8.0]})
    benchmark.keep_cell(tmp_path, f"{log}/real/1", {"slowdowns": [1.0, 2.0]})
    benchmark.keep_cell(tmp_path, f"{log}/few-real/1", {"slowdowns": [2.0, 4.0]})
    found = benchmark.conclusions()["compared"]
    assert list(found) == [log]
    assert found[log]["seeds"] == [1]
    assert found[log]["rows"]["fcfs"]["to_real"]["ratio"] == pytest.approx(4)
    assert benchmark.read_cell(tmp_path, f"{log}/compared")["rows"].keys() == found[log]["rows"].keys()
