"""The environment of backfilling against the simulator, and a queue worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from presage.environments import BACKFILL_FEATURES, FEATURES, Backfill, BackfillVector, Windows
from presage.errors import PresageError, UsageError
from presage.policies import Policy
from presage.simulator import jobs_of
from presage.simulator.pooled import schedule
from presage.testing import make_job, make_trace
from presage.traces import Trace
from presage.traces.workloads import make_model
from tests.environments.episodes import Fixed


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_model("lublin").generate(600, seed=3)


def starts_of(environment: BackfillVector, nobody: bool) -> np.ndarray:
    """Return the starts of an episode of one machine in which the first possible job, or nobody, is chosen."""
    _, infos = environment.reset(seed=0)
    done = np.zeros(1, bool)
    while not done[0]:
        chosen = -1 if nobody else int(infos["action_mask"][0].argmax())
        _, _, done, _, infos = environment.step(np.array([chosen % environment.single_action_space.n]))
    return environment.start_ms(0)


@pytest.mark.parametrize("order", ["fcfs", "sjf", "f1"])
@pytest.mark.parametrize("nobody", [False, True])
def test_the_first_possible_job_is_easy_and_nobody_is_none(trace: Trace, order: str, nobody: bool) -> None:
    environment = BackfillVector(Windows(trace, jobs=600), 1, order=order, slots=600, autoreset=False)
    policy = Policy.parse(order if nobody else f"{order}+easy")
    jobs = jobs_of(trace, kill=True)

    np.testing.assert_array_equal(starts_of(environment, nobody), schedule(jobs, 256, policy))


def test_gymnasium_finds_no_fault(trace: Trace) -> None:
    environment = gymnasium.make("presage/Backfill-v1", workload=Windows(trace, jobs=64))

    check_env(environment.unwrapped)


def test_what_is_seen_behind_a_job_that_does_not_fit() -> None:
    """8 of 10 processors are busy until 100 s; the first in the queue wants 9, so 1 is left over beside it."""
    jobs = [
        make_job(0, 0, 100, 8, limit_s=100.0), make_job(40, 0, 60, 9, limit_s=60.0),
        make_job(50, 0, 50, 2, limit_s=50.0), make_job(50, 0, 51, 1, limit_s=51.0),
        make_job(50, 0, 51, 2, limit_s=51.0),
    ]  # fmt: skip
    environment = Backfill(Windows(make_trace(*jobs, cpus=10), jobs=5), slots=6)
    seen, info = environment.reset(seed=0)
    column = {name: seen[:, place] for place, name in enumerate(BACKFILL_FEATURES)}

    assert info["action_mask"].tolist() == [False, True, True, False, False, False, True]
    assert column["is_first"].tolist() == [1, 0, 0, 0, 0, 0]
    assert column["ends_before"].tolist() == [0, 1, 0, 0, 0, 0]
    assert column["left_over"][:4] == pytest.approx(0.1)
    np.testing.assert_allclose(column["reserved_in"][:4] * 16, np.log1p(50), rtol=1e-5)

    _, _, done, _, info = environment.step(2)
    assert done, "from here on there is one way only: the first at 100 s, the others when it has ended"
    assert info["mean_wait_s"] == np.mean([0, 60, 110, 0, 110])


def test_nobody_waits_for_the_next_event_only() -> None:
    """At 50 s nobody is chosen; at 60 s, when another job comes, there is a choice again."""
    jobs = [
        make_job(0, 0, 100, 8, limit_s=100.0), make_job(40, 0, 60, 9, limit_s=60.0),
        make_job(50, 0, 5, 1, limit_s=5.0), make_job(60, 0, 5, 1, limit_s=5.0),
    ]  # fmt: skip
    environment = BackfillVector(Windows(make_trace(*jobs, cpus=10), jobs=4), 1, slots=4, autoreset=False)
    environment.reset(seed=0)
    environment.step(np.array([4]))
    environment.step(np.array([1]))

    assert environment.start_ms(0).tolist() == [0, -1, 60_000, -1]


def test_orders_that_change_are_told(trace: Trace) -> None:
    with pytest.raises(UsageError, match="'lxf' changes while jobs wait"):
        Backfill(Windows(trace), order="lxf")
    with pytest.raises(PresageError, match="no ordering rule named 'fcsf'"):
        Backfill(Windows(trace), order="fcsf")


def test_jobs_with_an_override_stand_first_and_are_never_asked_about() -> None:
    """The long job comes before the shorter one that an order by length would prefer."""
    jobs = [make_job(0, 0, 100, 8, limit_s=100.0), *(make_job(10, 0, run, 9, limit_s=run) for run in (60.0, 20.0))]
    small = [make_job(20, 0, 10, 1, limit_s=10.0), make_job(20, 0, 500, 2, limit_s=500.0)]
    episode = Windows(make_trace(*jobs, *small, cpus=10), jobs=5).draw(np.random.default_rng(0))
    flagged = replace(episode, override=np.array([False, True, False, False, False]))
    environment = BackfillVector(Fixed(flagged), 1, order="sjf", slots=5, autoreset=False)
    seen, infos = environment.reset(seed=0)

    assert seen[0, 0, FEATURES.index("estimate")] * 16 == pytest.approx(np.log1p(60))
    assert infos["action_mask"][0].tolist() == [False, True, False, False, False, True]
    environment.step(np.array([1]))
    assert environment.start_ms(0).tolist() == [0, 100_000, 160_000, 20_000, 180_000]
