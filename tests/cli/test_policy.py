from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from presage.learning.learned_policy import LearnedPolicy
from presage.learning.search import Search
from presage.simulator import simulate
from presage.traces.workloads import make_model
from presage.traces.writers import choose_writer
from tests.learning.making import make_case

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


def test_forecasts_of_a_model_that_learnt_the_log_before(
    presage: Presage, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from presage.foundation.training.finetuning import COURSES
    from presage.foundation.view.tasks import Task

    monkeypatch.setitem(COURSES, Task.RUN, COURSES[Task.RUN].of_steps(20))
    plain, tuned = (
        presage("policy", "compare", "--trace", log, "--policies", "fcfs,index", *more, "--json").document
        for more in ([], ["--finetune"])
    )
    rows = {name: [each[name] for each in (plain, tuned)] for name in ("jobs", "load")}
    assert all(first == second for first, second in rows.values())
    assert plain["policies"][0] == tuned["policies"][0]  # who goes by no forecast
    assert set(plain["policies"][1]) == set(tuned["policies"][1])


def test_fine_tuning_without_torch_is_told(presage: Presage, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("presage.foundation.requirements.find_spec", lambda _: None)
    monkeypatch.setattr("presage.foundation.requirements.require_numba", lambda: None)
    told = presage("policy", "evaluate", "--trace", log, "--finetune")
    assert told.exit_code == 4
    assert "presage[torch]" in told.err


def test_look_ahead_is_judged_by_its_name(presage: Presage, log: Path) -> None:
    told = presage("policy", "evaluate", "--policy", "look-ahead", "--trace", log, "--json").document
    assert told["policy"] == "look-ahead"
    compared = presage("policy", "compare", "--trace", log, "--policies", "fcfs,look-ahead", "--json")
    assert compared.exit_code == 0, compared.err
    assert "look-ahead" in compared.out
    assert presage("policy", "explain", "--policy", "look-ahead").exit_code == 2


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


@pytest.mark.parametrize("kind", ["mlp", "attention"])
def test_a_search_finds_the_other_kinds_too(presage: Presage, log: Path, kind: str, tmp_path: Path) -> None:
    settings = ("--kind", kind, "--generations", "1", "--population", "4", "--log-dir", "logs", "--json")
    trained = presage("policy", "train", "--trace", log, "--out", "own.safetensors", *settings)
    assert trained.exit_code == 0, trained.err
    assert trained.document["method"] == f"CMA-ES, {kind}"
    assert len(list((tmp_path / "logs").glob("events.out.tfevents.*"))) == 1
    judged = presage("policy", "evaluate", "--policy", "own.safetensors", "--trace", log, "--json")
    assert judged.exit_code == 0, judged.err
    assert presage("policy", "explain", "--policy", "own.safetensors", "--json").document["units"] == 6


def test_a_policy_learned_by_reinforcement_is_one_like_any_other(
    presage: Presage, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sb3_contrib")
    shorten_rounds(monkeypatch)
    call = (
        "policy", "train", "--learner", "ppo", "--trace", log, "--out", "own.safetensors", "--decisions", "256",
        "--checkpoints", "rounds", "--log-dir", "logs", "--json",
    )  # fmt: skip
    trained = presage(*call)
    assert trained.exit_code == 0, trained.err
    told = trained.document
    assert (told["method"], told["begins_as"], told["decisions"]) == ("PPO, attention", "index", 256)
    assert [line["decisions"] for line in told["curve"]] == [0, 128, 256]
    assert told["cost"] == min(line["whole_runs"] for line in told["curve"])
    assert "whole runs" in trained.err
    assert (tmp_path / "rounds" / "state.safetensors").exists()
    assert list((tmp_path / "logs").glob("events.out.tfevents.*"))
    assert presage(*call).document == told  # all is done already
    for arguments in (
        ("evaluate", "--policy", "own.safetensors", "--trace", log), ("explain", "--policy", "own.safetensors"),
        ("compare", "--policies", "index,own.safetensors", "--trace", log),
        ("export", "own.json", "--policy", "own.safetensors"),
        ("train", *call[2:4], "--trace", log, "--out", "on.safetensors", "--decisions", "1", "--begin-as",
         "own.safetensors"),
    ):  # fmt: skip
        result = presage("policy", *arguments, "--json")
        assert result.exit_code == 0, result.err
    assert "torch" not in json.loads((tmp_path / "own.json").read_text())


def shorten_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    from presage.learning import ppo_policy
    from presage.learning.reinforcement import PpoSettings

    short = PpoSettings(imitated=100, passes=1, machines=4, steps=32, updates=1, batch=64, epochs=1)
    monkeypatch.setattr(ppo_policy, "DEFAULT_PPO", short)


def test_ctrl_c_ends_reinforcement_with_what_it_has(
    presage: Presage, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sb3_contrib")
    from presage.learning.reinforcement import Training

    shorten_rounds(monkeypatch)
    call = (
        "policy", "train", "--learner", "ppo", "--kind", "linear", "--trace", log, "--out", "own.safetensors",
        "--decisions", "128", "--checkpoints", "rounds",
    )  # fmt: skip
    advance = Training.advance

    def interrupt(_training: Training) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Training, "advance", interrupt)
    cut = presage(*call)
    assert cut.exit_code == 0, cut.err
    assert "Interrupted after 0 of 128 decisions: the same call goes on from there" in cut.err
    assert presage("policy", "explain", "--policy", "own.safetensors").exit_code == 0
    monkeypatch.setattr(Training, "advance", advance)
    assert presage(*call, "--json").document["decisions"] == 128


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--learner", "pppo"), "ppo"),
        (("--learner", "ppo", "--journal", "j.jsonl"), "--journal says nothing to the learner ppo"),
        (("--learner", "ppo", "--starts", "2"), "--learner search"),
        (("--decisions", "100"), "--learner ppo"),
        (("--kind", "deep"), "linear, mlp, attention"),
        (("--begin-as", "saf"), "rule"),
        (("--learner", "ppo", "--begin-as", "saf"), "rule"),
        (("--starts", "2", "--log-dir", "logs"), "--log-dir"),
    ],
)
def test_options_of_another_learner_are_refused(
    presage: Presage, log: Path, options: tuple[str, ...], told: str
) -> None:
    result = presage("policy", "train", "--trace", log, "--out", "own.safetensors", *options)
    assert result.exit_code == 2
    assert told in result.err


@pytest.mark.parametrize("missing", ["torch", "sb3_contrib"])
def test_what_reinforcement_needs_is_told(
    presage: Presage, log: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    package = sys.modules["presage.learning"]
    for name in [name for name in sys.modules if name.startswith("presage.learning.")]:
        # Both are put back in the end: a module that is another one as an attribute would not be the one patched.
        monkeypatch.setattr(package, name.rpartition(".")[2], sys.modules[name])
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    result = presage("policy", "train", "--learner", "ppo", "--trace", log, "--out", "own.safetensors")
    assert result.exit_code == 4
    assert missing in result.err
    assert "presage[rl]" in result.err


def test_a_store_takes_over_only_what_is_better_and_goes_back(presage: Presage, log: Path) -> None:
    settings = ("--generations", "1", "--population", "4", "--json")
    proposed = presage("policy", "train", "--trace", log, "--store", "ours", *settings)
    assert proposed.exit_code == 0, proposed.err
    assert proposed.document["attempt"]["version"] == "0001"
    assert presage("policy", "explain", "--policy", "ours").exit_code == 0
    if not proposed.document["attempt"]["took_over"]:
        assert presage("policy", "rollback", "ours").exit_code == 2


def test_what_is_trained_for_a_store_goes_on_from_the_policy_in_use_there(
    presage: Presage, log: Path, tmp_path: Path
) -> None:
    settings = ("--trace", log, "--generations", "1", "--population", "4")
    first = presage("policy", "train", *settings, "--store", "ours")
    assert first.exit_code == 0, first.err
    assert "The search began at ours/shipped" in first.err
    hidden = Search("mlp", units=2)
    in_use = LearnedPolicy("kept", hidden.scorer(np.full(hidden.parameters, 0.5)), watches=False)
    in_use.save(tmp_path / "ours" / "0002.safetensors")
    state = json.loads((tmp_path / "ours" / "store.json").read_text())
    (tmp_path / "ours" / "store.json").write_text(json.dumps({**state, "current": "0002"}))

    went_on = presage("policy", "train", *settings, "--store", "ours", "--json")
    assert (went_on.document["begins_as"], went_on.document["method"]) == ("ours/0002", "CMA-ES, mlp")
    anew = presage("policy", "train", *settings, "--store", "ours", "--begin-as", "index", "--json")
    assert (anew.document["begins_as"], anew.document["method"]) == ("index", "CMA-ES, linear")
    narrower = presage("policy", "train", *settings, "--store", "ours", "--kind", "linear")
    assert narrower.exit_code == 2
    assert "cannot begin" in narrower.err


def test_a_journal_of_another_search_is_refused(presage: Presage, log: Path) -> None:
    call = ("policy", "train", "--trace", log, "--out", "own.safetensors", "--journal", "j.jsonl",
            "--generations", "1", "--population", "4")  # fmt: skip
    assert presage(*call).exit_code == 0
    assert presage(*call).exit_code == 0
    for other, told in ((("--fairness", "3"), "its fairness is 0.0, not 3.0"), (("--split", "0.5"), "other jobs")):
        result = presage(*call, *other)
        assert result.exit_code == 3, result.err
        assert told in result.err


def test_train_needs_one_place_to_go(presage: Presage, log: Path) -> None:
    for places in ((), ("--out", "a.safetensors", "--store", "b")):
        result = presage("policy", "train", "--trace", log, *places)
        assert result.exit_code == 2
        assert "--store" in result.err


@pytest.mark.parametrize(
    "places",
    [
        ("--out", "a.safetensors", "--journal", "none/j.jsonl"),
        ("--store", "file"),
        ("--learner", "ppo", "--out", "a.safetensors", "--checkpoints", "file"),
    ],
)
def test_places_that_nothing_can_be_written_to_are_told_before_the_work(
    presage: Presage, tmp_path: Path, places: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    result = presage("policy", "train", "--trace", "log-that-is-not-read.swf", *places)
    assert result.exit_code in (2, 7)
    assert Path(places[-1]).parts[0] in result.err
    assert "not-read" not in result.err


def test_too_few_jobs_to_propose_a_policy_by_are_told_before_the_work(
    presage: Presage, monkeypatch: pytest.MonkeyPatch
) -> None:
    years = make_case(jobs=100, load=1e-4)
    monkeypatch.setattr("presage.cli.policy._parts", lambda *_: (years, years))
    monkeypatch.setattr("presage.cli._policy_training.by_search", lambda *_, **__: pytest.fail("it was searched"))
    result = presage("policy", "train", "--trace", "log.swf", "--store", "policies")
    assert result.exit_code == 3, result.err
    assert "The latest 8 weeks" in result.err


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
