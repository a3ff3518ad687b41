from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from presage.foundation.anomalies import expected_runs
from presage.foundation.anomalies._episodes import episodes
from presage.foundation.anomalies._history import History, codes_of
from presage.foundation.anomalies._runs import Runs, Touches
from presage.foundation.anomalies._surprise import looked_at, streaks, tail_surprise
from presage.foundation.anomalies.failure_cascades import connected
from presage.testing.traces import make_job, make_trace

DAY_MS = 86_400_000.0


def test_a_history_answers_for_each_group_and_instant() -> None:
    group = np.array([1, 0, 1, 1, 0])
    time = np.array([10.0, 5.0, 20.0, 30.0, 15.0])
    value = np.array([1.0, 10.0, 2.0, 4.0, 20.0])
    past = History(group, time)
    asked = np.array([1, 1, 0, 1, 2])
    until = past.before(asked, np.array([20.0, 31.0, 15.0, np.nan, 99.0]))
    assert past.total(value, past.first(asked), until).tolist() == [1.0, 7.0, 10.0, 0.0, 0.0]


def test_the_last_values_in_a_few_figures() -> None:
    past = History(np.zeros(6, np.int64), np.arange(6.0))
    values = np.array([100.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    asked = np.zeros(3, np.int64)
    last = past.last(values, asked, past.before(asked, np.array([0.0, 4.0, 6.0])), 3)
    assert last.number.tolist() == [0, 3, 3]
    assert np.isnan(last.median[0])
    assert last.median[1:].tolist() == [2.0, 4.0]
    assert last.low[1:].tolist() == [1.0, 3.0]
    assert last.high[1:].tolist() == [3.0, 5.0]


def test_codes_tell_nulls_apart_from_texts() -> None:
    frame = pl.DataFrame({"a": ["x", None, "x", ""], "b": [1, 1, 1, 1]})
    codes = codes_of(frame, "a", "b")
    assert codes[0] == codes[2]
    assert len(set(codes.tolist())) == 3


def brute_force_best(gain: np.ndarray) -> float:
    return max(gain[first : last + 1].sum() for first in range(len(gain)) for last in range(first, len(gain)))


@pytest.mark.parametrize("seed", range(20))
def test_the_best_streak_is_the_stretch_with_the_highest_likelihood_ratio(seed: int) -> None:
    rng = np.random.default_rng(seed)
    event = rng.random(40) < np.where((np.arange(40) > 20) & (np.arange(40) < 30), 0.9, 0.1)
    expected = rng.uniform(0.05, 0.2, 40)
    best = max(
        brute_force_best(np.where(event, np.log10(odds / expected), np.log10((1 - odds) / (1 - expected))))
        for odds in (0.2, 0.5, 0.9)
    )
    found = streaks(np.zeros(40, np.int64), event, expected, np.zeros(40), 0.0)
    assert max(each.score for each in found) == pytest.approx(best - np.log10(3))
    covered = [each for streak in found for each in range(streak.first, streak.last + 1)]
    assert len(covered) == len(set(covered)), "streaks do not overlap"


def test_streaks_stay_within_their_group() -> None:
    event = np.array([False] * 5 + [True] * 10 + [False] * 5)
    group = np.repeat([0, 1], 10)
    found = streaks(group, event, np.full(20, 0.05), np.zeros(20), 1.0)
    assert sorted((each.first, each.last) for each in found) == [(5, 9), (10, 14)]


def test_chance_gives_no_more_streaks_than_the_score_says() -> None:
    """A thousand groups of 100 ordinary entries in 10 days: at a score of 1, at most one streak in ten days."""
    rng = np.random.default_rng(0)
    numbers = []
    for _ in range(20):
        event = rng.random(100_000) < 0.1
        group = np.repeat(np.arange(1000), 100)
        numbers.append(len(streaks(group, event, np.full(100_000, 0.1), np.full(100_000, 4.0), 1.0)))
    assert np.mean(numbers) <= 10 * 0.1


def test_a_tail_is_judged_by_the_past() -> None:
    rng = np.random.default_rng(0)
    values = rng.exponential(1.0, 5000)
    time = np.arange(5000.0)
    surprise = tail_surprise(values, time, usual=3.0, scale=1.0)
    # Of an exponential tail, one in a hundred is beyond a surprise of 2.
    assert np.mean(surprise[1000:] > 2) == pytest.approx(0.01, abs=0.004)
    changed = values.copy()
    changed[4000:] *= 50
    assert tail_surprise(changed, time, usual=3.0, scale=1.0)[:4000].tolist() == surprise[:4000].tolist()
    assert np.isnan(tail_surprise(np.array([1.0, np.nan]), np.array([np.nan, 1.0]), usual=1, scale=1)).all()


def test_what_is_looked_at_counts_per_day() -> None:
    time = np.arange(1000) * DAY_MS / 100
    price = looked_at(time, np.ones(1000, np.bool_))
    assert 10 ** price[50] == pytest.approx(51)
    assert 10 ** price[-1] == pytest.approx(100, rel=0.01)


def test_episodes_are_cut_at_gaps_and_groups() -> None:
    rows = np.array([4, 5, 6, 7])
    parts = episodes(rows, np.array([1, 0, 1, 1]), np.array([5.0, 5.0, 0.0, 99.0]), gap_ms=10)
    assert [part.tolist() for part in parts] == [[5], [6, 4], [7]]
    assert episodes(rows[:0], rows[:0], np.zeros(0)) == []


def test_connected_runs_share_a_label() -> None:
    minute = 60_000.0
    runs = Runs(
        np.arange(5),
        np.array([0, 5, 9, 30, 35]) * minute,
        np.ones(5, np.bool_),
        np.zeros(5, np.int64),
        pl.Series([]),
    )
    edges = Touches(np.array([0, 1, 1, 2, 3, 4]), np.array([0, 0, 1, 1, 1, 2]), ["a", "b", "c"])
    label = connected(runs, edges, np.arange(6))
    assert label.tolist() == [0, 0, 0, 0, 3, 4], "30 minutes are too late, and c is elsewhere"


def test_expected_runs_are_those_of_similar_jobs_that_had_ended() -> None:
    short = [make_job(1000 * n, 0, 100, user="a", limit_s=600.0) for n in range(20)]
    long = [make_job(1000 * n, 0, 7200, user="a", limit_s=9000.0) for n in range(20)]
    expected = expected_runs(make_trace(*short, *long))
    assert np.isnan(expected.log_median[0]), "nothing had ended"
    # Rows are in submit order: short and long alternate. Of the long ones, those submitted 7200 s before had
    # ended.
    assert np.exp(expected.log_median[38]) == pytest.approx(100, rel=0.3)
    assert np.exp(expected.log_median[39]) == pytest.approx(7200, rel=0.5)
    assert expected.similar[38] == 19
    assert expected.similar[39] == 12
    assert np.exp(expected.log_high[38]) == pytest.approx(100)


def test_labels_tell_jobs_of_the_same_shape_apart() -> None:
    jobs = [
        make_job(1000 * n, 0, 100 if n % 2 else 900, user="a", name=f"{'ab'[n % 2]}_run{n}", limit_s=3600.0)
        for n in range(60)
    ]
    expected = expected_runs(make_trace(*jobs))
    assert np.exp(expected.log_high[59]) == pytest.approx(100)
    assert np.exp(expected.log_low[58]) == pytest.approx(900)
