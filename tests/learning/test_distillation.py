from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presage.errors import InputError, UsageError
from presage.learning.cases import Case
from presage.learning.decisions import Decision, pairs_of, sample_decisions
from presage.learning.distillation import (
    MAX_AGES_S,
    Sampling,
    SlurmWeights,
    distil_formula,
    losses_of,
    slurm_weights,
)
from presage.learning.formulas import FACTORS, Formula
from presage.learning.learned_policy import LearnedPolicy
from presage.policies.queue_scorer import INPUTS, OF_THE_JOB, QueueScorer
from presage.policies.run_forecasts import RunForecasts
from presage.simulator.guided import Decider
from presage.simulator.jobs import Jobs
from tests.learning.making import make_case

INDEX = "r·t·√p / (1 + w/4h)²"
FEW = Sampling(decisions=60, pairs=15, finalists=3)


def weights(**named: float) -> QueueScorer:
    return QueueScorer(np.array([named.get(name, 0.0) for name in OF_THE_JOB]))


def one_processor(run_s: list[float], submit_s: list[float]) -> Case:
    """Jobs of one processor each, on one, whose runs are known."""
    run_ms = np.array(run_s, np.float64) * 1000
    whole = run_ms.astype(np.int64)
    jobs = Jobs(
        (np.array(submit_s) * 1000).astype(np.int64), whole, whole, whole, whole, np.ones(len(whole), np.int64)
    )
    return Case("one", jobs, 1, np.zeros(len(whole), np.int64), RunForecasts.certain(run_ms / 1000))


def random_scorer() -> QueueScorer:
    """A scorer that uses all there is (every number, hidden units, attention) and likes best what fits."""
    rng = np.random.default_rng(7)
    return QueueScorer(
        np.append(rng.normal(0, 1, len(OF_THE_JOB) - 1), -9.0), rng.normal(0, 0.3, (4, INPUTS + 1)),
        rng.normal(0, 2, 4),
        rng.normal(0, 0.3, len(OF_THE_JOB)),
    )  # fmt: skip


def test_decisions_are_read_as_the_engine_reads_them() -> None:
    case, scorer = make_case(load=0.8), random_scorer()
    decisions = sample_decisions(case, case.run(Decider(scorer, None)), 1000, np.random.default_rng(0))

    fitting = 0
    for decision in decisions:
        first = int(np.argmin(scorer.scores(decision.of_jobs, decision.of_queue)))
        fits = decision.of_jobs[first, OF_THE_JOB.index("fits")] == 1
        fitting += fits
        assert decision.starts[first] == fits
    assert fitting > 100


def test_pairs_have_one_that_started_and_the_scorers_choice_ahead() -> None:
    of_jobs = np.zeros((3, len(OF_THE_JOB)))
    of_jobs[:, 0] = [2.0, 1.0, 3.0]
    decision = Decision(np.arange(3), np.array([False, True, False]), of_jobs, np.zeros(3))
    pairs = pairs_of([decision], weights(log_expected_run=1.0), 20, np.random.default_rng(0))

    assert (pairs.ahead[:, 0] == 1).all()
    assert set(pairs.gap) == {1.0, 2.0}
    assert pairs.agreement(np.stack([pairs.gap, -pairs.gap, 0 * pairs.gap])).tolist() == [1.0, 0.0, 0.5]


def test_formulas_print_and_are_read_again() -> None:
    formula = Formula.parse("r * t * √p / (1+w/4h)²")

    assert str(formula) == INDEX
    assert formula == Formula((1.0, 1.0, 0.0, 0.5, -2.0, 0.0))
    assert str(Formula.parse("1/q^1.5/√(1 + w/t)")) == "1 / q^1.5 / √(1 + w/t)"
    assert str(Formula.parse("1")) == "1"


@given(st.tuples(*[st.sampled_from([-3.0, -1.5, -0.5, 0.0, 0.25, 0.5, 1.0, 2.0])] * len(FACTORS)))
def test_every_formula_survives_print(powers: tuple[float, ...]) -> None:
    assert Formula.parse(str(Formula(powers))) == Formula(powers)


@pytest.mark.parametrize("text", ["", "r + p", "x", "rp", "r//p", "r·", "1r", "·r", "(1 + w/2h)", "√"])
def test_what_is_no_formula_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="no formula"):
        Formula.parse(text)


def test_a_formula_is_the_logarithm_of_its_value() -> None:
    read = np.zeros((1, len(OF_THE_JOB)))
    # 100 s, four processors, four hours waited: 100 · 2 / 2².
    read[0, [0, 3, 5]] = np.log([100.0, 4.0, 2.0])

    score = Formula.parse("r·√p / (1 + w/4h)²").scorer().scores(read, np.zeros(3))
    assert np.exp(score).tolist() == pytest.approx([50.0])


def test_the_fixed_index_distils_to_itself() -> None:
    distilled = distil_formula(LearnedPolicy(), [make_case()], judged_on=[make_case(seed=1)], sampling=FEW)

    assert str(distilled.formula) == INDEX
    assert distilled.agreement == 1.0
    assert distilled.ratio == 1.0
    assert [each.case for each in distilled.losses] == ["made-1"]


def test_a_scorer_outside_the_grammar_is_imitated_and_its_loss_told() -> None:
    scorer = weights(log_expected_run=0.9, log_typical_run=1.2, log_processors=0.4, log_waited=-1.7, fits=-0.3)
    cases = [make_case(), make_case(seed=1)]
    distilled = distil_formula(LearnedPolicy("own", scorer), cases, sampling=FEW)

    assert 0.95 < distilled.agreement < 1
    assert distilled.ratio == pytest.approx(np.prod([each.ratio for each in distilled.losses]) ** 0.5)
    assert distilled == distil_formula(LearnedPolicy("own", scorer), cases, sampling=FEW)
    assert distilled.as_dict()["formula"] == str(distilled.formula)


def test_losses_are_ratios_of_bounded_slowdown() -> None:
    # While the first runs, two wait: 10 s and 50 s long.
    case = one_processor([100, 50, 10], [0, 1, 1])
    shortest = LearnedPolicy("short", weights(log_expected_run=1.0))
    loss = losses_of(shortest, Decider(weights(log_expected_run=-1.0)), [case])[0]

    assert loss.learned == pytest.approx((1 + 159 / 50 + 109 / 10) / 3)
    assert loss.distilled == pytest.approx((1 + 149 / 50 + 159 / 10) / 3)
    assert loss.ratio == pytest.approx(19.88 / 15.08)
    # In line, nobody waits longer than 149 s either.
    assert loss.safe


@pytest.mark.parametrize("distil", [distil_formula, slurm_weights])
def test_without_a_queue_there_is_nothing_to_imitate(distil: type) -> None:
    with pytest.raises(InputError, match="nothing to imitate"):
        distil(LearnedPolicy(), [one_processor([10, 10], [0, 100])])
    with pytest.raises(UsageError, match="at least one case"):
        distil(LearnedPolicy(), [])


def test_slurm_lines_and_nice_values_say_what_was_fitted() -> None:
    fitted = SlurmWeights(4000, 36 * 3600, -700, (1000, 500, -20, 0), 20_000, 0.9, ())

    assert fitted.lines() == [
        "PriorityType=priority/multifactor",
        "PriorityMaxAge=1-12:00:00",
        "PriorityWeightAge=4000",
        "PriorityWeightJobSize=700",
        "PriorityFavorSmall=YES",
        "# Nice value of each job at its submit: round(1000·ln(r) + 500·ln(t) - 20·ln(q) - 20000)",
    ]
    # 1480 · ln(100) = 6815.6; a run beyond all bounds is not held against a job more than that.
    assert fitted.nice_of(one_processor([100, 1e12], [0, 0])).tolist() == [-13_184, 0]


@pytest.mark.parametrize("max_age_s", MAX_AGES_S)
def test_the_age_factor_is_run_as_slurm_computes_it(max_age_s: int) -> None:
    waited_s = np.concatenate([np.linspace(0, 2 * max_age_s, 200), [30 * 86_400]])
    read = np.zeros((len(waited_s), len(OF_THE_JOB)))
    read[:, OF_THE_JOB.index("log_waited")] = np.log1p(waited_s / (4 * 3600))
    scores = SlurmWeights(3000, max_age_s, 0, (0, 0, 0, 0), 0, 1.0, ()).scorer().scores(read, np.zeros(3))

    # Scores and the age factor may differ by a constant.
    off = -scores / 3 - np.minimum(1, waited_s / max_age_s)
    assert np.ptp(off) <= 2 * 0.04


def test_slurm_weights_imitate_the_index() -> None:
    cases = [make_case(), make_case(seed=1)]
    fitted = slurm_weights(LearnedPolicy(), cases, sampling=FEW)

    assert fitted.agreement > 0.95
    assert fitted.age > 0
    assert fitted.nice[0] == pytest.approx(1000, abs=250)
    assert (fitted.nice_of(cases[0]) <= 0).all()
    assert fitted == slurm_weights(LearnedPolicy(), cases, sampling=FEW)
    again = losses_of(LearnedPolicy(), Decider(fitted.scorer(), None), cases)
    assert fitted.losses == again
