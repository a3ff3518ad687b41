from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from presage.foundation.baselines import BASELINES, ForecastsFailures, known_rows, split_rows
from presage.foundation.view.examples import Examples, at_submits, examples_of
from presage.foundation.view.jobs import history_of
from presage.foundation.view.targets import targets_of
from presage.foundation.view.tasks import Task
from presage.testing import make_job, make_trace
from presage.testing.baselines import make_examples, make_log
from presage.traces import read_trace


def examples_from(*jobs: dict[str, Any]) -> Examples:
    history = history_of(make_trace(*jobs, cpus=8))
    return examples_of(history, at_submits(history))


def last_of(name: str, examples: Examples, task: Task) -> np.ndarray:
    found: np.ndarray = BASELINES.get(name)().forecast(examples, np.array([len(examples) - 1]), task)[0]
    return found


ANN_AND_BOB = (
    make_job(0, 0, 100, user="ann", limit_s=1000.0, outcome="completed"),
    make_job(1, 0, 300, user="ann", limit_s=1000.0, outcome="failed"),
    make_job(2, 0, 500, user="bob", limit_s=1000.0, outcome="failed"),
    make_job(3, 0, 5000, user="ann", limit_s=9000.0, outcome="completed"),
)


def test_requested_says_the_limit_and_how_much_of_it_is_used() -> None:
    examples = examples_from(*ANN_AND_BOB, make_job(1000, 0, 1, user="eve", limit_s=2000.0))
    # Of those that have ended the shares are .1, .3 and .5.
    assert last_of("requested", examples, Task.RUN) == pytest.approx([2000 * 0.14, 2000, 2000])


def test_requested_takes_the_last_runs_where_nothing_was_requested() -> None:
    examples = examples_from(*ANN_AND_BOB, make_job(1000, 0, 1, user="eve"))
    assert last_of("requested", examples, Task.RUN) == pytest.approx([140, 300, 460])


def test_last_two_are_those_of_the_user_that_have_ended() -> None:
    examples = examples_from(*ANN_AND_BOB, make_job(1000, 0, 1, user="ann", limit_s=2000.0))
    low, median, high = last_of("last-two", examples, Task.RUN)
    assert median == pytest.approx(200)
    # The three first jobs had nothing but their limits to go by, and used .1, .3 and .5 of them.
    assert (low, high) == pytest.approx((200 * 0.14, 200))


@pytest.mark.parametrize(("limit_s", "median_s"), [(150.0, 150.0), (2000.0, 200.0)])
def test_last_two_are_cut_at_the_limit(limit_s: float, median_s: float) -> None:
    examples = examples_from(*ANN_AND_BOB, make_job(1000, 0, 1, user="ann", limit_s=limit_s))
    assert last_of("last-two", examples, Task.RUN)[1] == pytest.approx(median_s)


def test_similar_waits_are_those_of_the_same_class() -> None:
    small = [make_job(number, 10 * (number + 1), 5, 1, limit_s=600.0, queue="q") for number in range(5)]
    large = [make_job(number, 4000, 5, 8, limit_s=600.0, queue="q") for number in range(5)]
    examples = examples_from(*small, *large, make_job(9000, 0, 5, 1, limit_s=600.0, queue="q"))
    low, median, high = last_of("similar", examples, Task.WAIT)
    assert median == pytest.approx(30, rel=1e-5)
    assert 10 < low < 20
    assert 40 < high < 50


def test_a_class_never_seen_gets_the_waits_of_all() -> None:
    small = [make_job(number, 100, 5, 1, limit_s=600.0, queue="q") for number in range(5)]
    examples = examples_from(*small, make_job(9000, 0, 5, 8, limit_s=600.0, queue="q"))
    for name in ("similar", "state-knn", "qbets"):
        assert last_of(name, examples, Task.WAIT) == pytest.approx([100, 100, 100], rel=1e-5)


def test_similar_runs_of_a_user_never_seen_are_around_those_of_others() -> None:
    runs = [make_job(100 * k, 0, 60, 1, user="ann", limit_s=600.0) for k in range(9)]
    examples = examples_from(*runs, make_job(9000, 0, 5, 1, user="bob", limit_s=600.0))
    assert last_of("similar", examples, Task.RUN)[1] == pytest.approx(60, rel=1e-5)


def test_failures_are_a_running_mean_of_the_users_own() -> None:
    baseline = BASELINES.get("user-ema")()
    assert isinstance(baseline, ForecastsFailures)
    later = [make_job(1000, 0, 1, user=user) for user in ("ann", "bob", "eve")]
    examples = examples_from(*ANN_AND_BOB, *later)
    found = baseline.failures(examples, np.array([0, 4, 5, 6]))
    # Nobody has ended yet; ann completed, then failed; bob failed; eve is new where two of three failed.
    assert found == pytest.approx([0.5, 0.2, 1.0, 2 / 3])


def test_known_rows_are_those_whose_truth_came_strictly_before() -> None:
    examples = examples_from(make_job(0, 10, 90, 1), make_job(1, 19, 100, 1), make_job(2, 30, 50, 1))
    assert known_rows(examples, Task.WAIT, 20.0).tolist() == [0]
    assert known_rows(examples, Task.WAIT, 20.001).tolist() == [0, 1]
    assert known_rows(examples, Task.RUN, 100.0).tolist() == [2]


def test_what_is_learned_from_was_known_before_what_is_stopped_at() -> None:
    examples = make_examples(make_log(600))
    until_s = float(examples.questions.time_s[-100])
    for task in Task:
        learned, watched = split_rows(examples, task, until_s, warm_up=50)
        since_s = examples.questions.time_s[watched].min()
        assert set(learned) <= set(known_rows(examples, task, since_s))
        assert set(watched) <= set(known_rows(examples, task, until_s))
        assert learned.min() >= 50
        assert len(learned) > 3 * len(watched) > 0


@pytest.mark.shared_data
@pytest.mark.slow
def test_a_real_log_gives_the_errors_that_were_measured_before(shared_data: Path) -> None:
    history = history_of(read_trace(shared_data / "KTH-SP2-1996-2.1-cln.swf.gz"))
    examples = examples_of(history, at_submits(history))
    rows = np.arange(int(0.8 * len(history)), len(history))
    rows = rows[history.run_s[rows] > 0]
    # Errors of medians in powers of ten over the last fifth of the log, as an independent program gave them.
    for name, task, expected in (
        ("state-knn", Task.WAIT, 0.592),
        ("similar", Task.WAIT, 0.857),
        ("last-two", Task.RUN, 0.559),
    ):
        median_s = BASELINES.get(name)().forecast(examples, rows, task)[:, 1]
        truth_s = targets_of(examples, task).outcome_s[rows]
        assert np.abs(np.log10((1 + median_s) / (1 + truth_s))).mean() == pytest.approx(expected, abs=0.005)
