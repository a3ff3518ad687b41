from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from presage.errors import InputError, UsageError
from presage.learning.cases import Case
from presage.learning.imitation import become_sure, moments_of
from presage.learning.learned_policy import LearnedPolicy
from presage.learning.networks import ScorerNetwork
from presage.learning.ppo_policy import WHOLE_RUNS, Learned, ScorerSettings, train_scorer
from presage.learning.reinforcement import BEST, PpoSettings
from presage.policies.queue_scorer import QueueScorer, index_weights

from .making import make_case

PPO = PpoSettings(decisions=192, imitated=150, passes=2, machines=4, steps=16, updates=1, batch=32, epochs=2)
SMALL = ScorerSettings(units=3, jobs=40, ppo=replace(PPO, rate=0.02))


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    case = make_case(jobs=150)
    return [case, case.at_load(0.75)]


def numbers(scorer: QueueScorer) -> list[object]:
    return [each.tolist() for each in (scorer.weights, scorer.hidden, scorer.out, scorer.attention)]


def longer(settings: ScorerSettings, decisions: int) -> ScorerSettings:
    return replace(settings, ppo=replace(settings.ppo, decisions=decisions))


@pytest.fixture(scope="module")
def whole(cases: list[Case]) -> Learned:
    return train_scorer(cases, SMALL)


def test_it_begins_as_the_index_and_keeps_the_best_round(whole: Learned) -> None:
    lowest = min(whole.curve, key=lambda line: line[WHOLE_RUNS])
    assert [line["decisions"] for line in whole.curve] == [0, 64, 128, 192]
    assert (whole.kept_after, whole.cost) == (lowest["decisions"], lowest[WHOLE_RUNS])
    assert whole.decisions == 192
    assert not whole.interrupted


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_the_same_seed_gives_the_same_policy(cases: list[Case], kind: str) -> None:
    settings = longer(replace(SMALL, kind=kind), 64)
    one, again = (train_scorer(cases, settings) for _ in range(2))
    assert numbers(one.scorer) == numbers(again.scorer)
    assert one.curve == again.curve


def test_a_training_that_was_cut_off_goes_on_to_the_same_end(
    cases: list[Case], whole: Learned, tmp_path: Path
) -> None:
    train_scorer(cases, longer(SMALL, 64), folder=tmp_path)
    resumed = train_scorer(cases, SMALL, folder=tmp_path)

    assert resumed.curve == whole.curve
    assert (resumed.cost, resumed.kept_after) == (whole.cost, whole.kept_after)
    assert numbers(resumed.scorer) == numbers(whole.scorer)
    done = train_scorer(cases, SMALL, folder=tmp_path)
    assert numbers(done.scorer) == numbers(whole.scorer)


def test_ctrl_c_keeps_the_best_so_far(cases: list[Case], whole: Learned, tmp_path: Path) -> None:
    def impatient(done: int, _of: int, _line: object) -> None:
        if done == 64:
            raise KeyboardInterrupt

    cut = train_scorer(cases, SMALL, folder=tmp_path, progress=once(impatient))
    assert cut.interrupted
    assert cut.curve == whole.curve[:2]
    assert cut.cost == min(line[WHOLE_RUNS] for line in cut.curve)
    assert train_scorer(cases, SMALL, folder=tmp_path).curve == whole.curve


def once(tell: object) -> object:
    """Return what tells until it has raised."""
    told = []

    def listen(*arguments: object) -> None:
        if not told:
            try:
                tell(*arguments)  # type: ignore[operator]
            except KeyboardInterrupt:
                told.append(1)
                raise

    return listen


def test_the_folder_of_another_training_is_refused(cases: list[Case], tmp_path: Path) -> None:
    train_scorer(cases, longer(SMALL, 64), folder=tmp_path)
    for other in (replace(SMALL, sureness=0.5), replace(SMALL, begin=QueueScorer(index_weights() * 2))):
        with pytest.raises(InputError, match="another training"):
            train_scorer(cases, other, folder=tmp_path)
    first, second = cases
    with pytest.raises(InputError, match="another training"):
        train_scorer(cases[:1], SMALL, folder=tmp_path)
    for differs in (
        {"processors": 2 * first.processors},
        {"jobs": first.at_load(0.5).jobs},
        {"users": np.roll(first.users, 1)},
        {"forecasts": first.told("requested")},
    ):
        with pytest.raises(InputError, match="another training"):
            train_scorer([replace(first, **differs), second], SMALL, folder=tmp_path)
    (tmp_path / BEST).write_bytes(b"{}")
    with pytest.raises(InputError, match="best network"):
        train_scorer(cases, SMALL, folder=tmp_path)


def test_what_is_learned_is_a_policy_like_any_other(whole: Learned, tmp_path: Path) -> None:
    LearnedPolicy("ours", whole.scorer).save(tmp_path / "ours.safetensors")
    assert numbers(LearnedPolicy.load(tmp_path / "ours.safetensors").scorer) == numbers(whole.scorer)


def test_a_network_is_as_sure_as_was_said(cases: list[Case]) -> None:
    import torch

    from presage.learning._passes import ScoredOrder
    from presage.learning.case_windows import CaseWindows
    from presage.simulator.guided import Decider

    network = ScorerNetwork("linear")
    machines = ScoredOrder(CaseWindows(cases[0], 40), 4, measured_by=Decider())
    moments = moments_of(machines, network.choose, 200, seed=1)
    become_sure(network, moments, 0.8)
    with torch.no_grad():
        logits = network(torch.from_numpy(moments.seen))[0].masked_fill(~torch.from_numpy(moments.mask), -1e8)
    chances = logits.softmax(1).numpy()[np.arange(len(moments)), moments.chosen]
    assert chances.mean() == pytest.approx(0.8, abs=1e-3)


@pytest.mark.parametrize("wrong", [{"kind": "deep"}, {"units": 0}, {"sureness": 1.0}, {"jobs": 1}])
def test_settings_that_learn_nothing_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        ScorerSettings(**wrong)  # type: ignore[arg-type]


def test_without_cases_there_is_nothing_to_learn_on() -> None:
    with pytest.raises(UsageError, match="nothing to learn on"):
        train_scorer([], SMALL)
