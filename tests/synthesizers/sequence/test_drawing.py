from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest

pytest.importorskip("torch")

import torch

from presage.synthesizers import SYNTHESIZERS, Request, Training, sample
from presage.synthesizers.columns import RUN
from presage.synthesizers.sequence import steps as steps_module
from presage.synthesizers.sequence.drawing import Drawer
from presage.synthesizers.sequence.examples import Examples, make_examples
from presage.synthesizers.sequence.features import AFTER, BEFORE, REACH, Moment, before_gap, moments_of
from presage.synthesizers.sequence.fields import fit_fields, known_numbers
from presage.synthesizers.sequence.forward import Weights, _look_back, _nearness, draw_words, sigmoid, softmax
from presage.synthesizers.sequence.memory import Memory
from presage.synthesizers.sequence.model import SequenceModel
from presage.synthesizers.sequence.network import SequenceNetwork, Shape
from presage.synthesizers.sequence.streams import calendar_from, cut
from presage.testing import make_job, make_trace
from presage.traces import Trace
from tests.synthesizers.sequence.conftest import SMALL


def seen(model: SequenceModel, trace: Trace) -> tuple[Examples, Moment, np.ndarray[Any, Any], Any]:
    """Return a trace as the network sees it in training."""
    table = model.columns.encode(trace, numbered=trace.manifest.synthetic)
    submit_ms = table.submit_ms
    assert submit_ms is not None
    users = table.codes["user"]
    calendar = calendar_from(model.source.first_ms, int(submit_ms[-1]), model.source.time_zone)
    streams = cut(submit_ms, users, calendar)
    known = known_numbers(model.columns, table.rows(streams.order))
    moment, gap_s = moments_of(submit_ms, streams, calendar, known)
    fields = fit_fields(model.columns, table.rows(streams.order), gap_s, moment.done_today == 0, 24)
    return make_examples(fields, table, streams, moment, gap_s, users), moment, gap_s, fields


def test_numbers_are_as_many_as_the_network_expects(model: SequenceModel, habits: Trace) -> None:
    examples, _, _, _ = seen(model, habits)
    assert examples.before.shape[1] == BEFORE
    assert examples.after.shape[1] == AFTER
    assert np.isfinite(examples.before).all()
    assert np.isfinite(examples.after).all()


def test_while_drawing_a_job_is_seen_as_it_is_in_training(
    model: SequenceModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What drawing told the network is what training would have told it about the very jobs that were drawn."""
    told: list[np.ndarray[Any, Any]] = []

    def spy(moment: Moment) -> np.ndarray[Any, Any]:
        found = before_gap(moment)
        told.append(found.copy())
        return found

    monkeypatch.setattr(steps_module, "before_gap", spy)
    rng = np.random.default_rng(5)
    plan = model._plan(150, model.source.first_ms, rng)
    table = model.drawer.draw(plan, rng, drawing=drawing())
    drawn = np.concatenate(told)
    submit_ms = table.submit_ms
    assert submit_ms is not None
    streams = cut(submit_ms, table.codes["user"], plan.calendar)
    moment, _ = moments_of(
        submit_ms, streams, plan.calendar, known_numbers(model.columns, table.rows(streams.order))
    )
    trained = before_gap(moment)
    # Jobs that a day's plan pushed past midnight belong to another day when the trace is read again, and the work
    # to come is a plan here and a fact there; all else is the same, job by job.
    work_to_come = [14, 15]
    same = np.delete(trained, work_to_come, axis=1)
    shown = np.delete(drawn, work_to_come, axis=1)
    matched = sum((np.abs(shown - row) < 1e-4).all(axis=1).any() for row in same)
    assert matched >= 0.8 * len(same)


def drawing() -> Any:
    from presage.synthesizers._base import Drawing

    return Drawing()


def test_numpy_and_torch_agree(model: SequenceModel, habits: Trace) -> None:
    examples, _, _, fields = seen(model, habits)
    users = int(examples.user.max()) + 1
    torch.manual_seed(0)
    network = SequenceNetwork(
        Shape(fields.sizes, users, 12, 24), fields.values(model.columns), examples.counts(np.arange(60), users)
    ).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        rows = np.arange(40, 60)
        batch = examples.batch(rows)
        logs = network(batch).numpy()
    weights = Weights(network.plain_arrays())
    keys, values = weights.remember(batch.history.numpy().reshape(-1, len(fields.sizes)))
    shape = (*batch.history.shape[:2], -1)
    memory = Memory(
        batch.history.numpy(), keys.reshape(shape), values.reshape(shape), batch.present.numpy(),
        np.zeros(batch.present.shape), fields.sort,
    )  # fmt: skip
    words = batch.words.numpy()
    summed = np.zeros((len(rows), 12), np.float32)
    for place in range(len(fields.sizes)):
        numbers = batch.before.numpy() if place == 0 else batch.after.numpy()
        told = np.concatenate([numbers, weights.who(batch.user.numpy()), summed], axis=1)
        chance = probability(weights, place, told, memory, words, batch, fields)
        np.testing.assert_allclose(np.log(chance), logs[:, place], atol=2e-3)
        summed += weights.arrays[f"words.{place}.weight"][words[:, place]]


def probability(
    weights: Weights, place: int, told: Any, memory: Memory, words: Any, batch: Any, fields: Any
) -> np.ndarray[Any, Any]:
    """Return how likely drawing gives the true words, from its own parts."""
    weight, hidden = _look_back(weights, place, told, memory, words[:, :place])
    own, choice = (weights.linear(f"fields.{place}.{name}", hidden) for name in ("own", "choice"))
    usual = weights.arrays[f"usual.{place}"][batch.user.numpy()]
    own = own + weights.arrays[f"fields.{place}.trust"] * usual
    last = len(fields.sizes) - 1
    if place in (0, last):
        possible = (batch.gap_words if place == 0 else batch.run_words).numpy()
        own = np.where(possible, own, -1e4)
    true = words[:, place]
    offset = true[:, None] - memory.words[:, :, place]
    alike = (offset == 0).astype(float)
    if place in (0, last):
        near = [_nearness(weights, place, hidden, earlier, usual) for earlier in memory.words[:, :, place].T]
        shares = np.stack([each / each.sum(axis=1, keepdims=True) for each in near], axis=1)  # (A, K, 2 REACH + 1)
        there = np.clip(offset + REACH, 0, 2 * REACH)[..., None]
        alike = np.take_along_axis(shares, there, axis=2)[..., 0] * (np.abs(offset) <= REACH)
    copies = sigmoid(choice[:, 0]) * memory.present[:, 0]
    if place == 0:
        copies = copies * ~batch.fresh.numpy()
    return copies * (weight * alike).sum(1) + (1 - copies) * softmax(own)[np.arange(len(true)), true]


def test_words_are_drawn_as_often_as_they_are_likely(model: SequenceModel) -> None:
    drawer: Drawer = model.drawer
    count = 4000
    memory = Memory.empty(count, np.array(drawer.fields.sizes), 12, drawer.fields.sort)
    told = np.zeros((count, AFTER + 16 + 12), np.float32)
    user = np.zeros(count, np.int64)
    drawn = np.zeros((count, 1), np.int64)
    chances = np.random.default_rng(0).random((3, count))
    words = draw_words(drawer.weights, 1, told, memory, drawn, user, None, chances, near=False)
    _, hidden = _look_back(drawer.weights, 1, told[:1], memory.of(slice(1)), drawn[:1])
    own = drawer.weights.linear("fields.1.own", hidden)
    own += drawer.weights.arrays["fields.1.trust"] * drawer.weights.arrays["usual.1"][:1]
    shares = np.exp(own[0] - own[0].max())
    shares /= shares.sum()
    np.testing.assert_allclose(np.bincount(words, minlength=len(shares)) / count, shares, atol=0.03)


def test_numbers_that_are_near_others_again_and_again_stay_where_the_user_usually_is() -> None:
    kernel = -0.1 * np.abs(np.arange(-REACH, REACH + 1)).astype(np.float32)
    usual = (
        np.log(np.where(np.abs(np.arange(60) - 30) < 3, 1.0, 0.01)).astype(np.float32)[None, :].repeat(300, axis=0)
    )
    rng, hidden = np.random.default_rng(1), np.zeros((300, 1), np.float32)

    def wandered(pull: float) -> float:
        weights = Weights({"fields.0.kernel": kernel, "fields.0.pull": np.array([pull], np.float32)})
        words = np.full(300, 30)
        for _ in range(50):
            shares = _nearness(weights, 0, hidden, words, usual)
            words = words + np.array([rng.choice(len(each), p=each / each.sum()) for each in shares]) - REACH
            assert ((words >= 0) & (words < 60)).all()
        return float(np.abs(words - 30).mean())

    assert wandered(0.0) > 10
    assert wandered(1.0) < 2


def test_run_times_are_repeated_as_exactly_as_each_user_repeats_them() -> None:
    """Bob's runs last as long all day, to the second; those of ann are about as long."""
    rng = np.random.default_rng(3)
    rows = []
    for day in range(4, 32):
        for user, start_h, scatter in (("ann", 9, 0.3), ("bob", 14, 0.0)):
            at_s, usual_s = day * 86_400 + start_h * 3600, np.exp(rng.uniform(np.log(100), np.log(10_000)))
            for _ in range(8):
                run_s = float(np.rint(usual_s * np.exp(rng.normal(0, scatter))))
                rows.append(make_job(at_s, 0, run_s, 4, user=user))
                at_s += int(rng.integers(30, 300))
    settings = {**SMALL, "epochs": 20, "calibration": 0, "drafts": 1}
    model = SYNTHESIZERS.get("sequence").train(make_trace(*rows, cpus=64), settings, Training(seed=1))
    jobs = sample(model, Request(jobs=1500, seed=5)).jobs
    steps = jobs.select("user", (pl.col(RUN).log1p().diff().over("user").abs() < 0.05).alias("as before"))
    again = {user: float(part["as before"].mean()) for (user,), part in steps.group_by("user")}
    assert again["u2"] > 0.55  # one nearness for everybody: 0.35
    assert again["u1"] < 0.3


def test_users_keep_to_their_habits(model: SequenceModel, habits: Trace) -> None:
    drawn = sample(model, Request(seed=2)).jobs
    sizes = {user: set(part["cpus_req"].to_list()) for (user,), part in drawn.group_by("user")}
    hours = {user: part["submit_ms"] // 3_600_000 % 24 for (user,), part in drawn.group_by("user")}
    most_u1 = max(sizes["u1"], key=lambda size: (drawn["cpus_req"] == size).sum())
    assert most_u1 == 2
    assert abs(float((drawn["user"] == "u1").mean()) - float((habits.jobs["user"] == "ann").mean())) < 0.05
    assert float((hours["u1"] < 14).mean()) > 0.8
    assert float(drawn.filter(drawn["user"] == "u2")["cpus_req"].median()) == 32


def test_jobs_that_the_log_has_few_of_are_not_drawn_again(
    model: SequenceModel, habits: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copies() -> float:
        made = sample(model, Request(seed=2))
        columns = ["user", "limit_s", RUN]
        names = {"ann": "u1", "bob": "u2", "eve": "u3"}
        known = habits.jobs.with_columns(habits.jobs["user"].replace(names)).select(columns)
        return len(made.jobs.select(columns).join(known, on=columns, how="semi")) / len(made)

    guarded = copies()
    monkeypatch.setattr(model, "known_jobs", None)
    assert copies() > 0.2
    assert guarded < 0.01


def test_weeks_beyond_the_log_are_drawn_too(model: SequenceModel) -> None:
    trace = sample(model, Request(days=70, seed=1))
    days = (trace.jobs["submit_ms"] - model.source.first_ms) // 86_400_000
    assert days.max() >= 65
    assert days.n_unique() > 50


def test_users_go_on_from_what_they_did(model: SequenceModel, habits: Trace) -> None:
    again = sample(model, Request(jobs=60, after=habits, seed=1))
    last = habits.jobs["submit_ms"].max()
    assert again.jobs["submit_ms"].min() >= last
    assert set(again.jobs["user"]) <= {"u1", "u2", "u3"}
    assert not again.jobs[RUN].equals(sample(model, Request(jobs=60, start_ms=last, seed=1)).jobs[RUN])


def test_a_log_whose_jobs_all_end_at_their_limits_is_learned(habits: Trace) -> None:
    log = habits.with_jobs(habits.jobs.with_columns(run_s=pl.col("limit_s")))
    model = SYNTHESIZERS.get("sequence").train(log, {**SMALL, "epochs": 1, "calibration": 0})
    jobs = sample(model, Request(jobs=40)).jobs
    assert (jobs[RUN] <= jobs["limit_s"]).all()


def test_moments_have_one_value_for_each_stream() -> None:
    begun = Moment.begin(3)
    assert all(len(values) == 3 for values in begun)


def test_what_is_interrupted_while_it_is_calibrated_need_not_be_learned_again(
    habits: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state.safetensors"
    settings = {**SMALL, "epochs": 2, "calibration": 1}
    kind = SYNTHESIZERS.get("sequence")
    whole = kind.train(habits, settings)
    with monkeypatch.context() as patched:
        patched.setattr(SequenceModel, "_calibrate", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            kind.train(habits, settings, Training(checkpoint=state))
    told = Mock()
    model = kind.train(habits, settings, Training(checkpoint=state, progress=told))
    assert not told.called
    for name, array in model._arrays().items():
        np.testing.assert_array_equal(array, whole._arrays()[name], err_msg=name)
    assert not list(tmp_path.iterdir())


def test_what_an_abandoned_training_left_behind_is_no_hindrance(habits: Trace, tmp_path: Path) -> None:
    state = tmp_path / "state.safetensors"
    left = tmp_path / "again-state.safetensors"
    left.write_bytes(b"of another training, stopped while it learned from all jobs")
    settings = {**SMALL, "epochs": 1, "calibration": 0}
    SYNTHESIZERS.get("sequence").train(habits, settings, Training(checkpoint=state))
    assert not left.exists()
    assert not state.exists()
