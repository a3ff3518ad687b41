from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load, save

from presage.errors import InputError, PresageError, UnknownNameError, UsageError
from presage.learning.evaluation import Schedule, evaluate_policy, split_case
from presage.learning.explanation import explain_policy, policy_document
from presage.learning.learned_policy import LearnedPolicy
from presage.learning.naming import policy_named
from presage.learning.outcomes import Outcome, ratio_of
from presage.learning.self_watch import REQUESTED, SelfWatch
from presage.learning.static_rules import FIRST_COME, best_static, label, static_deciders
from presage.policies.queue_scorer import GUARDS, QueueScorer
from presage.policies.run_forecasts import RunForecasts
from presage.simulator.guided import Decider

from .making import make_case


def test_parts_of_a_case_join_to_the_whole() -> None:
    case = make_case(jobs=300)
    train, test = split_case(case, 0.6, 0.3)
    assert len(train) + len(test) == 300
    assert len(train) == pytest.approx(300 * 0.3 / 0.7, abs=1)
    np.testing.assert_array_equal(np.concatenate([train.jobs.submit_ms, test.jobs.submit_ms]), case.jobs.submit_ms)
    with pytest.raises(UsageError, match="cannot be split"):
        split_case(case, 0.2, 0.3)


@pytest.mark.parametrize("load", [0.5, 0.9, 1.3])
def test_a_case_at_a_load_has_that_load_and_the_same_jobs(load: float) -> None:
    case = make_case(jobs=300).at_load(load)
    assert case.load == pytest.approx(load, rel=1e-3)


def test_the_best_rule_is_safe_and_the_best_of_those_that_are() -> None:
    case = make_case(jobs=500, load=1.1)
    deciders = static_deciders()
    line = Outcome.of(case, case.run(FIRST_COME, "requested"))
    best = best_static(case, deciders)
    outcome = Outcome.of(case, case.run(best, "requested"))
    assert outcome.is_safe(line)
    assert outcome.slowdown <= line.slowdown
    assert best_static(case, [FIRST_COME, Decider("ljf", None)]) == FIRST_COME


def test_an_outcome_is_that_of_the_starts() -> None:
    case = make_case(jobs=100)
    outcome = Outcome.of(case, case.jobs.submit_ms + 60_000)
    run_s = case.jobs.run_ms / 1000
    assert outcome.max_wait_s == outcome.p99_wait_s == 60
    assert outcome.slowdown == pytest.approx(np.maximum(1, (60 + run_s) / np.maximum(run_s, 10)).mean())


def test_forecasts_that_are_true_beat_requests() -> None:
    case = make_case(jobs=1500, load=1.0, noise=0.0)
    policy = LearnedPolicy.load("index")
    own, blind = (
        Schedule.of(case, replace(policy, watches=False)),
        Schedule.from_starts("", case, case.run(policy.decider, "requested")),
    )
    assert own.outcome.slowdown < 0.95 * blind.outcome.slowdown


def test_an_evaluation_has_all_figures_of_both_sides() -> None:
    case = make_case(jobs=1200, load=1.0)
    train, test = case.between(0, 0.5), case.between(0.5, 1)
    document = evaluate_policy(LearnedPolicy.load("index"), train, test).as_dict()
    assert document["jobs"] == 600
    for side in (document, document["best_static"]):
        for name in ("mean_bounded_slowdown", "mean_wait_s", "p99_wait_s", "max_wait_s", "mean_response_s"):
            assert side[name] > 0
    ratio = document["mean_bounded_slowdown"] / document["best_static"]["mean_bounded_slowdown"]
    assert document["ratio_to_best_static"] == pytest.approx(ratio)
    low, high = document["ci95"]
    assert low <= ratio <= high
    busy = evaluate_policy(LearnedPolicy.load("index"), train, test, high_load=True)
    assert busy.load == pytest.approx(0.9, rel=1e-3)


def test_a_policy_compared_with_itself_is_even() -> None:
    case = make_case(jobs=300)
    own = Schedule.of(case, FIRST_COME)
    assert ratio_of(own.outcome, own.outcome) == (1.0, (1.0, 1.0))


def lying(case_seed: int) -> RunForecasts:
    """Forecasts that turn the order of jobs around."""
    case = make_case(seed=case_seed, jobs=2500, load=1.0)
    return RunForecasts.certain(1e8 / (case.jobs.run_ms / 1000))


def test_a_policy_notices_that_its_forecasts_lead_it_astray() -> None:
    case = make_case(seed=3, jobs=2500, load=1.0)
    bad = replace(case, forecasts=lying(3))
    decider = LearnedPolicy.load("index").decider
    watch = SelfWatch(every_days=1.0, back_days=7.0, fewest_jobs=50)
    start_ms, switches = watch.watched_run(bad, decider)
    by_requests = (switches.source == REQUESTED).mean()
    assert by_requests > 0.5
    unwatched = Outcome.of(bad, bad.run(decider)).slowdown
    assert Outcome.of(bad, start_ms).slowdown < unwatched
    # Good forecasts are kept to.
    _, kept = watch.watched_run(replace(case, forecasts=case.told("actual")), decider)
    assert (kept.source == REQUESTED).mean() < by_requests


def test_what_happens_later_does_not_change_what_was_decided_before() -> None:
    case = make_case(seed=4, jobs=1500, load=1.0)
    decider = LearnedPolicy.load("index").decider
    watch = SelfWatch(every_days=1.0, back_days=5.0, fewest_jobs=30)
    whole, _ = watch.watched_run(case, decider)
    until_ms = int(case.jobs.submit_ms[1000])
    part, _ = watch.watched_run(case.select(slice(1000)), decider)
    decided = whole[:1000] < until_ms
    np.testing.assert_array_equal(part[decided], whole[:1000][decided])


def test_a_policy_is_what_was_saved(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scorer = QueueScorer(rng.normal(size=9), rng.normal(size=(2, 22)), rng.normal(size=2), rng.normal(size=9))
    policy = LearnedPolicy("ours", scorer, GUARDS["E"], watches=False, about={"method": "test"})
    policy.save(tmp_path / "ours.safetensors")
    read = LearnedPolicy.load(tmp_path / "ours.safetensors")
    assert policy_document(read) == policy_document(policy)


def test_what_is_no_policy_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no policy"):
        LearnedPolicy.load(tmp_path / "none.safetensors")
    (tmp_path / "text.safetensors").write_text("not at all")
    with pytest.raises(InputError, match="not a policy"):
        LearnedPolicy.load(tmp_path / "text.safetensors")


@pytest.mark.parametrize(
    "damage",
    [
        {"guard": {"base_s": "Infinity", "backlog": 1.0}},
        {"guard": {"base_s": float("inf"), "backlog": 1.0}},
        {"guard": {"hours": 3}},
        {"about": 3},
    ],
)
def test_a_policy_with_a_damaged_head_is_told(tmp_path: Path, damage: dict[str, object]) -> None:
    path = tmp_path / "ours.safetensors"
    LearnedPolicy("ours").save(path)
    with safe_open(path, "numpy") as opened:
        head = json.loads(opened.metadata()["presage-policy"])
    path.write_bytes(save(load(path.read_bytes()), {"presage-policy": json.dumps({**head, **damage})}))
    with pytest.raises(InputError, match="not a policy"):
        LearnedPolicy.load(path)
    for other in ("[]", "3"):
        path.write_bytes(save(load(path.read_bytes()), {"presage-policy": other}))
        with pytest.raises(InputError):
            LearnedPolicy.load(path)


def test_policies_are_found_by_what_people_call_them() -> None:
    assert isinstance(policy_named("index"), LearnedPolicy)
    assert policy_named("saf/A") == Decider("saf", GUARDS["A"])
    assert policy_named("sjf+easy") == policy_named("sjf") == Decider("sjf", None)
    assert label(Decider("sjf", None)) == "sjf/-"
    with pytest.raises(UnknownNameError, match="saf"):
        policy_named("saff")
    with pytest.raises(PresageError, match="guard"):
        policy_named("saf/Q")
    with pytest.raises(UsageError, match="default has its own guard"):
        policy_named("default/A")


def test_a_name_is_no_folder_that_happens_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("index", "saf", "sjf+easy", "policies"):
        Path(name).mkdir()
        Path(name, "notes.txt").touch()
    assert policy_named("index").name == "index"
    assert policy_named("saf") == Decider("saf", None)
    assert policy_named("sjf+easy") == Decider("sjf", None)
    for folder in ("policies", "./saf"):
        with pytest.raises(InputError, match="holds no policies"):
            policy_named(folder)
    LearnedPolicy("kept").save(Path("saf/ours.safetensors"))
    assert policy_named("saf/ours.safetensors").name == "kept"


def test_an_explanation_says_which_way_each_number_moves_a_job() -> None:
    explained = explain_policy(LearnedPolicy.load("index"))
    means = {term.name: term.means for term in explained.terms}
    assert "earlier" in means["log_waited"]
    assert "later" in means["log_expected_run"]
    assert means["fits"] == "it does not matter"
    assert "24 h" in explained.says
