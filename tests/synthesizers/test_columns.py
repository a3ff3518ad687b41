from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from presage.errors import InputError
from presage.synthesizers.columns import MOST_LABELS, OTHER, Category, Columns, JobTable, Number, usable_jobs
from presage.testing import make_job, make_trace
from presage.traces import Trace


def make_log(*special: dict[str, Any], jobs: int = 200, **columns: Any) -> Trace:
    """Return jobs that come every minute and run ten, the first of which are special."""
    common = {"user": "ann", **columns}
    rows = [make_job(60 * place, 0, 600, 4, **common) for place in range(jobs)]
    return make_trace(*[{**row, **own} for row, own in zip(rows, special, strict=False)], *rows[len(special) :])


def test_numbers_are_ascending_and_missing_comes_first() -> None:
    category = Category.fit(pl.Series("limit_s", [3600.0, None, 60.0, 3600.0]))
    assert category.labels == (None, 60.0, 3600.0)
    assert category.ordered
    assert category.encode(pl.Series("limit_s", [60.0, 3600.0, None])).tolist() == [1, 2, 0]


def test_an_unknown_number_becomes_the_nearest() -> None:
    category = Category("cpus", (1.0, 4.0, 16.0))
    assert category.encode(pl.Series("cpus", [2.0, 11.0, 1000.0, None])).tolist() == [0, 2, 2, 0]


def test_an_unknown_name_becomes_other_or_the_first() -> None:
    asked = pl.Series("queue", ["long", "never seen"])
    assert Category("queue", ("batch", "long", OTHER)).encode(asked).tolist() == [1, 2]
    assert Category("queue", ("batch", "long")).encode(asked).tolist() == [1, 0]


def test_of_too_many_labels_the_rarest_become_other() -> None:
    names = [f"q{place:04}" for place in range(MOST_LABELS + 50)]
    values = pl.Series("queue", [*names[:900], *names])
    category = Category.fit(values)
    assert len(category) == MOST_LABELS
    assert set(names[:900]) <= set(category.labels)
    assert OTHER in category.labels
    codes = category.encode(values)
    assert [category.labels[code] for code in codes[:2]] == ["q0000", "q0001"]
    left_out = [
        category.labels[code] for code, name in zip(codes, values, strict=True) if name not in category.labels
    ]
    assert set(left_out) == {OTHER}


def test_labels_come_back_in_the_type_of_their_column() -> None:
    flags = Category("preemptible", (None, False, True)).decode(np.array([2, 0, 1]))
    assert flags.dtype == pl.Boolean
    assert flags.to_list() == [True, None, False]
    assert Category("nodes_req", (1, 8)).decode(np.array([1, 1])).to_list() == [8, 8]
    outcomes = Category("outcome", ("completed", "failed")).decode(np.array([1]))
    assert outcomes.to_list() == ["failed"]


def test_a_number_comes_back_from_its_place() -> None:
    values = np.arange(2001.0)
    number = Number.fit("run_s", values)
    places = number.to_uniform(values, np.random.default_rng(0))
    assert (np.diff(places) >= 0).all()
    assert places[1000] == pytest.approx(0.5, abs=1e-3)
    np.testing.assert_allclose(number.from_uniform(places), values, atol=1.01)


def test_a_frequent_value_is_spread_over_its_share() -> None:
    values = np.array([0.0] * 400 + list(range(1, 601)))
    number = Number.fit("gap_s", values)
    places = number.to_uniform(np.zeros(5000), np.random.default_rng(0))
    assert places.max() == pytest.approx(0.4, abs=0.005)
    assert places.mean() == pytest.approx(0.2, abs=0.01)
    assert (number.from_uniform(places) == 0).all()


def test_places_of_all_values_are_uniform() -> None:
    values = np.rint(np.random.default_rng(1).lognormal(3, 1, 20_000))
    places = Number.fit("run_s", values).to_uniform(values, np.random.default_rng(2))
    counts, _ = np.histogram(places, 10, (0, 1))
    np.testing.assert_allclose(counts / len(values), 0.1, atol=0.01)


def test_values_stay_within_those_of_the_log_and_whole_where_all_were() -> None:
    number = Number.fit("run_s", np.array([3.0, 5.0, 60.0]))
    drawn = number.from_uniform(np.linspace(0, 1, 50))
    assert (drawn[0], drawn[-1]) == (3.0, 60.0)
    assert (drawn == np.floor(drawn)).all()


@pytest.mark.parametrize(
    ("values", "step"),
    [([0.0, 60.0, 600.0], 60.0), ([30.0, 60.0], 10.0), ([5.0, 60.0], 1.0), ([0.5, 2.0], 0.1), ([0.0], 1.0)],
)
def test_numbers_are_told_as_finely_as_those_of_the_log(values: list[float], step: float) -> None:
    number = Number.fit("run_s", np.array(values))
    assert number.step == step
    assert number.rounded(np.array([3.0001 * step])).tolist() == [pytest.approx(3 * step)]


def test_gaps_count_from_the_job_before() -> None:
    jobs = usable_jobs(make_log({"submit_ms": 0}, {"submit_ms": 1500}, {"submit_ms": 1500}))
    assert jobs["gap_s"].to_list()[:4] == [0.0, 1.5, 0.0, 178.5]


def test_people_are_numbered_as_they_appear() -> None:
    log = make_log({"user": "zoe"}, {"user": None}, {"user": "ann"}, {"user": "bob"}, {"user": "zoe"})
    assert usable_jobs(log)["user"].to_list()[:5] == ["u1", None, "u2", "u3", "u1"]
    assert usable_jobs(log, numbered=True)["user"].to_list()[:2] == ["zoe", None]


def test_jobs_without_times_are_left_out() -> None:
    log = make_log({"run_s": None}, {"run_s": 5.0}, jobs=202)
    assert len(usable_jobs(log)) == 201
    assert usable_jobs(log)["run_s"][0] == 5.0


def test_too_few_jobs_are_refused_with_their_number() -> None:
    with pytest.raises(InputError, match=r"Only 199 of 200 jobs"):
        Columns.fit(make_log({"run_s": None}))


def test_constants_and_categories_are_told_apart() -> None:
    columns = Columns.fit(make_log({"user": "bob"}, {"queue": "long"}, queue="short"))
    assert [each.name for each in columns.categories] == ["user", "queue"]
    assert columns.constants == {"cpus": 4.0}
    assert columns.category("limit_s") is None
    assert not columns.limits_hold


def test_sizes_are_what_was_got_or_asked_for_whichever_is_more() -> None:
    columns = Columns.fit(make_log({"cpus_req": 16.0}, {"cpus_req": 2.0}))
    assert columns.category("cpus") == Category("cpus", (4.0, 16.0))


def test_limits_hold_where_few_jobs_miss_them() -> None:
    late = [{"run_s": 610.0}] * 10
    columns = Columns.fit(make_log(*late, {"run_s": 5000.0}, limit_s=600.0))
    assert columns.limits_hold
    assert columns.grace_s == 10.0
    assert not Columns.fit(make_log(*[{"run_s": 5000.0}] * 5, limit_s=600.0)).limits_hold


def test_runs_are_cut_where_limits_hold() -> None:
    columns = Columns(
        (Category("limit_s", (None, 60.0, 600.0)),),
        (Number("gap_s", (0.0, 1.0)), Number("run_s", (0.0, 900.0))),
        limits_hold=True,
        grace_s=5.0,
    )
    table = JobTable({"limit_s": np.array([0, 1, 2, 2])}, {"gap_s": np.zeros(4), "run_s": np.full(4, 620.4)})
    jobs = columns.decode(table)
    assert jobs["run_s"].to_list() == [620.0, 65.0, 605.0, 605.0]
    assert jobs["limit_s"].to_list() == [None, 60.0, 600.0, 600.0]


def test_encoded_and_decoded_a_log_is_itself() -> None:
    log = make_log({"user": "bob", "outcome": "failed"}, {"limit_s": None}, {"run_s": 7.0}, limit_s=700.0)
    columns = Columns.fit(log)
    jobs = columns.decode(columns.encode(log))
    assert jobs["user"].to_list()[:3] == ["u1", "u2", "u2"]
    assert jobs["outcome"].to_list()[:2] == ["failed", None]
    assert jobs["limit_s"].to_list()[:3] == [700.0, None, 700.0]
    assert jobs["run_s"].to_list()[:4] == [600.0, 600.0, 7.0, 600.0]
    assert jobs["cpus_alloc"].unique().to_list() == jobs["cpus_req"].unique().to_list() == [4.0]


def test_columns_come_back_from_json() -> None:
    import json

    log = make_log({"user": "bob", "preemptible": True}, {"limit_s": 60.0}, limit_s=700.0, preemptible=False)
    columns = Columns.fit(log)
    assert Columns.from_dict(json.loads(json.dumps(columns.to_dict()))) == columns
