from __future__ import annotations

import numpy as np
import pytest

from presage.foundation.scoring import area_under_roc, average_precision, score, split_of
from presage.foundation.view.examples import Examples
from presage.foundation.view.tasks import Task


def test_scores_by_hand() -> None:
    quantiles_s = np.array([[0.0, 9.0, 99.0], [0.0, 99.0, 200.0]])
    found = score(quantiles_s, np.array([99.0, 999.0]), Task.WAIT)

    assert found.log_mae == pytest.approx(1.0)
    assert found.mae_s == pytest.approx((90 + 900) / 2)
    assert found.coverage_80 == 0.5
    # 9 s count as a minute, which is within a factor of two of 99 s.
    assert found.within_factor_2 == 0.5


def test_runs_shorter_than_a_second_count_as_one() -> None:
    assert score(np.zeros((1, 3)), np.array([0.4]), Task.RUN).log_mae == 0.0


@pytest.mark.parametrize(
    ("chance", "happened", "roc", "precision"),
    [
        ([0.1, 0.2, 0.8, 0.9], [False, False, True, True], 1.0, 1.0),
        ([0.9, 0.8, 0.2, 0.1], [False, False, True, True], 0.0, (1 / 3 + 2 / 4) / 2),
        ([0.5, 0.5, 0.5, 0.5], [False, True, False, True], 0.5, 0.5),
    ],
)
def test_ranking_scores(chance: list[float], happened: list[bool], roc: float, precision: float) -> None:
    assert area_under_roc(np.array(chance), np.array(happened)) == pytest.approx(roc)
    assert average_precision(np.array(chance), np.array(happened)) == pytest.approx(precision)


def test_ranking_scores_need_both_kinds() -> None:
    assert area_under_roc(np.array([0.5]), np.array([True])) is None
    assert average_precision(np.array([0.5]), np.array([False])) is None


@pytest.mark.parametrize("task", list(Task))
def test_the_split_is_by_time_and_labels_are_known_in_time(examples: Examples, task: Task) -> None:
    split = split_of(examples, task)
    time_s, history = examples.questions.time_s, examples.history
    known_s = (history.start_s if task is Task.WAIT else history.end_s)[examples.questions.asked]

    assert time_s[split.train].max() <= time_s[split.validate].min() <= time_s[split.test].min()
    assert known_s[np.concatenate([split.train, split.validate])].max() < time_s[split.test].min()
    assert len(split.test) == pytest.approx(0.2 * len(history), abs=5)
