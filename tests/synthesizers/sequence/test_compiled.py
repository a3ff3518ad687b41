from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")
pytest.importorskip("numba")

from presage.synthesizers import SYNTHESIZERS, Request, Training, sample
from presage.synthesizers._base import Drawing
from presage.synthesizers.sequence import drawing as drawing_module
from presage.synthesizers.sequence.compiled import CompiledSteps
from presage.synthesizers.sequence.compiled._steps import draw, take_up
from presage.synthesizers.sequence.drawing import Drawer
from presage.synthesizers.sequence.features import HISTORY, Moment
from presage.synthesizers.sequence.forward import Weights
from presage.synthesizers.sequence.meanings import Meanings
from presage.synthesizers.sequence.memory import Memory
from presage.synthesizers.sequence.model import SequenceModel
from presage.synthesizers.sequence.steps import NextJobs, Steps
from presage.traces import Trace
from tests.synthesizers.sequence.conftest import SMALL

STREAMS = 40
STEPS = 25


def hardly_trained(log: Trace) -> SequenceModel:
    trained = SYNTHESIZERS.get("sequence").train(log, {**SMALL, "epochs": 1, "calibration": 0}, Training(seed=1))
    assert isinstance(trained, SequenceModel)
    return trained


@pytest.fixture(scope="module")
def limited(habits: Trace) -> SequenceModel:
    """Of a log in which limits end jobs, and eve's jobs have none."""
    ended = pl.when(pl.int_range(pl.len()) % 3 == 0).then("limit_s").otherwise("run_s")
    limits = pl.when(pl.col("user") != "eve").then("limit_s")
    return hardly_trained(habits.with_jobs(habits.jobs.with_columns(run_s=ended, limit_s=limits)))


@pytest.fixture(scope="module")
def nameless(habits: Trace) -> SequenceModel:
    """Of a log without users and limits."""
    nothing = [pl.lit(None, habits.jobs.schema[name]).alias(name) for name in ("user", "limit_s")]
    return hardly_trained(habits.with_jobs(habits.jobs.with_columns(nothing)))


@pytest.fixture(params=["limited", "nameless"])
def drawer(request: pytest.FixtureRequest) -> Drawer:
    """A drawer to whose words everything matters: the weights are those of no log."""
    known: Drawer = request.getfixturevalue(request.param).drawer
    assert known.fields.has_limits == bool(np.isinf(known.fields.limits_s).any()) == (request.param == "limited")
    rng = np.random.default_rng(4)
    arrays = {
        name: array + rng.normal(0, 0.3, array.shape).astype(np.float32)
        for name, array in known.weights.arrays.items()
    }
    return replace(known, weights=Weights(arrays), hours=rng.normal(0, 1, 168))


def steps_of(drawer: Drawer, kind: type[Steps]) -> Steps:
    meanings = Meanings.of(drawer.columns, drawer.fields, drawer.week)
    return kind(drawer.fields, drawer.weights, meanings, drawer.hours)


def copy_of(moment: Moment, memory: Memory) -> tuple[Moment, Memory]:
    copied = Memory(
        memory.words.copy(), memory.keys.copy(), memory.values.copy(), memory.present.copy(), memory.run_s.copy(),
        memory.sort,
    )  # fmt: skip
    return Moment(*(values.copy() for values in moment)), copied


def run_through(drawer: Drawer) -> Iterator[tuple[Moment, Memory, NDArray[np.int64]]]:
    """Yield where streams stand, what they remember and whose they are, before each of their jobs."""
    rng = np.random.default_rng(5)
    steps = steps_of(drawer, Steps)
    moment = Moment.begin(STREAMS)
    memory = Memory.empty(STREAMS, np.array(drawer.fields.sizes), drawer.weights.width, drawer.fields.sort)
    users = len(drawer.weights.arrays["user.weight"]) - 1
    user = rng.integers(-1, users, STREAMS)  # one is of nobody that is known
    for step in range(STEPS):
        moment.left_today[:], moment.left_week[:] = rng.integers(1, 9, STREAMS), rng.integers(9, 30, STREAMS)
        moment.work_left[:] = rng.uniform(0, 1e5, STREAMS)
        new_day = rng.random(STREAMS) < 0.2
        moment.now_s[new_day] += 20_000.0
        moment.away_s[new_day] += 20_000.0
        moment.done_today[new_day] = 0.0
        yield moment, memory, user
        new = steps.next_jobs(moment, memory, user, np.random.default_rng(step))
        steps.take_up(moment, memory, new)


def same(ours: NextJobs, theirs: NextJobs) -> NDArray[np.bool_]:
    """Return which jobs are the same."""
    return np.array(
        (ours.words == theirs.words).all(axis=1)
        & (ours.gap_s == theirs.gap_s)
        & (ours.run_s == theirs.run_s)
        & (np.signbit(ours.run_s) == np.signbit(theirs.run_s))
    )


def test_kernels_draw_the_jobs_that_numpy_draws(drawer: Drawer) -> None:
    plain, compiled = steps_of(drawer, Steps), steps_of(drawer, CompiledSteps)
    found = []
    for step, (moment, memory, user) in enumerate(run_through(drawer)):
        ours = compiled.next_jobs(moment, memory, user, np.random.default_rng(step))
        theirs = plain.next_jobs(moment, memory, user, np.random.default_rng(step))
        found.append(same(ours, theirs))
    # Sums in another order may round differently, which matters where a chance falls just between two words.
    assert np.concatenate(found).mean() > 0.998


def test_kernels_leave_streams_where_numpy_leaves_them(drawer: Drawer) -> None:
    plain, compiled = steps_of(drawer, Steps), steps_of(drawer, CompiledSteps)
    for step, (moment, memory, user) in enumerate(run_through(drawer)):
        new = plain.next_jobs(moment, memory, user, np.random.default_rng(step))
        ours, theirs = copy_of(moment, memory), copy_of(moment, memory)
        compiled.take_up(*ours, new)
        plain.take_up(*theirs, new)
        for name, our_values, their_values in zip(Moment._fields, ours[0], theirs[0], strict=True):
            np.testing.assert_allclose(our_values, their_values, rtol=1e-12, err_msg=name)
        np.testing.assert_array_equal(ours[1].words, theirs[1].words)
        np.testing.assert_array_equal(ours[1].present, theirs[1].present)
        np.testing.assert_array_equal(ours[1].run_s, theirs[1].run_s)
        np.testing.assert_allclose(ours[1].keys, theirs[1].keys, atol=1e-5)
        np.testing.assert_allclose(ours[1].values, theirs[1].values, atol=1e-5)
    assert memory.present.sum(axis=1).max() > HISTORY // 2  # there was something to forget


def test_few_streams_are_drawn_as_among_many(drawer: Drawer) -> None:
    compiled = steps_of(drawer, CompiledSteps)
    moment, memory, user = list(run_through(drawer))[-1]
    chances = np.random.default_rng(0).random((3 * len(drawer.fields.names) + 4, STREAMS))
    many = compiled._draw(moment, memory, user, chances)
    for stream in range(STREAMS):
        one = slice(stream, stream + 1)
        alone = compiled._draw(moment.of(one), memory.of(one), user[one], chances[:, one].copy())
        assert all(np.array_equal(each[0], all_of[stream]) for each, all_of in zip(alone, many, strict=True))


def test_a_whole_trace_is_the_same_by_kernels_and_by_numpy(
    model: SequenceModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing_module, "WORTH_COMPILING", 0)
    by_kernels = [sample(model, Request(jobs=200, seed=3)).jobs for _ in range(2)]
    monkeypatch.setattr(drawing_module, "WORTH_COMPILING", 10**9)
    by_numpy = sample(model, Request(jobs=200, seed=3)).jobs
    assert by_kernels[0].equals(by_kernels[1])
    assert by_kernels[0].equals(by_numpy)


def test_what_calibration_moved_counts_at_once(model: SequenceModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing_module, "WORTH_COMPILING", 0)
    arrays = {name: array.copy() for name, array in model.drawer.weights.arrays.items()}
    drawer = replace(model.drawer, weights=Weights(arrays))
    plan = model._plan(100, model.source.first_ms, np.random.default_rng(1))

    def share_of_first_word() -> float:
        words = drawer.draw_streams(plan, np.random.default_rng(1), Drawing())[0]
        return float((words[:, 1] == 0).mean())

    assert share_of_first_word() < 0.9
    arrays["fields.1.own.bias"][0] += 50
    arrays["fields.1.choice.bias"] -= 50
    assert share_of_first_word() == 1


def test_kernels_are_used_where_they_are_worth_it(model: SequenceModel, monkeypatch: pytest.MonkeyPatch) -> None:
    many = drawing_module.WORTH_COMPILING
    assert type(model.drawer._steps(many - 1)) is Steps
    assert type(model.drawer._steps(many)) is CompiledSteps
    monkeypatch.setattr(drawing_module, "find_spec", lambda _: None)
    assert type(model.drawer._steps(many)) is Steps


def test_kernels_are_compiled_once_for_all_logs(
    model: SequenceModel, nameless: SequenceModel, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing_module, "WORTH_COMPILING", 0)
    model.save(f"{tmp_path}/model")
    for each in (model, nameless, SequenceModel.load(f"{tmp_path}/model")):
        sample(each, Request(jobs=50))
    assert [len(kernel.signatures) for kernel in (draw, take_up)] == [1, 1]
