from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from presage.errors import InputError, UsageError
from presage.synthesizers import SYNTHESIZERS, Privacy, Request, Training, load_synthesizer, sample
from presage.synthesizers._files import read_arrays, read_head
from presage.synthesizers.columns import Category, Columns, JobTable, Number
from presage.synthesizers.fidelity._jobs import people_are_comparable
from presage.testing.synthesizers import make_log
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace
from presage.traces.schema import TABLES

torch = pytest.importorskip("torch")
pytest.importorskip("opacus")

from presage.synthesizers import _private  # noqa: E402 (after the skip, like all that need it)
from presage.synthesizers._private import clipped_sum, spent_by  # noqa: E402
from presage.synthesizers.sequence import private, training  # noqa: E402
from presage.synthesizers.sequence.budget import LABELS_SHARE, Budget, shares_of  # noqa: E402
from presage.synthesizers.sequence.examples import Examples  # noqa: E402
from presage.synthesizers.sequence.fields import Fields, known_numbers, public_fields  # noqa: E402
from presage.synthesizers.sequence.invented import _falling, habits_of, invent, quantiles  # noqa: E402
from presage.synthesizers.sequence.labels import labelled  # noqa: E402
from presage.synthesizers.sequence.network import SequenceNetwork, Shape  # noqa: E402
from presage.synthesizers.sequence.streams import Calendar, Streams  # noqa: E402
from presage.synthesizers.sequence.units import (  # noqa: E402
    JOB_EDGES,
    MOST_LABELS,
    Units,
    label_table,
    limit_table,
    plan_tables,
    units_of,
    whole_days,
)

DAY_S = 86_400
WEEKS = 3
CALENDAR = Calendar(0, 0.0, WEEKS * 7 * DAY_S - 1.0)
SIZES, LIMITS_S, QUEUES = (1.0, 2.0, 8.0), (None, 600.0, 3600.0), ("a", "b")
COLUMNS = Columns(
    (
        Category("user", ("u1", "u2", "u3", "u4")),
        Category("queue", QUEUES),
        Category("cpus", SIZES),
        Category("limit_s", LIMITS_S),
    ),
    (Number.public("gap_s"), Number.public("run_s")),
    limits_hold=True,
)
SMALL: dict[str, Any] = {"epochs": 2, "batch": 64, "width": 12, "hidden": 24, "calibration": 1}
PROMISE = Privacy(12.0, 1e-3)

Job = tuple[int, int, int, int, int, int]
JOBS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, WEEKS * 7 * DAY_S - 1),
        st.integers(0, 2 * DAY_S),
        st.integers(0, 1),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
    min_size=2,
    max_size=40,
)
BURST = [(0, DAY_S + 60 * place, 300 + place % 3, 0, 1, 1) for place in range(60)]
"""More jobs of one unit than count fully."""


def table_of(jobs: list[Job]) -> JobTable:
    user, submit_s, run_s, queue, size, limit = np.array(sorted(jobs, key=lambda job: job[1])).T
    codes = {"user": user, "queue": queue, "cpus": size, "limit_s": limit}
    return JobTable(codes, {"gap_s": np.zeros(len(user)), "run_s": run_s.astype(float)}, submit_s * 1000)


def units(table: JobTable) -> Units:
    assert table.submit_ms is not None
    return units_of(table.submit_ms, table.codes["user"], CALENDAR)


def examples_of(table: JobTable) -> tuple[Examples, dict[str, np.ndarray], Fields]:
    fields = public_fields(COLUMNS, 12)
    known = known_numbers(COLUMNS, table.rows(units(table).streams.order))
    return *private._count_jobs(table, units(table), fields, known), fields


def all_tables(table: JobTable) -> dict[str, np.ndarray]:
    """Return everything that is released of these jobs, without noise."""
    own = units(table)
    known = known_numbers(COLUMNS, table.rows(own.streams.order))
    labels = {
        f"labels {name}": label_table(own.of_jobs(), table.codes[name], len(known_labels))
        for name, known_labels in labelled(COLUMNS).items()
    }
    limit_s = np.nan_to_num(COLUMNS.categories[3].numbers(), nan=1e9)[table.codes["limit_s"]]
    work = np.rint(np.nan_to_num(known["cpus"], nan=1.0) * known["run_s"])
    return {
        **labels,
        "limits": limit_table(own.of_jobs(), table.numbers["run_s"] > limit_s),
        **plan_tables(own, work),
        **examples_of(table)[1],
    }


def without(jobs: list[Job], gone: Job) -> list[Job]:
    """Return the jobs of all units but that of one job."""
    week_s = 7 * DAY_S
    return [job for job in jobs if (job[0], job[1] // week_s) != (gone[0], gone[1] // week_s)]


@settings(max_examples=30)
@given(JOBS, st.booleans(), st.data())
def test_one_week_of_a_user_moves_no_table_by_more_than_its_noise_is_measured_by(
    jobs: list[Job], burst: bool, data: st.DataObject
) -> None:
    jobs = [*jobs, *BURST] if burst else jobs
    rest = without(jobs, data.draw(st.sampled_from(jobs)))
    if not rest:
        return
    whole, less = all_tables(table_of(jobs)), all_tables(table_of(rest))
    assert whole.keys() == less.keys() == private.table_weights(COLUMNS).keys()
    for name, table in whole.items():
        assert np.linalg.norm(table - less[name]) <= 1 + 1e-9, name


@settings(max_examples=10)
@given(JOBS, st.data())
def test_nothing_that_the_network_sees_of_a_unit_depends_on_another(jobs: list[Job], data: st.DataObject) -> None:
    rest = without(jobs, data.draw(st.sampled_from(jobs)))
    if not rest:
        return
    before, after = seen_of(jobs), seen_of(rest)
    for unit, parts in after.items():
        for one, other in zip(parts, before[unit], strict=True):
            np.testing.assert_array_equal(one, other)


def seen_of(jobs: list[Job]) -> dict[tuple[int, int], list[np.ndarray]]:
    """Return what the network is told of each unit, by user and week."""
    table = table_of(jobs)
    examples, own = examples_of(table)[0], units(table)
    return {
        (int(own.streams.user[unit]), int(own.week[unit])): [
            each.numpy() for each in examples.batch(np.arange(*own.streams.first[unit : unit + 2]))
        ]
        for unit in range(len(own))
    }


def make_network(fields: Fields) -> SequenceNetwork:
    torch.manual_seed(3)
    counts = [np.ones((1, size), np.int64) for size in fields.sizes]
    shape = Shape(fields.sizes, 1, 4, 6, dropout=0.0, forget_user=0.0)
    return SequenceNetwork(shape, fields.values(COLUMNS), counts)


def streams_for_gradients() -> tuple[Examples, Fields, Streams]:
    rng = np.random.default_rng(1)
    jobs = [(u, int(t), int(r), 0, int(s), 2) for u, t, r, s in zip(
        rng.integers(0, 4, 50), rng.integers(0, 14 * DAY_S, 50), rng.integers(1, 3000, 50), rng.integers(0, 3, 50),
        strict=True,
    )]  # fmt: skip
    table = table_of(jobs)
    examples, _, fields = examples_of(table)
    return examples, fields, units(table).streams


def test_each_stream_has_its_own_gradient() -> None:
    examples, fields, streams = streams_for_gradients()
    network = make_network(fields).train()
    chosen = np.arange(len(streams.user))
    rows, weight = training._some_jobs(streams, chosen, np.random.default_rng(0))
    found = training._each_own(network, examples.batch(rows.ravel()), weight)
    for place in (0, 3):
        network.zero_grad()
        counted = weight[place] > 0
        (-network(examples.batch(rows[place][counted])).sum(1).mean()).backward()
        for each, parameter in zip(found, network.parameters(), strict=True):
            expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            torch.testing.assert_close(each[place], expected, rtol=1e-4, atol=1e-6)


def test_jobs_of_a_step_are_some_of_the_unit_and_weigh_1_together() -> None:
    table = table_of([*BURST, (1, 5, 5, 0, 0, 0)])
    streams = units(table).streams
    rows, weight = training._some_jobs(streams, np.array([1, 0]), np.random.default_rng(0))
    assert rows.shape == weight.shape == (2, training.LOOKED_AT)
    np.testing.assert_allclose(weight.sum(axis=1), 1, rtol=1e-6)
    assert set(rows[1]) <= set(range(60))
    assert len(set(rows[1])) == training.LOOKED_AT
    assert set(rows[0]) == {60}


def test_one_stream_moves_a_step_by_no_more_than_the_clip() -> None:
    examples, fields, streams = streams_for_gradients()
    network = make_network(fields).train()

    def gradients(chosen: np.ndarray) -> list[Any]:
        rows, weight = training._some_jobs(streams, chosen, np.random.default_rng(0))
        return training._each_own(network, examples.batch(rows.ravel()), weight)

    without_it = clipped_sum(network, gradients, np.arange(0), 0.3)
    with_it = clipped_sum(network, gradients, np.array([2]), 0.3)
    moved = torch.cat([(a - b).flatten() for a, b in zip(with_it, without_it, strict=True)]).norm()
    assert 0 < float(moved) <= 0.3 * (1 + 1e-5)


def test_tables_and_steps_together_spend_no_more_than_was_promised() -> None:
    budget = Budget.of(Privacy(8.0, 3e-5), private.table_weights(COLUMNS), 3)
    assert budget.privacy.delta == 1e-5  # a power of ten, not above what was asked for
    noise, share, steps = budget.looks[-1]
    tables = spent_by(noise, share, steps, budget.rest.delta, budget.looks[:-1])
    assert 3.8 < tables <= 4.0
    descent = _private.Descent.of(500.0, training.private_recipe(make_settings()), budget.rest, budget.looks)
    assert 7.8 < descent.spent(budget.rest.delta) <= 8.0
    assert budget.rest.delta + 3 * budget.label_delta == pytest.approx(1e-5)


def make_settings() -> Any:
    return SYNTHESIZERS.get("sequence").settings_type(**SMALL)


def test_labels_of_a_single_unit_are_hardly_ever_named() -> None:
    budget = Budget.of(Privacy(8.0, 1e-5), private.table_weights(COLUMNS), 3)
    assert budget.label_delta == pytest.approx(LABELS_SHARE * 1e-5 / 3)
    least, noise = budget.least_units("labels cpus"), budget.noise["labels cpus"]
    for labels in range(1, MOST_LABELS + 1):
        missed = np.log(NormalDist().cdf((least - 1 / np.sqrt(labels)) / noise)) * labels
        assert -np.expm1(missed) <= budget.label_delta * (1 + 1e-6)


def test_a_unit_speaks_for_so_many_labels_only() -> None:
    codes = np.repeat(np.arange(40), np.arange(40, 0, -1))
    table = label_table(np.zeros(len(codes), np.int64), codes, 40)
    assert (table[:MOST_LABELS] > 0).all()
    assert not table[MOST_LABELS:].any()
    assert np.linalg.norm(table) == pytest.approx(1)


def crowd_and_one_more() -> tuple[Trace, Trace]:
    """Return a log, and the same with one more user's week that has a size, a queue and run times of its own."""
    log = make_log("crowd")
    at_s = (4 + 2 * 7 + 1) * DAY_S + 7200
    more = [
        make_job(at_s + 40 * place, 0, 7777.0 + place, 48, user="stranger", limit_s=9999.0, queue="secret")
        for place in range(30)
    ]
    added = make_trace(*more, cpus=64).jobs.with_columns(pl.concat_str(pl.lit("x"), "job_id").alias("job_id"))
    return log, Trace.create(pl.concat([log.jobs, added]).sort("submit_ms"), log.manifest)


def test_nothing_of_a_model_comes_from_the_log_but_through_the_mechanisms(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """With what the mechanisms give held the same, one more week of a user changes nothing of a saved model."""

    def released(_: Budget, name: str, table: np.ndarray, secret: np.random.Generator) -> np.ndarray:
        if name.startswith("labels "):
            return np.where(table > 3, 1000.0, 0.0)  # as it is in both logs
        few = np.arange(len(table)) < 5 if name == "jobs" else np.ones(len(table))
        return few * (20.0 + 10 * np.random.default_rng(len(name)).random(len(table)))

    monkeypatch.setattr(Budget, "released", released)
    monkeypatch.setattr(training, "descend", lambda *_: None)
    heads = []
    arrays = []
    for place, log in enumerate(crowd_and_one_more()):
        SYNTHESIZERS.get("sequence").train(log, SMALL, Training(privacy=PROMISE)).save(tmp_path / str(place))
        heads.append(read_head(tmp_path / str(place)))
        heads[-1]["record"].pop("cpu_s")  # counts as public
        arrays.append(read_arrays(tmp_path / str(place)))
    assert heads[0] == heads[1]
    assert "secret" not in str(heads[1])
    assert arrays[0].keys() == arrays[1].keys()
    for name, array in arrays[0].items():
        np.testing.assert_array_equal(array, arrays[1][name], err_msg=name)
    assert sorted(each.name for each in (tmp_path / "0").iterdir()) == ["model.json", "weights.safetensors"]


@pytest.fixture(scope="module")
def model() -> Any:
    return SYNTHESIZERS.get("sequence").train(make_log("crowd"), SMALL, Training(seed=1, privacy=PROMISE))


def test_its_traces_are_canonical_and_say_what_is_promised(model: Any, tmp_path: Any) -> None:
    model.save(tmp_path)
    trace = sample(load_synthesizer(tmp_path), Request(jobs=300, seed=2))
    assert_frame_equal(trace.jobs, sample(model, Request(jobs=300, seed=2)).jobs)
    for table, columns in TABLES.items():
        assert dict(trace.table(table).schema) == columns
    jobs = trace.jobs
    assert len(trace) == jobs["job_id"].n_unique() == 300
    assert jobs["submit_ms"].is_sorted()
    assert (jobs["run_s"] >= 0).all()
    assert jobs["user"].str.contains("^u[0-9]+$").all()
    assert set(jobs["cpus_req"].to_list()) <= {1.0, 2.0, 4.0, 8.0}
    promised = trace.manifest.generator["privacy"]
    assert promised["epsilon"] <= PROMISE.epsilon
    assert promised["delta"] == PROMISE.delta
    assert "one user in one week" in promised["unit"]
    assert "public" in promised
    assert trace.manifest.generator["trained_jobs"] == model.source.jobs
    assert not people_are_comparable(make_log("crowd"), trace)  # a number is nobody of the log


def test_every_array_is_a_noisy_table_a_noisy_weight_or_public(model: Any) -> None:
    arrays = model._arrays()
    noisy = {"activity.week", "activity.user", "activity.days", "activity.work", "echo", "week", "hours", "sizes",
             "limits_s"}  # fmt: skip
    public = {"activity.open_days", "activity.span_days", "gap.low", "gap.high", "first.low", "first.high",
              "run.low", "run.high", "rest_s"}  # fmt: skip
    kept = {name for name in arrays if not name.startswith("network.")}
    assert kept == noisy | public
    np.testing.assert_array_equal(arrays["run.high"], public_fields(COLUMNS, 128 // 3).run.high)
    assert not arrays["rest_s"].any()
    people = arrays["network.user.weight"]
    assert (people == people[:1]).all()  # nobody is anybody
    assert arrays["network.usual.0"].shape[0] == len(people)


def test_what_is_said_of_the_log_is_noisy_or_whole_days(model: Any) -> None:
    log = make_log("crowd").jobs
    source = model.source
    assert source.first_ms % (DAY_S * 1000) == 0
    assert source.first_ms <= log["submit_ms"][0]
    assert log["submit_ms"][-1] <= source.last_ms < log["submit_ms"][-1] + DAY_S * 1000
    assert source.load is None
    assert source.jobs == model.activity.jobs.sum()  # of weeks that nobody had
    assert model.record["scores"] == []


def test_noise_is_not_told_by_the_seed(model: Any) -> None:
    again: Any = SYNTHESIZERS.get("sequence").train(make_log("crowd"), SMALL, Training(seed=1, privacy=PROMISE))
    assert not np.array_equal(again.drawer.weights.arrays["key.weight"], model.drawer.weights.arrays["key.weight"])
    assert not np.array_equal(again.drawer.week, model.drawer.week)
    assert again.source.jobs != model.source.jobs or not np.array_equal(again.activity.days, model.activity.days)


@pytest.mark.parametrize(
    ("log", "epsilon", "kind", "message"),
    [
        ("bare", 8.0, InputError, "does not tell its users apart"),
        ("plain", 8.0, InputError, "only about"),
        ("crowd", 0.5, UsageError, "weeks of users have in common"),
        ("crowd", 1e-7, UsageError, "No noise is enough"),
    ],
)
def test_what_cannot_be_promised_is_refused(
    monkeypatch: pytest.MonkeyPatch, log: str, epsilon: float, kind: type[Exception], message: str
) -> None:
    monkeypatch.setattr(Budget, "released", lambda _, __, table, ___: table)  # so that it is not a matter of luck
    with pytest.raises(kind, match=message) as caught:
        SYNTHESIZERS.get("sequence").train(make_log(log), SMALL, Training(privacy=Privacy(epsilon, 1e-3)))
    assert caught.value.remedy  # type: ignore[attr-defined]


def test_a_log_of_users_and_times_alone_can_be_kept_private() -> None:
    log = make_log("crowd")
    unknown = [pl.lit(None, log.jobs.schema[name]).alias(name) for name in ("queue", "limit_s", "cpus_alloc")]
    bare = log.with_jobs(log.jobs.with_columns(unknown))
    model = SYNTHESIZERS.get("sequence").train(bare, SMALL, Training(privacy=PROMISE))
    assert [each.name for each in model.columns.categories] == ["user"]
    assert len(sample(model, Request(jobs=20))) == 20


def test_limits_of_which_none_may_be_named_hold_nothing() -> None:
    log = make_log("crowd")
    limits_s = 20_000.0 + 7 * pl.int_range(pl.len()).cast(pl.Float64)  # everybody has others
    own = log.with_jobs(log.jobs.with_columns(limits_s.alias("limit_s")))
    model = SYNTHESIZERS.get("sequence").train(own, SMALL, Training(privacy=PROMISE))
    assert not model.columns.limits_hold
    jobs = sample(model, Request(jobs=20)).jobs
    assert jobs["limit_s"].null_count() == len(jobs) == 20


def test_shares_of_noise_are_shares() -> None:
    noisy = np.concatenate([[100.0, 50.0], np.random.default_rng(0).normal(0, 5, 60)])
    shares = shares_of(noisy)
    assert shares.sum() == pytest.approx(1)
    assert (shares >= 0).all()
    assert shares[0] > 0.4
    assert shares_of(np.full(4, -3.0)).sum() == pytest.approx(1)


def test_weeks_are_invented_as_the_tables_say() -> None:
    jobs = [(user, week * 7 * DAY_S + 9 * 3600 + 60 * place, 100, 0, 1, 1)
            for week in range(WEEKS) for user in range(4) for place in range(user + 1)]  # fmt: skip
    tables = {
        name: 100 * table for name, table in plan_tables(units(table_of(jobs)), np.full(len(jobs), 200.0)).items()
    }
    activity = invent(habits_of(tables, {"jobs": 0.01}), CALENDAR, np.random.default_rng(0))
    assert np.bincount(activity.week).tolist() == [400] * WEEKS
    assert set(activity.jobs.tolist()) == {1, 2, 3, 4, 5}  # of ranges that begin with 1, 2, 3 and 4
    assert np.bincount(activity.user, minlength=400).tolist() == [WEEKS] * 400
    assert (activity.days > 0).sum(axis=1).max() == 1
    assert activity.span_days == 7


def test_units_of_very_many_jobs_are_believed_only_above_the_noise() -> None:
    jobs = np.zeros(len(JOB_EDGES))
    jobs[:3], jobs[-1] = 100.0, 5.0
    tables = plan_tables(units(table_of([(0, 60, 5, 0, 0, 0)])), np.ones(1))
    assert habits_of({**tables, "jobs": jobs}, {"jobs": 4.0}).jobs[-1] == 0
    assert habits_of({**tables, "jobs": jobs}, {"jobs": 0.3}).jobs[-1] > 0
    jobs[-1] = 12.0  # three times the noise, at one of many ends
    assert habits_of({**tables, "jobs": jobs}, {"jobs": 4.0}).jobs[-1] == 0


def test_quantiles_follow_the_shares() -> None:
    found = quantiles(np.array([0.2, 0.4, 0.4, 0.0]), np.array([0.0, 1.0, 3.0]), 6)
    np.testing.assert_allclose(found, [0, 0, 0.5, 1, 2, 3])


@settings(max_examples=50)
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=12))
def test_numbers_are_made_to_fall_by_pooling_those_that_rise(values: list[float]) -> None:
    found = _falling(np.array(values))
    assert (np.diff(found) <= 1e-9).all()
    assert found.sum() == pytest.approx(sum(values), abs=1e-6)
    np.testing.assert_allclose(_falling(-np.sort(-np.array(values))), -np.sort(-np.array(values)), atol=1e-9)


def test_the_days_of_a_log_are_whole() -> None:
    calendar = whole_days(DAY_S * 1000 + 5, 9 * DAY_S * 1000 + 77, "UTC")
    assert calendar.first_s % DAY_S == 0
    assert (calendar.last_s + 1) % DAY_S == 0
    same = whole_days(DAY_S * 1000 + 4_000_000, 9 * DAY_S * 1000 + 80_000_000, "UTC")
    assert replace(same) == calendar
