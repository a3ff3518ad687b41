"""Training, small: does it learn, does it go on where it stopped, is what serves what was trained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from presage.errors import InputError
from presage.foundation.model import Model
from presage.foundation.training import finetuning
from presage.foundation.training.adapting import adapt
from presage.foundation.training.corpus import Corpus, Source, tensors_of
from presage.foundation.training.finetuning import Course, error_of, finetune_tower
from presage.foundation.training.loop import Recipe, train
from presage.foundation.training.losses import Truth, log_likelihood, ranked_probability_score
from presage.foundation.training.network import Mixture, Network
from presage.foundation.training.pretraining import Plan, pretrain
from presage.foundation.training.towers import network_of, shape_for, tower_of
from presage.foundation.training.variants import stretched, variant_of
from presage.foundation.view.examples import Examples
from presage.foundation.view.jobs import JobHistory
from presage.foundation.view.tasks import Task
from presage.traces import Trace

SMALL = Recipe(steps=12, batch=32, warm_up=2)


@pytest.fixture(scope="module")
def corpus(examples: Examples) -> Corpus:
    return Corpus([Source(examples, Task.RUN)])


def new_network(seed: int = 0, **sizes: int) -> Network:
    torch.manual_seed(seed)
    return Network(shape_for(Task.RUN, **sizes))


@pytest.mark.parametrize("task", list(Task))
def test_what_serves_computes_what_was_trained(examples: Examples, task: Task) -> None:
    torch.manual_seed(1)
    network = Network(shape_for(task)).eval()
    source = Source(examples, task)
    scaling = Corpus([source]).scaling(np.random.default_rng(0))
    tower = tower_of(network, task, scaling)
    seen = examples.seen(source.rows[:50], task)
    with torch.no_grad():
        mixture, ends = network(tensors_of(seen, scaling))
    served, served_ends = tower.forward(seen.with_x(scaling.apply(seen.x)))

    for name in ("weight", "centre", "scale"):
        np.testing.assert_allclose(getattr(served, name), getattr(mixture, name).numpy(), rtol=2e-4, atol=2e-5)
    if ends is not None:
        np.testing.assert_allclose(served_ends, ends.numpy(), rtol=2e-4, atol=2e-5)
    again = network_of(tower).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in network.state_dict().items())


def test_training_lowers_the_loss(corpus: Corpus) -> None:
    losses: list[float] = []
    recipe = Recipe(steps=200, batch=64, warm_up=5)
    train(
        new_network(),
        corpus,
        corpus.scaling(np.random.default_rng(0)),
        recipe,
        on_step=lambda _, loss: losses.append(loss),
    )

    assert np.mean(losses[-15:]) < 0.8 * np.mean(losses[:5])


def test_an_interrupted_training_arrives_where_it_would_have(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("presage.foundation.training.loop.CHECKPOINT_STEPS", 5)
    scaling = corpus.scaling(np.random.default_rng(0))
    whole = new_network()
    train(whole, corpus, scaling, SMALL, seed=3)

    class StoppedError(Exception):
        pass

    def stop(step: int, _loss: float) -> None:
        if step == 7:
            raise StoppedError

    interrupted, path = new_network(), tmp_path / "state.safetensors"
    with pytest.raises(StoppedError):
        train(interrupted, corpus, scaling, SMALL, seed=3, checkpoint=path, on_step=stop)
    steps: list[int] = []
    resumed = new_network(seed=9)
    train(resumed, corpus, scaling, SMALL, seed=3, checkpoint=path, on_step=lambda step, _: steps.append(step))

    assert steps[0] == 6
    assert all(torch.equal(value, resumed.state_dict()[name]) for name, value in whole.state_dict().items())
    with pytest.raises(InputError, match="another training"):
        train(new_network(), corpus, scaling, replace(SMALL, rate=1e-4), seed=3, checkpoint=path)
    with pytest.raises(InputError, match="another training"):
        train(new_network(), corpus, scaling, SMALL, seed=3, logs=["other.swf"], checkpoint=path)
    path.write_bytes(b"damaged")
    with pytest.raises(InputError, match="not the state"):
        train(new_network(), corpus, scaling, SMALL, seed=3, checkpoint=path)


def mixture_at(centre: float, scale: float) -> Mixture:
    return Mixture(*(torch.tensor([[value]]) for value in (1.0, centre, scale)))


def truth_at(outcome: float, *, censored: bool = False, age: float = 0.0) -> Truth:
    return Truth(torch.tensor([outcome]), torch.tensor([censored]), torch.tensor([age]), torch.tensor([-1]))


def test_the_score_is_least_for_the_truth_and_ignores_what_was_not_seen() -> None:
    shift = torch.tensor([0.5])

    def scored(centre: float, truth: Truth) -> float:
        return float(ranked_probability_score(mixture_at(centre, 0.3), truth, shift))

    assert scored(6.0, truth_at(6.0)) < scored(5.0, truth_at(6.0)) < scored(3.0, truth_at(6.0))
    # Lost sight of at 6: any later forecast is as good, an earlier one was wrong.
    assert scored(9.0, truth_at(6.0, censored=True)) == pytest.approx(
        scored(12.0, truth_at(6.0, censored=True)), abs=1e-3
    )
    assert scored(4.0, truth_at(6.0, censored=True)) > 1.0
    # After an age of 5, a forecast of 3 can only mean "any moment now".
    assert scored(3.0, truth_at(5.2, age=5.0)) < scored(3.0, truth_at(5.2))


def test_likelihood_of_a_censored_outcome_is_the_chance_to_last_longer() -> None:
    found = log_likelihood(mixture_at(6.0, 0.5), truth_at(6.0, censored=True))

    assert float(found) == pytest.approx(np.log(0.5), abs=1e-4)


@pytest.mark.parametrize("stops_early", [False, True])
def test_fine_tuning_takes_over_only_if_it_is_better(examples: Examples, stops_early: bool) -> None:
    source = Source(examples, Task.RUN)
    tower = tower_of(new_network().eval(), Task.RUN, Corpus([source]).scaling(np.random.default_rng(0)))
    learn, judge = source.rows[:600], source.rows[700:900]

    course = Course(Recipe(steps=90, batch=64, warm_up=3), rounds=3, stops_early=stops_early)
    better = finetune_tower(tower, examples, learn, judge, course=course)
    assert better.took_over
    assert error_of(better.tower, examples, judge) == pytest.approx(better.after)
    assert better.after < better.before
    harsh = replace(course, recipe=Recipe(steps=9, batch=8, rate=5.0, warm_up=1))
    spoilt = finetune_tower(better.tower, examples, learn, judge, course=harsh)
    assert not spoilt.took_over
    assert spoilt.tower is better.tower


@pytest.mark.parametrize(("stops_early", "kept"), [(False, 3), (True, 1)])
def test_the_round_that_counts(
    examples: Examples, monkeypatch: pytest.MonkeyPatch, stops_early: bool, kept: int
) -> None:
    """Three rounds, of which the first is the best by the rows held back."""
    source = Source(examples, Task.RUN)
    tower = tower_of(new_network().eval(), Task.RUN, Corpus([source]).scaling(np.random.default_rng(0)))
    errors = iter([0.9, 0.1, 0.2, 0.3])
    monkeypatch.setattr(finetuning, "error_of", lambda *_: next(errors))
    course = Course(Recipe(steps=6, batch=8, warm_up=1), rounds=3, stops_early=stops_early)
    tuned = finetune_tower(tower, examples, source.rows[:600], source.rows[700:900], course=course)
    trained = network_of(tower)
    for part in range(kept):
        step = Recipe(steps=2, batch=8, warm_up=1, rate=course.recipe.rate * 0.6**part)
        corpus = Corpus([Source(examples, Task.RUN, rows=source.rows[:600])])
        train(trained, corpus, tower.scaling, step, seed=1000 * part)
    expected = tower_of(trained, Task.RUN, tower.scaling).weights
    assert all(np.array_equal(value, expected[name]) for name, value in tuned.tower.weights.items())


def test_adapting_to_a_trace(busy_trace: Trace) -> None:
    progress: list[float] = []
    adapted = adapt(busy_trace, Model.load(), steps=6, on_progress=progress.append)

    assert sum(progress) == pytest.approx(1.0)
    assert set(adapted.as_dict()) == {"wait", "run"}
    assert adapted.model.version.endswith("+finetuned")
    with pytest.raises(InputError, match="can be learnt from"):
        adapt(busy_trace.with_jobs(busy_trace.jobs.head(100)), Model.load(), steps=3)


def test_the_same_seed_makes_the_same_model(history: JobHistory) -> None:
    plan = replace(Plan.of(steps=3, variants=1, seed=5), later=0.1)
    models = [pretrain({"one": history}, plan) for _ in range(2)]

    for task in Task:
        weights = [model.towers[task].weights for model in models]
        assert all(np.array_equal(value, weights[1][name]) for name, value in weights[0].items())


def test_variants_keep_the_jobs_and_leave_the_test_part_alone(history: JobHistory) -> None:
    kinds = set()
    for seed in range(6):
        variant, about = variant_of(history, np.random.default_rng(seed))
        kinds.add("policy" in about)
        assert len(variant) == int(0.8 * len(history))
        assert (variant.start_s >= variant.facts["submit_s"]).all()
        assert np.isfinite(variant.end_s).all()
    assert kinds == {True, False}


def test_a_stretched_history_is_the_same_on_another_clock(history: JobHistory) -> None:
    slow = stretched(history, 4.0)

    np.testing.assert_allclose(slow.wait_s, 4 * history.wait_s, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(slow.run_s, 4 * history.run_s, rtol=1e-9, atol=1e-6)


@pytest.mark.slow
def test_two_processes_train_one_model(busy_trace: Trace, tmp_path: Path) -> None:
    logs = []
    for name in ("a", "b"):
        logs.append(str(tmp_path / f"{name}.parquet"))
        busy_trace.save(logs[-1])
    out = tmp_path / "model.safetensors"
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "presage",
        "model", "pretrain", *logs, "--out", str(out), "--steps", "4", "--variants", "0", "--name", "pair",
        "--json",
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=280, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["trained_on"] == ["a.parquet", "b.parquet"]
    assert Model.load(out).version == "pair"


@pytest.mark.parametrize("task", list(Task))
def test_a_single_question_gets_the_answer_of_many(examples: Examples, task: Task) -> None:
    torch.manual_seed(2)
    source = Source(examples, task)
    tower = tower_of(Network(shape_for(task)).eval(), task, Corpus([source]).scaling(np.random.default_rng(0)))
    rows = source.rows[[0, 40, 400, -1]]
    curves, ends = tower.answers(examples, rows)
    for place, row in enumerate(rows):
        curve, chances = tower.answer(examples.seen(np.array([row]), task))
        np.testing.assert_allclose(curve[0], curves[place], atol=1e-4)
        if ends is not None and chances is not None:
            np.testing.assert_allclose(chances[0], ends[place], atol=1e-4)
