"""The environment of orders against the simulator: a rule that chooses in it makes the simulator's schedule."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from presage.environments import FEATURES, BatchOrder, BatchOrderVector, Mixed, Objective, Windows
from presage.errors import InputError, PresageError, UsageError
from presage.policies import Policy
from presage.simulator import jobs_of, measure
from presage.simulator.pooled import schedule
from presage.testing import make_job, make_trace
from presage.traces import Trace
from presage.traces.workloads import make_model

SCORES: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "fcfs": lambda seen: np.arange(len(seen), dtype=np.float64),
    "sjf": lambda seen: seen[:, FEATURES.index("estimate")],
    "saf": lambda seen: seen[:, FEATURES.index("area")],
}


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_model("lublin").generate(600, seed=3)


def play(environment: BatchOrder, rule: str, seed: int = 0) -> tuple[float, dict[str, float]]:
    seen, info = environment.reset(seed=seed)
    total, done = 0.0, False
    while not done:
        scores = np.where(info["action_mask"], SCORES[rule](seen.astype(np.float64)), np.inf)
        seen, reward, done, _, info = environment.step(int(np.argmin(scores)))
        total += reward
    return total, info


@pytest.mark.parametrize(
    ("semantics", "backfill", "peer"),
    [
        ("standard", "order", "instant"), ("standard", "none", "instant"),
        ("commit", "arrival", "commit"), ("commit", "none", "commit"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rule", SCORES)
def test_a_rule_makes_the_schedule_of_the_simulator(
    trace: Trace, rule: str, semantics: str, backfill: str, peer: str
) -> None:
    environment = BatchOrder(Windows(trace, jobs=600), slots=600, semantics=semantics, backfill=backfill)
    total, info = play(environment, rule)
    jobs = jobs_of(trace, kill=True)
    policy = Policy.parse(rule if backfill == "none" else f"{rule}+easy")
    expected = measure(jobs, schedule(jobs, 256, policy, peer), 256)

    assert info["mean_wait_s"] == pytest.approx(expected.mean_wait_s, rel=1e-9)
    assert info["max_wait_s"] == expected.max_wait_s
    assert total == pytest.approx(-expected.mean_bounded_slowdown)


def test_gymnasium_finds_no_fault(trace: Trace) -> None:
    environment = gymnasium.make("presage/BatchOrder-v1", workload=Windows(trace, jobs=64))

    check_env(environment.unwrapped)


def test_machines_side_by_side_are_those_one_by_one(trace: Trace) -> None:
    """The same seeds and the first possible choice: the same rewards, whether alone or among others."""
    workload = Windows(trace, jobs=100)
    together = BatchOrderVector(workload, 3, autoreset=True)
    _, info = together.reset(seed=5)
    totals, ended = np.zeros(3), np.zeros(3, bool)
    while not ended.all():
        _, rewards, done, _, info = together.step(info["action_mask"].argmax(1))
        totals += np.where(ended, 0, rewards)
        ended |= done

    alone = [play(BatchOrder(workload), "fcfs", seed=5 + k)[0] for k in range(3)]
    np.testing.assert_allclose(totals, alone)


def test_what_is_seen_of_a_small_queue() -> None:
    """One job of 8 holds most of 10 processors; three more wait at 50 s, of which one fits."""
    jobs = [
        make_job(0, 0, 100, 8, limit_s=100.0), make_job(40, 0, 60, 4, limit_s=60.0),
        make_job(50, 0, 10, 2, limit_s=10.0), make_job(50, 0, 10, 9, limit_s=10.0),
    ]  # fmt: skip
    environment = BatchOrder(Windows(make_trace(*jobs, cpus=10), jobs=4), slots=5)
    seen, info = environment.reset(seed=0)
    column = {name: seen[:, place] for place, name in enumerate(FEATURES)}

    assert info["action_mask"].tolist() == [True, True, True, False, False]
    np.testing.assert_allclose(column["waited"][:3] * 16, np.log1p([10, 0, 0]), rtol=1e-5)
    np.testing.assert_allclose(column["estimate"][:3] * 16, np.log1p([60, 10, 10]), rtol=1e-5)
    np.testing.assert_allclose(column["size"][:3], [0.4, 0.2, 0.9], rtol=1e-6)
    assert column["fits"].tolist() == [0, 1, 0, 0, 0]
    assert column["free"][0] == pytest.approx(0.2)
    assert column["is_there"].tolist() == [1, 1, 1, 0, 0]


def test_behind_a_reservation_only_jobs_that_do_not_delay_it_may_be_chosen() -> None:
    """The job of 4 is chosen and cannot start before 100 s: of the others one ends by then, one is too long."""
    jobs = [
        make_job(0, 0, 100, 8, limit_s=100.0), make_job(40, 0, 60, 9, limit_s=60.0),
        make_job(50, 0, 10, 1, limit_s=10.0), make_job(50, 0, 500, 1, limit_s=500.0),
        make_job(50, 0, 20, 1, limit_s=20.0), make_job(50, 0, 900, 2, limit_s=900.0),
    ]  # fmt: skip
    environment = BatchOrder(Windows(make_trace(*jobs, cpus=10), jobs=6), slots=6)
    environment.reset(seed=0)
    _, _, _, _, info = environment.step(0)

    assert info["action_mask"].tolist() == [False, True, True, True, False, False]


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("bounded_slowdown", -1),
        ("wait", -1),
        ("response=2", -1),
        ("utilization", 1),
        ("throughput", 1),
        ("fairness", 1),
    ],
)
def test_rewards_have_the_sign_of_what_they_measure(trace: Trace, text: str, sign: int) -> None:
    total, _ = play(BatchOrder(Windows(trace, jobs=64), objective=text), "fcfs")

    assert sign * total > 0


def test_users_that_are_not_in_an_episode_do_not_count_as_unfairly_treated() -> None:
    windows = Windows(make_model("lublin", {"users": 40}).generate(500, seed=1), jobs=32)
    episode = windows.draw(np.random.default_rng(0))
    assert len(np.unique(episode.users)) <= episode.users.max()

    assert Objective.parse("fairness").bonus(episode, episode.jobs.submit_ms) == pytest.approx(1.0)


def test_a_mixture_is_the_sum_of_its_parts(trace: Trace) -> None:
    parts = [
        play(BatchOrder(Windows(trace, jobs=64), objective=text), "sjf")[0] for text in ("wait=0.5", "fairness=3")
    ]
    whole, _ = play(BatchOrder(Windows(trace, jobs=64), objective="wait=0.5,fairness=3"), "sjf")

    assert whole == pytest.approx(sum(parts))


def test_deadlines_that_are_missed_are_counted(trace: Trace) -> None:
    workload = Windows(trace, jobs=64, deadline_factor=0.0)
    total, _ = play(BatchOrder(workload, objective="deadline_misses"), "fcfs")

    assert total == pytest.approx(-1)


def test_load_is_what_was_asked_for(trace: Trace) -> None:
    episode = Windows(trace, jobs=200, load=0.7).draw(np.random.default_rng(1))
    jobs = episode.jobs
    span_ms = jobs.submit_ms[-1] - jobs.submit_ms[0]

    assert (jobs.run_ms * jobs.processors).sum() / (episode.processors * span_ms) == pytest.approx(0.7, rel=1e-3)


@pytest.mark.parametrize("action", [-1, 10**9])
def test_an_impossible_choice_counts_as_the_first_possible_one(trace: Trace, action: int) -> None:
    environment = BatchOrder(Windows(trace, jobs=64), slots=16)
    environment.reset(seed=0)
    chosen = [environment.step(action)[1] for _ in range(30)]
    _, info = environment.reset(seed=0)
    first = []
    for _ in range(30):
        _, reward, _, _, info = environment.step(int(info["action_mask"].argmax()))
        first.append(reward)

    assert chosen == first


def test_nothing_happens_after_the_end(trace: Trace) -> None:
    environment = BatchOrder(Windows(trace, jobs=64), objective="wait=1,fairness=1")
    play(environment, "fcfs")
    _, reward, done, _, _ = environment.step(0)

    assert done
    assert reward == 0


def test_bad_settings_are_told(trace: Trace) -> None:
    with pytest.raises(InputError, match="600 jobs for episodes of 700"):
        Windows(trace, jobs=700)
    with pytest.raises(UsageError, match="cannot have 1 jobs"):
        Windows(trace, jobs=1)
    with pytest.raises(UsageError, match="at a load of 0"):
        Windows(trace, load=0)
    with pytest.raises(UsageError, match="64 machines with 0 rows"):
        BatchOrderVector(Windows(trace, jobs=64), slots=0)
    with pytest.raises(UsageError, match="no sources to mix"):
        Mixed([])
    with pytest.raises(UsageError, match="no semantics 'lazy'"):
        BatchOrder(Windows(trace), semantics="lazy")
    with pytest.raises(UsageError, match="no backfilling 'order'"):
        BatchOrder(Windows(trace), semantics="commit", backfill="order")
    with pytest.raises(PresageError, match="no objective named 'waits'"):
        Objective.parse("waits")
    with pytest.raises(UsageError, match="'much' of wait is no number"):
        Objective.parse("wait=much")


def test_episodes_of_several_traces_are_mixed(trace: Trace) -> None:
    mixed = Mixed([Windows(trace, jobs=50), Windows(trace, jobs=80)])
    rng = np.random.default_rng(0)

    assert {len(mixed.draw(rng).jobs) for _ in range(20)} == {50, 80}
    assert mixed.jobs == 80
