from __future__ import annotations

import json
from pathlib import Path

import pytest

from presage.simulator import simulate
from presage.traces.workloads import make_model
from presage.traces.writers import choose_writer

from .conftest import Presage

KEYS = {
    "mean_bounded_slowdown", "mean_wait_s", "p99_wait_s", "max_wait_s", "mean_response_s", "utilization",
    "ratio_to_best_static", "ci95",
}  # fmt: skip


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a busy machine, with requests above the run times."""
    settings = {"users": 8, "processors": 64, "load": 0.95, "estimate": "modal"}
    trace = simulate(make_model("lublin", settings).generate(1500, seed=2), "fcfs+easy", kill=True).trace
    path = tmp_path_factory.mktemp("logs") / "log.parquet"
    choose_writer(str(path)).write(trace, path)
    return path


def test_evaluate_judges_the_default_policy_by_the_best_rule(presage: Presage, log: Path) -> None:
    result = presage("policy", "evaluate", "--policy", "default", "--trace", log, "--split", "0.6", "--json")
    assert result.exit_code == 0, result.err
    assert result.document.keys() >= KEYS
    assert result.document["jobs"] == 600
    low, high = result.document["ci95"]
    assert low <= result.document["ratio_to_best_static"] <= high


def test_evaluate_takes_rules_too(presage: Presage, log: Path) -> None:
    text = presage("policy", "evaluate", "--policy", "saf/A", "--trace", log)
    assert text.exit_code == 0, text.err
    assert "saf/A" in text.out


def test_compare_measures_by_the_first(presage: Presage, log: Path) -> None:
    rows = presage("policy", "compare", "--trace", log, "--policies", "fcfs,index,sjf/E", "--json").document
    assert [row["policy"] for row in rows["policies"]] == ["fcfs/-", "index", "sjf/E"]
    assert rows["policies"][0]["ratio_to_first"] == 1.0
    assert "sjf/E" in presage("policy", "compare", "--trace", log, "--policies", "fcfs,sjf/E").out


def test_a_trained_policy_can_be_used_and_told_of(presage: Presage, log: Path) -> None:
    settings = ("--generations", "2", "--population", "4")
    trained = presage("policy", "train", "--trace", log, "--out", "own.safetensors", *settings, "--json")
    assert trained.exit_code == 0, trained.err
    assert trained.document["generations"] == 2
    assert presage("policy", "evaluate", "--policy", "own.safetensors", "--trace", log, "--json").exit_code == 0
    explained = presage("policy", "explain", "--policy", "own.safetensors", "--json").document
    assert explained["about"]["method"] == "CMA-ES, linear"


def test_a_store_takes_over_only_what_is_better_and_goes_back(presage: Presage, log: Path) -> None:
    settings = ("--generations", "1", "--population", "4", "--json")
    proposed = presage("policy", "train", "--trace", log, "--store", "ours", *settings)
    assert proposed.exit_code == 0, proposed.err
    assert proposed.document["attempt"]["version"] == "0001"
    assert presage("policy", "explain", "--policy", "ours").exit_code == 0
    if not proposed.document["attempt"]["took_over"]:
        assert presage("policy", "rollback", "ours").exit_code == 2


def test_train_needs_one_place_to_go(presage: Presage, log: Path) -> None:
    for places in ((), ("--out", "a.safetensors", "--store", "b")):
        result = presage("policy", "train", "--trace", log, *places)
        assert result.exit_code == 2
        assert "--store" in result.err


def test_recommend_says_what_to_change(presage: Presage, log: Path) -> None:
    result = presage("policy", "recommend", log, "--candidates", "default,saf/A,ljf", "--weeks", "2", "--json")
    assert result.exit_code == 0, result.err
    assert {each["name"] for each in result.document["latest"]["standings"]} == {"default", "saf/A", "ljf/-"}
    assert result.document["says"]
    text = presage("policy", "recommend", log, "--candidates", "saf/A", "--weeks", "2")
    assert "saf/A" in text.out


def test_explain_finds_the_formula_of_the_index(presage: Presage, log: Path) -> None:
    told = presage("policy", "explain", "--policy", "index", "--trace", log, "--json").document
    assert told["formula"]["formula"] == "r·t·√p / (1 + w/4h)²"
    assert "log_waited" in presage("policy", "explain").out


def test_export_writes_what_the_suffix_says(presage: Presage, log: Path, tmp_path: Path) -> None:
    assert presage("policy", "export", "p.json", "--policy", "index").exit_code == 0
    assert len(json.loads((tmp_path / "p.json").read_text())["weights"]) == 9
    assert presage("policy", "export", "p.safetensors").exit_code == 0
    assert presage("policy", "explain", "--policy", "p.safetensors").exit_code == 0
    slurm = presage("policy", "export", "p.conf", "--policy", "index", "--trace", log, "--json")
    assert slurm.exit_code == 0, slurm.err
    assert "PriorityType=priority/multifactor" in (tmp_path / "p.conf").read_text()
    assert slurm.document["ratio"] > 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("export", "p.exe"), ".safetensors"),
        (("export", "p.conf"), "--trace"),
        (("explain", "--policy", "saf"), "rule"),
        (("explain", "--policy", "defalt"), "default"),
        (("explain", "--policy", "none.safetensors"), "no policy"),
    ],
)
def test_wrong_calls_are_told(presage: Presage, arguments: tuple[str, ...], told: str) -> None:
    result = presage("policy", *arguments)
    assert result.exit_code in (2, 3)
    assert told in result.err
    assert "Traceback" not in result.err


def test_a_log_too_short_to_judge_is_told(presage: Presage, tmp_path: Path) -> None:
    trace = simulate(make_model("lublin", {"processors": 64}).generate(40, seed=1), "fcfs").trace
    choose_writer("few.parquet").write(trace, tmp_path / "few.parquet")
    result = presage("policy", "evaluate", "--trace", "few.parquet")
    assert result.exit_code == 3
    assert "too few" in result.err
