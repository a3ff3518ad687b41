from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presage.errors import InputError, UsageError
from presage.policies import Policy
from presage.policies.queue_scorer import GUARDS, INPUTS, OF_THE_JOB, Guard, QueueScorer
from presage.policies.run_forecasts import RunForecasts
from presage.simulator.guided import Decider, Switches, schedule_guided
from presage.simulator.jobs import Jobs
from presage.simulator.live_order import LiveQueue, order_now
from presage.simulator.look_ahead import LookAhead, schedule_looking_ahead
from presage.simulator.pooled import schedule

STATIC = ("fcfs", "sjf", "saf", "ljf", "laf")


def jobs_from(rows: list[tuple[int, int, int]], limits_s: list[int] | None = None) -> Jobs:
    """Return jobs given as (submit, run, processors) in seconds; without `limits_s` each asks for what it runs."""
    submit_s, run_s, processors = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    limit_ms = run_s * 1000 if limits_s is None else np.array(limits_s, np.int64) * 1000
    return Jobs(submit_s * 1000, run_s * 1000, limit_ms, limit_ms, limit_ms.copy(), processors)


def random_jobs(seed: int, count: int = 300, processors: int = 16) -> Jobs:
    rng = np.random.default_rng(seed)
    run_ms = (np.exp(rng.uniform(0, 11, count)) * 1000).astype(np.int64)
    limit_ms = (run_ms * rng.uniform(1, 4, count)).astype(np.int64)
    submit_ms = np.sort(rng.integers(0, 12 * 86_400, count)) * 1000
    return Jobs(submit_ms, run_ms, limit_ms, limit_ms, limit_ms, rng.integers(1, processors + 1, count))


def true_runs(jobs: Jobs) -> RunForecasts:
    return RunForecasts.certain(jobs.run_ms / 1000)


def rough_runs(jobs: Jobs, seed: int = 0) -> RunForecasts:
    factor = np.exp(np.random.default_rng(seed).normal(0, 1, len(jobs)))
    return RunForecasts.certain(np.minimum(jobs.run_ms * factor, jobs.limit_ms) / 1000)


def random_scorer(seed: int, units: int) -> QueueScorer:
    rng = np.random.default_rng(seed)
    reads = len(OF_THE_JOB)
    return QueueScorer(
        rng.normal(size=reads), rng.normal(size=(units, INPUTS + 1)) / 5, rng.normal(size=units),
        rng.normal(size=reads),
    )  # fmt: skip


def starts(
    jobs: Jobs, look_ahead: LookAhead, forecasts: RunForecasts | None = None, processors: int = 16
) -> np.ndarray:
    return schedule_looking_ahead(jobs, processors, look_ahead, [forecasts or rough_runs(jobs)])[0]


@pytest.mark.parametrize("order", ["fcfs", "saf", "lxf", QueueScorer(), random_scorer(3, units=4)])
def test_one_candidate_makes_the_schedule_of_that_order(order: str | QueueScorer) -> None:
    jobs = random_jobs(1)
    users = np.random.default_rng(1).integers(0, 5, len(jobs))
    urgent = np.arange(len(jobs)) % 40 == 7
    told = [rough_runs(jobs), RunForecasts.certain(jobs.limit_ms / 1000)]
    switches = Switches(jobs.submit_ms[[60, 200]], np.array([1, 0]))
    guard = Guard(6 * 3600.0, 0.2)
    guided = schedule_guided(jobs, 16, Decider(order, guard), told, users=users, urgent=urgent, switches=switches)
    ahead, tally = schedule_looking_ahead(
        jobs, 16, LookAhead((order,), guard), told, users=users, urgent=urgent, switches=switches
    )
    np.testing.assert_array_equal(ahead, guided)
    assert tally.asked == 0


TWO_STORIES = jobs_from([
    # The machine is busy for 10 s; then the long job that came first goes next, or the short one.
    (0, 10, 2), (1, 1000, 2), (2, 10, 2),
    # Later one of two processors is busy until 5095. To reserve for the short wide job leaves the other one idle,
    # since the narrow job takes until 5101; to start that one holds up the wide one by 6 s only.
    (5000, 95, 1), (5001, 100, 1), (5001, 10, 2),
])  # fmt: skip


def test_looking_ahead_beats_each_order_alone() -> None:
    jobs = TWO_STORIES
    told = true_runs(jobs)
    alone = {order: schedule_guided(jobs, 2, Decider(order), [told]) // 1000 for order in ("fcfs", "sjf")}
    assert alone["fcfs"].tolist() == [0, 10, 1010, 5000, 5001, 5101]
    assert alone["sjf"].tolist() == [0, 20, 10, 5000, 5105, 5095]
    # At 10 s: 1 + 100 against 1 + 0.01 more slowdown; at 5001 s: 10 against 9.4 + 1.04.
    ahead, tally = schedule_looking_ahead(jobs, 2, LookAhead(("fcfs", "sjf"), exponent=1.0), [told])
    assert (ahead // 1000).tolist() == [0, 20, 10, 5000, 5001, 5101]
    assert (tally.asked, tally.wins) == (2, (1, 1))


@pytest.mark.parametrize(
    ("exponent", "margin", "wins"),
    [(1.0, 0.03, (1, 1)), (1.0, 0.05, (3, 0)), (3.0, 0.0, (3, 0))],
    ids=["just enough gain", "too little gain", "long waits count more"],
)
def test_margin_and_exponent_weigh_the_second_story(exponent: float, margin: float, wins: tuple[int, int]) -> None:
    # By shortest job first it costs 10.44, by first come 10: 4.2 % less. Cubes favour what waits less long:
    # 10.4³ + 2.04³ - 2 against 11³ - 1. With the shortest first there is one more decision, at 5095 s.
    look_ahead = LookAhead(("sjf", "fcfs"), exponent=exponent, margin=margin)
    tally = schedule_looking_ahead(TWO_STORIES, 2, look_ahead, [true_runs(TWO_STORIES)])[1]
    assert tally.wins == wins


@given(st.integers(0, 10_000), st.sampled_from([1.0, 1.5, 2.0]), st.sampled_from([0, 12]))
@settings(max_examples=25)
def test_giving_up_early_and_skipping_where_all_agree_change_no_start(
    seed: int, exponent: float, arrivals: int
) -> None:
    jobs = random_jobs(seed, count=80)
    fast = LookAhead(exponent=exponent, arrivals=arrivals, most_looks=None)
    slow = replace(fast, gives_up=False, asks_always=True)
    (by_fast, quick), (by_slow, thorough) = (
        schedule_looking_ahead(jobs, 16, each, [rough_runs(jobs)]) for each in (fast, slow)
    )
    np.testing.assert_array_equal(by_fast, by_slow)
    assert quick.looks <= thorough.looks
    assert quick.asked + quick.agreed == thorough.asked


@st.composite
def queues(draw: st.DrawFn) -> tuple[Jobs, int]:
    """Return jobs on 8 processors, all of which come at 0; the first ones, whose number is given, run by then."""
    number = st.integers(1, 40)
    rows, free = [], 8
    for _ in range(draw(st.integers(0, 4))):
        processors = draw(st.integers(1, 4))
        if processors <= free:
            rows.append((-1, 1 + draw(number), processors))
            free -= processors
    running = len(rows)
    waiting = draw(st.integers(1, 8))
    rows += [(0, draw(number), draw(st.integers(1, 8))) for _ in range(waiting)]
    return jobs_from(rows, [run + draw(st.integers(0, 20)) for _, run, _ in rows]), running


@given(queues())
@settings(max_examples=200)
def test_a_replay_with_true_run_times_costs_what_the_engine_makes_of_that_order(drawn: tuple[Jobs, int]) -> None:
    jobs, running = drawn
    told = true_runs(jobs)
    costs = []
    for order in STATIC:
        by_truth = replace(jobs, estimate_ms=jobs.run_ms)
        start_ms = schedule(by_truth, 8, Policy(order, "easy"))
        costs.append(float((start_ms[running:] * told.inverse[running:]).sum()))
    live = live_queue(jobs, running, told)
    order = order_now(live, LookAhead(STATIC, None, exponent=1.0, asks_always=True))
    assert costs[order.winner] == pytest.approx(min(costs))


def live_queue(jobs: Jobs, running: int, told: RunForecasts, processors: int = 8) -> LiveQueue:
    """Return the moment 0, when the first jobs have just begun."""
    free = processors - int(jobs.processors[:running].sum())
    return LiveQueue(0, processors, free, jobs, told, np.arange(running), jobs.submit_ms[:running])


def test_a_seed_decides_what_comes() -> None:
    jobs = random_jobs(5)
    by_seed = [starts(jobs, LookAhead(arrivals=8, seed=seed)) for seed in (0, 0, 1, 2, 3)]
    np.testing.assert_array_equal(by_seed[0], by_seed[1])
    assert any((other != by_seed[0]).any() for other in by_seed[2:])


WIDE_AND_SMALL = jobs_from([(0, 60, 1), (1, 100, 2), *((at, 60, 1) for at in range(30, 40_000, 30))])


def test_without_a_guard_a_wide_job_may_wait_for_ever_and_with_one_it_does_not() -> None:
    candidates = ("sjf", "saf")
    unguarded, guarded = (
        starts(WIDE_AND_SMALL, LookAhead(candidates, guard), true_runs(WIDE_AND_SMALL), processors=2)[1] // 1000
        for guard in (None, Guard(3600.0, 0.0))
    )
    assert unguarded > 40_000
    assert 3600 < guarded <= 3600 + 120


@given(st.integers(0, 10_000), st.floats(0.2, 48))
@settings(max_examples=40)
def test_nobody_waits_longer_than_the_guard_allows(seed: int, base_h: float) -> None:
    # Who has waited too long goes first once all that came before have started, and then starts when those that
    # run by then have ended, each within its limit.
    jobs = random_jobs(seed, count=120)
    base_ms = base_h * 3_600_000
    start_ms = starts(jobs, LookAhead(("sjf", "saf", "lxf"), Guard(base_h * 3600, 0.0)))
    earlier_ms = np.maximum.accumulate(np.concatenate([start_ms[:1], start_ms[:-1]]))
    latest_ms = np.maximum(jobs.submit_ms + base_ms, earlier_ms) + jobs.limit_ms.max()
    assert (start_ms <= latest_ms).all()
    assert (start_ms >= jobs.submit_ms).all()


def test_urgent_jobs_go_before_all_others() -> None:
    jobs = jobs_from([(0, 100, 2), (1, 10, 2), (2, 20, 2), (3, 9000, 2)])
    urgent = np.array([False, False, False, True])
    start_ms, _ = schedule_looking_ahead(jobs, 2, LookAhead(("sjf", "fcfs")), [true_runs(jobs)], urgent=urgent)
    assert (start_ms // 1000).tolist() == [0, 9100, 9110, 100]


def test_what_is_not_compared_within_the_budget_is_not_followed() -> None:
    jobs = random_jobs(2)
    told = rough_runs(jobs)
    free, cut = LookAhead(("lxf", "sjf", "fcfs")), LookAhead(("lxf", "sjf", "fcfs"), most_looks=1)
    start_ms, tally = schedule_looking_ahead(jobs, 16, cut, [told])
    np.testing.assert_array_equal(start_ms, schedule_guided(jobs, 16, Decider("lxf"), [told]))
    assert tally.cut == tally.asked > 0
    assert (starts(jobs, free, told) != start_ms).any()


def test_a_winner_is_followed_for_a_while() -> None:
    jobs = random_jobs(2)
    often, seldom = (
        schedule_looking_ahead(jobs, 16, LookAhead(every_s=every_s), [rough_runs(jobs)])[1]
        for every_s in (0, 6 * 3600)
    )
    assert often.asked_share > 2 * seldom.asked_share > 0
    assert seldom.asked <= (jobs.submit_ms[-1] + jobs.run_ms.sum()) / (6 * 3_600_000)
    assert often.decided >= often.asked + often.agreed
    assert sum(often.wins) == often.asked


def test_short_queues_go_by_the_first_candidate() -> None:
    jobs = random_jobs(2)
    told = rough_runs(jobs)
    start_ms, tally = schedule_looking_ahead(jobs, 16, LookAhead(("lxf", "sjf"), fewest=1000), [told])
    np.testing.assert_array_equal(start_ms, schedule_guided(jobs, 16, Decider("lxf"), [told]))
    assert tally.asked == tally.agreed == 0


@pytest.mark.parametrize(
    "wrong", [{"candidates": ()}, {"exponent": 0.0}, {"margin": 1.0}, {"every_s": -1.0}, {"most_looks": 0}]
)
def test_settings_that_mean_nothing_are_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        LookAhead(**wrong)


def test_a_live_order_is_that_of_the_simulation_at_that_moment() -> None:
    # At 5001 s of the second story.
    jobs = TWO_STORIES.select(slice(3, 6))
    live = LiveQueue(5_001_000, 2, 1, jobs, true_runs(jobs), np.array([0]), np.array([5_000_000]))
    order = order_now(live, LookAhead(("sjf", "fcfs"), exponent=1.0))
    assert order.rows.tolist() == [1, 2]
    assert order.winner == 1
    assert order.tally.asked == 1


@pytest.mark.parametrize(
    ("elapsed_s", "limit_s", "first"), [(20, 1000, "wide"), (35, 1000, "narrow"), (35, 120, "wide")]
)
def test_a_running_job_that_outlived_its_forecast_is_expected_for_as_long_again(
    elapsed_s: int, limit_s: int, first: str
) -> None:
    # 10 s were forecast and planned. By 2 x elapsed + 60 s it ends in 80 s or 95 s, by its limit in 85 s. Either
    # the wide job of 10 s waits for that, and the narrow one of 100 s for the wide one, or the latter starts now.
    jobs = jobs_from([(100 - elapsed_s, 500, 1), (100, 100, 1), (100, 10, 2)], [limit_s, 100, 10])
    jobs.plan_ms[0] = 10_000
    told = RunForecasts.certain(np.array([10.0, 100.0, 10.0]))
    live = LiveQueue(100_000, 2, 1, jobs, told, np.array([0]), jobs.submit_ms[:1])
    order = order_now(live, LookAhead(("sjf", "fcfs"), exponent=1.0))
    assert order.rows.tolist() == ([2, 1] if first == "wide" else [1, 2])


def test_jobs_that_fit_on_nothing_that_is_up_come_last() -> None:
    # 4 of 8 processors are down: the first in line cannot start whatever ends.
    jobs = jobs_from([(0, 50, 2), (1, 10, 8), (2, 30, 2), (3, 20, 3)])
    live = LiveQueue(10_000, 8, 2, jobs, true_runs(jobs), np.array([0]), np.array([0]))
    order = order_now(live, LookAhead(("fcfs", "sjf")))
    assert order.rows.tolist()[-1] == 1
    assert sorted(order.rows) == [1, 2, 3]


def test_an_empty_queue_has_an_empty_order() -> None:
    jobs = jobs_from([(0, 50, 2)])
    live = LiveQueue(10_000, 8, 6, jobs, true_runs(jobs), np.array([0]), np.array([0]))
    assert order_now(live, LookAhead()).rows.tolist() == []


def test_a_moment_that_cannot_be_is_told() -> None:
    jobs = jobs_from([(0, 50, 2), (1, 10, 8)])
    with pytest.raises(InputError, match="began"):
        LiveQueue(0, 8, 8, jobs, true_runs(jobs), np.array([0]), np.array([], np.int64))
    with pytest.raises(InputError, match="order of their submits"):
        LiveQueue(0, 8, 8, jobs.select(np.array([1, 0])), true_runs(jobs), np.array([0]), np.array([0]))
    with pytest.raises(InputError, match="fewer than 0"):
        LiveQueue(0, 8, -1, jobs, true_runs(jobs), np.array([0]), np.array([0]))


def test_jobs_larger_than_the_machine_are_told() -> None:
    with pytest.raises(InputError, match="processors"):
        starts(jobs_from([(0, 10, 9)]), LookAhead(guard=GUARDS["E"]), processors=8)
