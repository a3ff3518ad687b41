from __future__ import annotations

import numpy as np
import pytest

from presage.synthesizers.sequence.plans import Activity, Plan, Varying, _varied, make_plan
from presage.synthesizers.sequence.streams import DAY_S, calendar_from

MONDAY_MS = 4 * DAY_S * 1000
AS_IT_WAS = Varying(spread=0.0, borrowed=0.0)


def activity(span_days: int = 14) -> Activity:
    """Two whole weeks: user 0 has 3 jobs on Monday and 1 on Friday, and 2 on Tuesday; user 1 has 5 on a Sunday."""
    days = np.array([[3, 0, 0, 0, 1, 0, 0], [0, 2, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 5]])
    week, user = np.array([0, 1, 1]), np.array([0, 0, 1])
    return Activity(np.ones((2, 7)), week, user, days, days * 10.0, span_days)


def plan_of(
    known: Activity, count: int, varying: Varying = AS_IT_WAS, start_ms: int = MONDAY_MS, seed: int = 0
) -> Plan:
    calendar = calendar_from(start_ms, start_ms, "UTC")
    return make_plan(known, count, calendar, varying, np.random.default_rng(seed), again=True)


def test_what_the_log_did_comes_again() -> None:
    plan = plan_of(activity(), 11)
    assert plan.jobs.tolist() == [6, 5]
    assert plan.user.tolist() == [0, 1]
    assert plan.day.tolist() == [0, 0, 0, 4, 8, 8, 13, 13, 13, 13, 13]
    assert plan.of_day.tolist() == [3, 3, 3, 1, 2, 2, 5, 5, 5, 5, 5]
    assert plan.of_week.tolist() == [4, 4, 4, 4, 2, 2, 5, 5, 5, 5, 5]
    assert plan.work.tolist() == [30, 30, 30, 10, 20, 20, 50, 50, 50, 50, 50]


def test_what_the_log_has_not_of_its_last_week_is_lent_by_another() -> None:
    """The log ends on Tuesday night: its last days stay as busy as they were, the rest is as a week before."""
    open_days = np.array([[1.0] * 7, [1.0] * 2 + [0.0] * 5])
    days = np.array([[3, 0, 0, 0, 1, 0, 2], [4, 2, 0, 0, 0, 0, 0]])
    known = Activity(open_days, np.array([0, 1]), np.array([0, 0]), days, days * 10.0, span_days=14)
    plan = plan_of(known, 15)
    assert np.bincount(plan.day)[:14].tolist() == [3, 0, 0, 0, 1, 0, 2, 4, 2, 0, 0, 1, 0, 2]
    assert (plan.work / plan.of_day == 10).all()


def test_days_that_a_short_log_never_saw_are_as_those_it_has() -> None:
    """Of a Monday and a Tuesday whole weeks are made, in which all days have as many jobs as one of the two."""
    days = np.array([[3, 5, 0, 0, 0, 0, 0]])
    known = Activity(
        np.array([[1.0] * 2 + [0.0] * 5]), np.array([0]), np.array([0]), days, days * 10.0, span_days=7
    )
    plan = plan_of(known, 100)
    jobs = np.bincount(plan.day)
    assert jobs[:2].tolist() == [3, 5]
    assert set(jobs.tolist()) == {3, 5}
    assert len(jobs) < 40


def test_weeks_apart_are_streams_of_their_own() -> None:
    plan = plan_of(activity(span_days=7), 11)
    assert plan.jobs.tolist() == [5, 4, 2]
    assert plan.user.tolist() == [1, 0, 0]
    assert plan.day.tolist() == [13] * 5 + [0, 0, 0, 4] + [8, 8]


def test_a_trace_longer_than_the_log_has_more_streams_not_longer_ones() -> None:
    plan = plan_of(activity(), 110)
    assert plan.jobs.max() <= 3 * 5  # three weeks of the busiest
    assert len(plan.user) > 8


def test_so_are_days_apart() -> None:
    plan = plan_of(activity(span_days=1), 11)
    assert plan.jobs.tolist() == [5, 3, 2, 1]
    assert plan.day.tolist() == [13] * 5 + [0, 0, 0] + [8, 8] + [4]


@pytest.mark.parametrize("count", [1, 12, 100, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_there_are_enough_jobs_however_many_are_asked_for(count: int, seed: int) -> None:
    plan = plan_of(activity(), count, Varying(0.3, 0.5), seed=seed)
    assert plan.jobs.sum() >= count
    assert (np.diff(plan.jobs) <= 0).all()
    assert len(plan.day) == plan.jobs.sum()
    assert plan.day.max() <= plan.calendar.last_s // DAY_S


def test_no_job_is_due_before_the_trace_begins() -> None:
    wednesday_ms = MONDAY_MS + 2 * DAY_S * 1000
    plan = plan_of(activity(), 40, Varying(0.1, 0.5), start_ms=wednesday_ms)
    assert plan.day.min() >= 2


def test_borrowed_days_are_those_of_another_week_of_the_user() -> None:
    plan = plan_of(activity(), 4, Varying(0.0, 1.0))
    # User 0 has one other week, all on a Tuesday.
    assert plan.day[: plan.jobs[0]].tolist() == [1, 1, 1, 1]


def test_numbers_vary_around_what_they_were() -> None:
    varied = _varied(np.full(20_000, 3.7), 0.3, np.random.default_rng(0))
    assert varied.std() > 1
    assert abs(varied.mean() - 3.7) < 0.03
