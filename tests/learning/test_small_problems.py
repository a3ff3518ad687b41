"""A problem so small that each learner must solve it: of many short and few long jobs the short ones go first."""

from __future__ import annotations

import numpy as np
import pytest

from presage.environments import Windows
from presage.learning.cases import Case, Told
from presage.learning.observed_rules import choose_by, play
from presage.learning.outcomes import Outcome
from presage.learning.search import Search, search_scorer
from presage.learning.static_rules import FIRST_COME
from presage.policies.queue_scorer import QueueScorer
from presage.policies.run_forecasts import RunForecasts
from presage.simulator.guided import Decider
from presage.simulator.jobs import jobs_of
from presage.testing import make_job, make_trace
from presage.traces import Trace

SHORT_S, LONG_S = 30.0, 900.0


def two_kinds(jobs: int, seed: int) -> Trace:
    """Jobs of one processor on two, of which three quarters are short, at a load of 0.95."""
    rng = np.random.default_rng(seed)
    run_s = np.where(rng.random(jobs) < 0.75, SHORT_S, LONG_S)
    submit_s = np.cumsum(rng.exponential(run_s.mean() / 2 / 0.95, jobs))
    rows = zip(submit_s.tolist(), run_s.tolist(), strict=True)
    return make_trace(*(make_job(submit, 0, run, limit_s=run) for submit, run in rows), cpus=2)


@pytest.mark.slow
def test_ppo_learns_from_nothing_to_take_the_short_jobs_first() -> None:
    pytest.importorskip("sb3_contrib")
    from presage.learning.reinforcement import PpoSettings, train_ppo

    trace = two_kinds(1500, seed=0)
    learn, held = Windows(trace, jobs=60, last=0.6), Windows(trace, jobs=60, first=0.6)
    settings = PpoSettings(decisions=3_000, imitate=None, machines=8, slots=32, steps=64, updates=3, rate=3e-3)
    trained = train_ppo(learn, settings)
    learned = trained.play(held, 32).slowdown
    first_come, shortest = (play(choose_by(rule), held, 32).slowdown for rule in ("fcfs", "sjf"))

    assert shortest < 0.5 * first_come
    assert learned == pytest.approx(shortest, rel=0.03)


def misled(seed: int) -> Case:
    """A case whose forecasts take short for long and long for short, while requests are right."""
    jobs = jobs_of(two_kinds(150, seed), kill=True)
    forecasts = RunForecasts.certain(SHORT_S * LONG_S / (jobs.run_ms / 1000))
    return Case(f"misled-{seed}", jobs, 2, np.zeros(len(jobs), np.int64), forecasts)


def test_the_search_learns_to_distrust_forecasts_that_mislead() -> None:
    search = Search(generations=25, population=10, spread=1.0, tail=0.0, keep=0.0)
    found = search_scorer([misled(seed) for seed in range(4)], search)
    held = [misled(seed) for seed in range(10, 16)]

    def slowdown(decider: Decider, told: Told) -> float:
        return float(np.mean([Outcome.of(case, case.run(decider, told)).slowdown for case in held]))

    shortest = slowdown(Decider("sjf", None), "requested")
    assert slowdown(Decider(QueueScorer()), "forecast") > 2 * slowdown(FIRST_COME, "requested")
    assert slowdown(Decider(found.scorer), "forecast") == pytest.approx(shortest, rel=0.03)
