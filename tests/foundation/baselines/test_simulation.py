from __future__ import annotations

import numpy as np
import pytest

from presage.foundation.baselines.simulation import Simulation
from presage.foundation.view.examples import Examples, Questions, at_submits, examples_of, in_between
from presage.foundation.view.jobs import history_of
from presage.foundation.view.targets import targets_of
from presage.foundation.view.tasks import Task
from presage.policies import Policy
from presage.simulator.jobs import Jobs
from presage.simulator.pooled import schedule
from presage.testing import make_job, make_trace
from presage.traces import Trace


def predictable_log(jobs: int, processors: int, policy: str) -> Trace:
    """Return a log in which every user's jobs run for as long as they say, always the same."""
    rng = np.random.default_rng(5)
    submit_s = np.cumsum(rng.integers(1, 200, jobs)).astype(np.float64)
    user, cpus = rng.integers(0, 5, jobs), rng.integers(1, processors + 1, jobs)
    run_s = 100.0 * (1 + user)
    run_ms, submit_ms = ((column * 1000).astype(np.int64) for column in (run_s, submit_s))
    start_ms = schedule(Jobs(submit_ms, run_ms, run_ms, run_ms, run_ms, cpus), processors, Policy.parse(policy))
    rows = [
        make_job(
            submit_s[k], start_ms[k] / 1000 - submit_s[k], run_s[k], float(cpus[k]),
            user=f"u{user[k]}", limit_s=run_s[k], outcome="completed",
        )
        for k in range(jobs)
    ]  # fmt: skip
    return make_trace(*rows, cpus=processors)


def ask_about(trace: Trace) -> Examples:
    history = history_of(trace)
    later = in_between(history, 0.5, np.random.default_rng(1))
    return examples_of(history, Questions.merged(at_submits(history), later))


def test_a_cluster_that_does_what_is_simulated_is_foretold_exactly() -> None:
    examples = ask_about(predictable_log(150, 8, "fcfs"))
    rows = np.flatnonzero(targets_of(examples, Task.WAIT).usable)
    assert len(np.unique(examples.questions.kinds[rows])) == 2
    found = Simulation(policy="fcfs", draws=2).forecast(examples, rows, Task.WAIT)
    truth_s = targets_of(examples, Task.WAIT).outcome_s[rows]
    assert truth_s.max() > 1000
    assert found == pytest.approx(np.repeat(truth_s[:, None], 3, axis=1), abs=0.002)


def test_backfilling_is_foretold_but_for_what_comes_later() -> None:
    examples = ask_about(predictable_log(150, 8, "fcfs+easy"))
    rows = np.flatnonzero(targets_of(examples, Task.WAIT).usable)
    error_s = (
        Simulation(draws=1).forecast(examples, rows, Task.WAIT)[:, 1]
        - targets_of(examples, Task.WAIT).outcome_s[rows]
    )
    assert (np.abs(error_s) < 0.002).mean() > 0.5


def test_the_queue_ahead_is_waited_for() -> None:
    # One processor: the first job runs from 0 to 100, the second from 100 to 300, the third is asked about at 50.
    trace = make_trace(
        make_job(0, 0, 100, user="a", limit_s=100.0),
        make_job(10, 90, 200, user="b", limit_s=200.0),
        make_job(50, 250, 10, user="c", limit_s=10.0),
        cpus=1,
    )
    history = history_of(trace)
    examples = examples_of(history, at_submits(history))
    found = Simulation().forecast(examples, np.arange(3), Task.WAIT)
    assert found[:, 1].tolist() == [0, 90, 250]


def test_a_run_beyond_its_limit_ends_soon_and_a_machine_of_unknown_size_is_as_large_as_it_was_seen() -> None:
    trace = make_trace(
        make_job(0, 0, 1000, 4, user="a", limit_s=100.0), make_job(500, 500, 10, 4, user="b", limit_s=10.0)
    )
    history = history_of(trace)
    examples = examples_of(history, at_submits(history))
    assert Simulation().forecast(examples, np.array([1]), Task.WAIT)[0] == pytest.approx([60, 60, 60])
