from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from presage.synthesizers._spreading import DAY_MS, WEEK_MS, can_spread, spread, stretches_of

MONDAY_MS = 1_700_438_400_000
"""2023-11-20 00:00 UTC."""
HOUR_MS = 3_600_000
WEEKS = 10

Times = NDArray[np.int64]


def users_days(seed: int = 0, weeks: float = WEEKS) -> tuple[pl.DataFrame, Times]:
    """Return jobs of forty users, four within an hour of the working day, and when they come."""
    rng = np.random.default_rng(seed)
    days = int(weeks * 7)
    user, day = (each.ravel() for each in np.meshgrid(np.arange(40), np.arange(days)))
    here = rng.random(len(day)) < 0.5
    begin_ms = MONDAY_MS + day[here] * DAY_MS + rng.integers(9, 17, here.sum()) * HOUR_MS
    times = (begin_ms[:, None] + rng.integers(0, HOUR_MS, (here.sum(), 4))).ravel()
    order = np.argsort(times)
    return pl.DataFrame({"user": np.repeat(user[here], 4)[order].astype(str)}), times[order]


def moved(weeks: float, factor: float, seed: int = 0) -> tuple[Times, Times, Times]:
    """Return when jobs come, when they come within another span, and which of them belong together."""
    jobs, times = users_days(seed, weeks)
    stretches = stretches_of(jobs, times, "UTC")
    span_ms = (times[-1] - times[0]) * factor
    return times, spread(times, stretches, span_ms, np.random.default_rng(seed)), stretches


@pytest.mark.parametrize("factor", [0.25, 0.9, 1.0, 1.1, 4.0])
@pytest.mark.parametrize("seed", range(3))
def test_jobs_come_within_the_span_at_the_same_hour_of_the_week(factor: float, seed: int) -> None:
    times, found, _ = moved(WEEKS, factor, seed)
    assert found[0] == times[0]
    assert found.min() >= times[0]
    assert found.max() <= times[0] + (times[-1] - times[0]) * factor
    assert ((found - times) % WEEK_MS == 0).all()


@pytest.mark.parametrize("factor", [0.5, 1.7])
def test_what_a_user_does_on_a_day_stays_together(factor: float) -> None:
    times, found, stretches = moved(WEEKS, factor)
    away = pl.DataFrame({"stretch": stretches, "away": found - times})
    assert away["away"].n_unique() > 3
    assert away.group_by("stretch").n_unique()["away"].to_list() == [1] * away["stretch"].n_unique()


@pytest.mark.parametrize("factor", [0.5, 0.85, 1.3, 2.0])
def test_all_weeks_become_equally_full(factor: float) -> None:
    times, found, _ = moved(4 * WEEKS, factor)
    whole = int((times[-1] - times[0]) * factor / WEEK_MS)
    counts = np.bincount((found - MONDAY_MS) // WEEK_MS)[:whole]
    # 560 jobs in a week, by fours: chance makes about a twelfth of one week.
    assert counts.mean() == pytest.approx(560 / factor, rel=0.05)
    assert counts.std() / counts.mean() < 0.2


def test_days_move_where_there_are_no_two_weeks() -> None:
    times, found, _ = moved(1, 0.5)
    away = found - times
    assert (away % DAY_MS == 0).all()
    assert (away % WEEK_MS != 0).any()


def test_what_is_short_is_not_spread() -> None:
    assert can_spread(2 * DAY_MS, 2 * DAY_MS)
    assert not can_spread(2 * DAY_MS, DAY_MS)
    assert not can_spread(DAY_MS, 9 * DAY_MS)


def test_the_day_of_a_user_ends_at_night_where_the_log_is_from() -> None:
    # Nine and ten in the evening, and two hours after midnight; then noon.
    times = MONDAY_MS + np.array([20, 21, 25, 35]) * HOUR_MS
    jobs = pl.DataFrame({"user": ["ann"] * 4})
    first, second, night, noon = stretches_of(jobs, times, "Europe/Paris").tolist()
    assert first == second == night != noon
    early, late, *_ = stretches_of(jobs, MONDAY_MS + np.array([2, 5, 9, 9]) * HOUR_MS, "Europe/Paris").tolist()
    assert early != late


def test_of_nobody_it_is_hours_that_move() -> None:
    times = MONDAY_MS + np.array([0, 30, 61, 90]) * 60_000
    for jobs in (pl.DataFrame({"size": [1] * 4}), pl.DataFrame({"user": [None] * 4})):
        assert stretches_of(jobs, times, None).tolist() == [0, 0, 1, 1]
    assert len(set(stretches_of(pl.DataFrame({"user": ["ann", "bob", None, None]}), times, None).tolist())) == 3
