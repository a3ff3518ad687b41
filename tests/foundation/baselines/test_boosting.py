from __future__ import annotations

import sys

import numpy as np
import pytest

from presage.errors import MissingDependencyError, UsageError
from presage.foundation.baselines import known_rows, split_rows
from presage.foundation.baselines.boosting import Boosting
from presage.foundation.baselines.boosting_refit import BoostingRefit
from presage.foundation.baselines.similar import Similar
from presage.foundation.view.examples import Examples
from presage.foundation.view.targets import targets_of
from presage.foundation.view.tasks import Task
from presage.testing.baselines import make_examples, make_log


@pytest.fixture(scope="module")
def examples() -> Examples:
    pytest.importorskip("lightgbm")
    return make_examples(make_log(1500))


def split_time(examples: Examples) -> float:
    return float(examples.questions.time_s[int(0.7 * len(examples))])


def later_rows(examples: Examples, task: Task) -> np.ndarray:
    targets = targets_of(examples, task)
    return np.flatnonzero(
        targets.usable & ~targets.is_censored & (examples.questions.time_s >= split_time(examples))
    )


def log_error(found: np.ndarray, examples: Examples, rows: np.ndarray, task: Task) -> float:
    truth_s = targets_of(examples, task).outcome_s[rows]
    return float(np.abs(np.log10((1 + found[:, 1]) / (1 + truth_s))).mean())


def test_it_learns_more_than_the_rule_that_it_starts_from(examples: Examples) -> None:
    rows, baseline = later_rows(examples, Task.RUN), Boosting()
    learned, watched = split_rows(examples, Task.RUN, split_time(examples))
    baseline.fit([(examples, learned)], Task.RUN, (examples, watched))
    found = baseline.forecast(examples, rows, Task.RUN)
    truth_s = targets_of(examples, Task.RUN).outcome_s[rows]
    rule = log_error(Similar().forecast(examples, rows, Task.RUN), examples, rows, Task.RUN)
    assert log_error(found, examples, rows, Task.RUN) < rule
    assert 0.65 < ((truth_s >= found[:, 0]) & (truth_s <= found[:, 2])).mean() < 0.95


def test_failures_are_learned_by_user(examples: Examples) -> None:
    baseline, rows = Boosting(), later_rows(examples, Task.RUN)
    baseline.fit_failures([(examples, known_rows(examples, Task.RUN, split_time(examples)))])
    chance = baseline.failures(examples, rows)
    failed = targets_of(examples, Task.RUN).end[rows] > 0
    assert chance[failed].mean() > chance[~failed].mean()


def test_where_all_ended_alike_the_chance_is_how_often(examples: Examples) -> None:
    end, known = targets_of(examples, Task.RUN).end, known_rows(examples, Task.RUN, split_time(examples))
    baseline = Boosting()
    for want, kept in ((0.0, end[known] == 0), (1.0, end[known] > 0)):
        baseline.fit_failures([(examples, known[kept])])
        assert (baseline.failures(examples, np.arange(5)) == want).all()


def test_clusters_count_alike(examples: Examples) -> None:
    small = make_examples(make_log(60, seed=9))
    baseline = Boosting(rows_per_part=100)
    parts = baseline._drawn([(each, np.arange(len(each))) for each in (examples, small)], Task.WAIT)
    assert len(parts[0][1]) == 100
    assert 40 < len(parts[1][1]) < 100
    assert not targets_of(examples, Task.WAIT).is_censored[parts[0][1]].any()


def test_refitting_follows_a_cluster_that_changes(examples: Examples) -> None:
    rows = later_rows(examples, Task.WAIT)
    often = BoostingRefit(shares=(0.7, 0.9), intervals=False).forecast(examples, rows, Task.WAIT)
    once = BoostingRefit(shares=(0.7,), intervals=False).forecast(examples, rows, Task.WAIT)
    submits = examples.questions.time_s[examples.questions.kinds == 0]
    early = examples.questions.time_s[rows] < submits[int(0.9 * len(submits))]
    assert np.array_equal(often[early], once[early])
    assert not np.array_equal(often[~early], once[~early])


def test_it_must_be_fitted_first(examples: Examples) -> None:
    with pytest.raises(UsageError, match="not fitted for waits"):
        Boosting().forecast(examples, np.arange(2), Task.WAIT)
    with pytest.raises(UsageError, match="not fitted"):
        Boosting().failures(examples, np.arange(2))


def test_nothing_to_fit_on_is_a_clear_error(examples: Examples) -> None:
    with pytest.raises(UsageError, match="nothing to fit on"):
        Boosting().fit([(examples, np.arange(0))], Task.WAIT)
    with pytest.raises(UsageError, match="nothing to fit on"):
        Boosting().fit([], Task.WAIT)


def test_without_any_known_end_a_failure_is_as_likely_as_not(examples: Examples) -> None:
    baseline = Boosting()
    baseline.fit_failures([])
    assert baseline.failures(examples, np.arange(3)).tolist() == [0.5, 0.5, 0.5]


def test_without_intervals_the_median_stands_for_all(examples: Examples) -> None:
    learned, _ = split_rows(examples, Task.WAIT, split_time(examples))
    plain, wide = Boosting(intervals=False), Boosting()
    for baseline in (plain, wide):
        baseline.fit([(examples, learned)], Task.WAIT)
    rows = later_rows(examples, Task.WAIT)
    found = plain.forecast(examples, rows, Task.WAIT)
    assert (found[:, [0]] == found).all()
    assert (found[:, 1] == wide.forecast(examples, rows, Task.WAIT)[:, 1]).all()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    examples = make_examples(make_log(20))
    with pytest.raises(MissingDependencyError, match=r"presage\[boost\]"):
        Boosting().fit([(examples, np.arange(len(examples)))], Task.WAIT)
