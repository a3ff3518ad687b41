from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from presage.errors import InputError, UsageError
from presage.learning._passes import ScoredOrder
from presage.learning.case_windows import CaseWindows
from presage.learning.cases import Case
from presage.learning.networks import JOBS, READS, ROW_IS_THERE, ScorerNetwork
from presage.policies.queue_scorer import GUARDS, OF_THE_JOB, OF_THE_QUEUE, Guard, QueueScorer
from presage.simulator.guided import Decider

from .making import make_case

KINDS = ("linear", "mlp", "attention")
EARLY = Guard(4 * 3600.0, 0.1)
"""So strict that it has something to do in a window."""


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def case() -> Case:
    return make_case(jobs=120, load=1.1, seed=4)


def network(kind: str, seed: int = 1) -> ScorerNetwork:
    """Return a network that has learned something or other."""
    torch.manual_seed(seed)
    made = ScorerNetwork(kind, 5)
    with torch.no_grad():
        for values in (made.weights, made.out, made.offset, made.attention):
            values.add_(torch.randn_like(values), alpha=0.7)
    return made


def queues(seed: int, moments: int = 6, rows: int = 30) -> np.ndarray:
    """Return what might be read of queues of different lengths, at least one job each."""
    rng = np.random.default_rng(seed)
    seen = np.zeros((moments, rows, len(READS)), np.float32)
    for moment in seen:
        waiting = int(rng.integers(1, rows + 1))
        moment[:waiting, :JOBS] = rng.normal(4, 3, (waiting, JOBS))
        moment[:waiting, JOBS:ROW_IS_THERE] = rng.random(len(OF_THE_QUEUE)) * 5
        moment[:waiting, ROW_IS_THERE:] = 1
    return seen


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_the_scorer_orders_queues_as_the_network_does(kind: str, seed: int) -> None:
    seen, learned = queues(seed), network(kind, seed)
    scorer = learned.scorer()
    with torch.no_grad():
        logits = learned(torch.from_numpy(seen))[0].numpy()
    for moment, given_logits in zip(seen.astype(np.float64), logits, strict=True):
        waiting = int(moment[:, ROW_IS_THERE].sum())
        scores = scorer.scores(moment[:waiting, :JOBS], moment[0, JOBS:ROW_IS_THERE])
        below = given_logits[:waiting] - given_logits[:waiting].max()
        np.testing.assert_allclose(-(scores - scores.min()), below, atol=1e-3)
        if waiting > 1 and np.diff(np.sort(scores))[0] > 1e-3:
            assert scores.argmin() == given_logits.argmax()


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_that_begins_as_a_scorer_is_that_scorer(kind: str) -> None:
    taken = network(kind).scorer()
    again = ScorerNetwork(kind, 5, taken).scorer()
    for name in ("weights", "hidden", "out", "attention"):
        np.testing.assert_allclose(getattr(again, name), getattr(taken, name), atol=1e-5)


def test_more_units_than_those_of_the_scorer_do_not_speak_yet() -> None:
    taken = network("attention").scorer()
    more = ScorerNetwork("attention", 9, taken).scorer()
    of_jobs, of_queue = np.random.default_rng(0).normal(size=(7, len(OF_THE_JOB))), np.ones(len(OF_THE_QUEUE))
    assert len(more.out) == 9
    np.testing.assert_allclose(more.scores(of_jobs, of_queue), taken.scores(of_jobs, of_queue), atol=1e-4)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_a_simpler_kind_cannot_begin_as_an_attention(kind: str) -> None:
    with pytest.raises(UsageError, match="kind attention"):
        ScorerNetwork(kind, 5, network("attention").scorer())


@pytest.mark.parametrize("guard", [None, EARLY, GUARDS["A"]], ids=["unguarded", "early", "A"])
@pytest.mark.parametrize("kind", KINDS)
def test_playing_by_the_network_makes_the_schedule_of_its_scorer(
    case: Case, kind: str, guard: Guard | None
) -> None:
    """The same jobs through torch in the environment, and without it through the engine."""
    learned = network(kind)
    machines = ScoredOrder(CaseWindows(case, len(case)), 1, measured_by=Decider(QueueScorer(), guard))
    seen, infos = machines.reset(seed=0)
    done, starts = False, np.empty(0, np.int64)
    while not done:
        starts = machines.start_ms(0)
        actions = learned.choose(seen, infos["action_mask"])
        assert infos["action_mask"][0, actions[0]]
        seen, _, ended, _, infos = machines.step(actions)
        done = bool(ended[0])
    scheduled = case.run(Decider(learned.scorer(), guard))
    known = starts >= 0  # the last choice is followed to the end within the step
    assert known.sum() > len(case) // 2
    np.testing.assert_array_equal(starts[known], scheduled[known])


def test_the_guard_has_a_say_in_these_windows(case: Case) -> None:
    scorer = network("attention").scorer()
    assert (case.run(Decider(scorer, EARLY)) != case.run(Decider(scorer, None))).any()


def test_who_chooses_as_the_measure_does_gets_minus_one(case: Case) -> None:
    index = ScorerNetwork("linear")
    machines = ScoredOrder(CaseWindows(case, 40), 3, measured_by=Decider(QueueScorer(), GUARDS["A"]))
    seen, infos = machines.reset(seed=2)
    total, totals = np.zeros(3), list[float]()
    while len(totals) < 5:
        seen, rewards, done, _, infos = machines.step(index.choose(seen, infos["action_mask"]))
        total += rewards
        totals += total[done].tolist()
        total[done] = 0
    assert totals == pytest.approx([-1.0] * len(totals))


def test_windows_longer_than_the_log_are_told(case: Case) -> None:
    with pytest.raises(InputError, match="windows of 500"):
        CaseWindows(case, 500)
