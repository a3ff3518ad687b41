from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presage.errors import InputError, UsageError
from presage.policies import ORDERS, Policy
from presage.policies.queue_decision import Queue, order_queue
from presage.policies.queue_scorer import GUARDS, INPUTS, LARGEST, OF_THE_JOB, Guard, QueueScorer
from presage.policies.run_forecasts import RunForecasts
from presage.simulator import _guided
from presage.simulator.guided import Decider, Switches, schedule_guided
from presage.simulator.jobs import Jobs
from presage.simulator.pooled import schedule

HOUR_MS = 3_600_000


def random_jobs(seed: int, count: int = 400, processors: int = 16) -> Jobs:
    rng = np.random.default_rng(seed)
    run_ms = rng.integers(1, 20 * 3600, count) * 1000
    limit_ms = np.maximum(run_ms, (run_ms * rng.uniform(1, 4, count)).astype(np.int64))
    submit_ms = np.sort(rng.integers(0, 25 * 86_400, count)) * 1000
    return Jobs(submit_ms, run_ms, limit_ms, limit_ms, limit_ms, rng.integers(1, processors + 1, count))


def requested(jobs: Jobs) -> RunForecasts:
    return RunForecasts.certain(jobs.limit_ms / 1000)


@pytest.mark.parametrize("rule", list(ORDERS))
def test_a_rule_without_a_guard_makes_the_schedule_of_that_rule(rule: str) -> None:
    jobs = random_jobs(1)
    guided = schedule_guided(jobs, 16, Decider(rule, None), [requested(jobs)])
    np.testing.assert_array_equal(guided, schedule(jobs, 16, Policy(rule, "easy")))


def test_the_index_puts_short_small_jobs_first_and_old_ones_before_them() -> None:
    # One processor is busy for an hour; then the order of the queue decides.
    run_s = np.array([3600, 4000, 2000, 2000])
    jobs = Jobs(
        np.array([0, 1000, 2000, 3000]),
        run_s * 1000,
        run_s * 1000,
        run_s * 1000,
        run_s * 1000,
        np.ones(4, np.int64),
    )
    start_s = schedule_guided(jobs, 1, Decider(QueueScorer()), [requested(jobs)]) / 1000
    assert start_s.tolist() == [0, 7600, 3600, 5600]


@pytest.mark.parametrize("units", [0, 4])
def test_the_engine_scores_as_the_policy_does(units: int) -> None:
    rng = np.random.default_rng(units)
    scorer = QueueScorer(
        rng.normal(size=len(OF_THE_JOB)), rng.normal(size=(units, INPUTS + 1)) / 5, rng.normal(size=units),
        rng.normal(size=len(OF_THE_JOB)),
    )  # fmt: skip
    reads, of_queue = rng.uniform(0, 5, (7, len(OF_THE_JOB))), rng.uniform(0, 3, 3)
    engine = np.zeros(7)
    rules = _guided.Rules(
        _guided.LEARNED, scorer.weights, scorer.hidden, scorer.out, scorer.attention, 0.0, 0.0,
        np.empty(0, np.int64), np.empty(0, np.int64),
    )  # fmt: skip
    _guided._by_units(rules, reads, of_queue, engine)
    np.testing.assert_allclose(engine, scorer.scores(reads, of_queue), rtol=1e-12)


def test_units_that_say_nothing_change_nothing() -> None:
    jobs = random_jobs(2)
    silent = QueueScorer(hidden=np.ones((3, INPUTS + 1)), out=np.zeros(3))
    told = [requested(jobs)]
    plain = schedule_guided(jobs, 16, Decider(QueueScorer()), told)
    np.testing.assert_array_equal(schedule_guided(jobs, 16, Decider(silent), told), plain)


def hostile_scorers() -> st.SearchStrategy[QueueScorer]:
    """Scorers of every kind that care for one thing above all: of the job, of the queue or of all that wait."""
    signs = st.sampled_from([-50.0, 50.0, -LARGEST, LARGEST])

    def linear(read: int, sign: float) -> QueueScorer:
        return QueueScorer(np.eye(len(OF_THE_JOB))[read] * sign)

    def hidden(seed: int, units: int, kind: str, sign: float) -> QueueScorer:
        rng = np.random.default_rng(seed)
        reads = rng.normal(size=(units, INPUTS + 1)) * rng.choice([0.0, 0.1, 3.0], (units, INPUTS + 1))
        if kind == "mlp":
            reads[:, -1 - len(OF_THE_JOB) : -1] = 0.0
        attention = rng.normal(size=len(OF_THE_JOB)) * (kind == "attention")
        return QueueScorer(rng.normal(size=len(OF_THE_JOB)), reads, sign * rng.normal(size=units) / 5, attention)

    kinds = st.sampled_from(["mlp", "attention"])
    with_units = st.builds(hidden, st.integers(0, 10_000), st.integers(1, 8), kinds, signs)
    return st.builds(linear, st.integers(0, len(OF_THE_JOB) - 1), signs) | with_units


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), scorer=hostile_scorers())
def test_nobody_waits_longer_than_the_guard_allows(seed: int, scorer: QueueScorer) -> None:
    """However a scorer hates a job: once the guard calls, older jobs and one limit each stand before its start."""
    jobs = random_jobs(seed, 200)
    guard = Guard(6 * 3600.0, 0.5)
    start_ms = schedule_guided(jobs, 16, Decider(scorer, guard), [requested(jobs)])
    work = jobs.limit_ms * jobs.processors
    instants = np.unique(np.concatenate([jobs.submit_ms, start_ms]))
    waits_at = (jobs.submit_ms <= instants[:, None]) & (instants[:, None] < start_ms)
    called_ms = guard.base_s * 1000 + guard.backlog * (waits_at @ work).max() / 16
    longest_ms = jobs.limit_ms.max()
    for job in range(len(jobs)):
        called_at = jobs.submit_ms[job] + called_ms
        older = int((start_ms[:job] > called_at).sum())
        assert start_ms[job] <= called_at + (older + 1) * longest_ms


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), scorer=hostile_scorers(), late=st.booleans(), urgent=st.booleans())
def test_a_live_queue_is_guarded_whatever_the_scorer(
    seed: int, scorer: QueueScorer, late: bool, urgent: bool
) -> None:
    rng = np.random.default_rng(seed)
    waited_s = np.sort(rng.uniform(0, 86_400, 12))[::-1].copy()
    requested_s, processors = rng.uniform(60, 86_400, 12), rng.integers(1, 17, 12)
    guard = Guard(6 * 3600.0, 0.5)
    allowed_s = guard.base_s + guard.backlog * float(requested_s @ processors) / 16
    waited_s[0] = max(allowed_s + 1, waited_s[1]) if late else waited_s[0]
    wanted = np.arange(12) == 7 if urgent else np.zeros(12, np.bool_)
    queue = Queue(waited_s, requested_s, processors, rng.random(12), 8, 16, wanted)
    order = order_queue(scorer, guard, queue, RunForecasts.certain(requested_s * rng.random(12)))
    assert sorted(order) == list(range(12))
    expected = ([7] if urgent else []) + ([0] if waited_s[0] > allowed_s else [])
    assert order[: len(expected)].tolist() == expected


def test_without_a_guard_a_hated_job_waits_for_all_others() -> None:
    jobs = random_jobs(3, 120)
    weights = np.zeros(len(OF_THE_JOB))
    weights[OF_THE_JOB.index("share_of_machine")] = 50.0
    waits = {}
    for name, guard in (("none", None), ("strict", Guard(3600.0, 0.0))):
        start_ms = schedule_guided(jobs, 16, Decider(QueueScorer(weights), guard), [requested(jobs)])
        waits[name] = (start_ms - jobs.submit_ms)[jobs.processors == 16].max()
    assert waits["strict"] < 0.7 * waits["none"]


def test_what_an_operator_wants_goes_before_the_guard_and_all_scores() -> None:
    run_ms = np.array([30, 30, 1, 30]) * HOUR_MS
    jobs = Jobs(np.array([0, 1000, 2000, 3000]), run_ms, run_ms, run_ms, run_ms, np.ones(4, np.int64))
    told, urgent = [requested(jobs)], np.array([False, False, False, True])
    decider = Decider(QueueScorer(), Guard(3600.0, 0.0))
    assert np.argsort(schedule_guided(jobs, 1, decider, told)).tolist() == [0, 1, 2, 3]  # by the guard
    assert np.argsort(schedule_guided(jobs, 1, decider, told, urgent=urgent)).tolist() == [0, 3, 1, 2]


def test_what_is_told_changes_at_the_instants_named() -> None:
    jobs = random_jobs(4)
    truth, lie = RunForecasts.certain(jobs.run_ms / 1000), RunForecasts.certain(1e6 / (jobs.run_ms / 1000))
    decider = Decider("sjf", None)
    middle = int(np.median(jobs.submit_ms))
    both = schedule_guided(jobs, 16, decider, [truth, lie], switches=Switches(np.array([middle]), np.array([1])))
    alone = schedule_guided(jobs, 16, decider, [truth])
    before = alone < middle
    np.testing.assert_array_equal(both[before], alone[before])
    assert (both[~before] != alone[~before]).any()


def test_a_job_larger_than_the_machine_is_told() -> None:
    jobs = random_jobs(5)
    with pytest.raises(InputError, match="processors"):
        schedule_guided(jobs, 3, Decider(), [requested(jobs)])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_a_scorer_cannot_outbid_the_guard(value: float) -> None:
    hidden = np.ones((1, INPUTS + 1))
    with pytest.raises(UsageError, match="out"):
        QueueScorer(hidden=hidden, out=np.array([value]))
    with pytest.raises(UsageError, match="weights"):
        QueueScorer(np.full(len(OF_THE_JOB), value))


def test_weights_that_do_not_fit_are_told() -> None:
    with pytest.raises(UsageError, match="weights"):
        QueueScorer(np.zeros(3))
    for never in ((0.0, 1.0), (np.inf, 0.0), (np.nan, 0.0), (3600.0, -1.0), (3600.0, np.inf)):
        with pytest.raises(UsageError, match="bounds nothing"):
            Guard(*never)


def test_the_named_guards_differ_in_how_long_they_wait() -> None:
    assert GUARDS["E"].base_s < GUARDS["A"].base_s


@pytest.mark.parametrize("source", [0, 1])
def test_a_weighted_sum_is_of_what_is_read(source: int) -> None:
    jobs = random_jobs(6, 50)
    told = [requested(jobs), RunForecasts.certain(jobs.run_ms / 1000)]
    weights = np.random.default_rng(0).normal(size=len(OF_THE_JOB))
    plain, silent = QueueScorer(weights), QueueScorer(weights, np.zeros((1, INPUTS + 1)), np.zeros(1))
    switches = Switches(np.array([0]), np.array([source]))
    users = np.arange(50) % 5
    by_sum, by_units = (
        schedule_guided(jobs, 16, Decider(scorer), told, users=users, switches=switches)
        for scorer in (plain, silent)
    )
    np.testing.assert_array_equal(by_sum, by_units)
