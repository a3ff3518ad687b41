"""The contract of a baseline of the foundation model as tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from presage.errors import UsageError
from presage.foundation.baselines import BASELINES, Baseline, ForecastsFailures, known_rows, split_rows
from presage.foundation.view.examples import Examples, Questions, at_submits, examples_of, in_between
from presage.foundation.view.jobs import JobHistory, history_of
from presage.foundation.view.tasks import Task
from presage.policies import Policy
from presage.simulator.jobs import Jobs
from presage.simulator.pooled import schedule
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace

PROCESSORS = 16
Answers = dict[str, NDArray[np.float64]]


class BaselineContract:
    """What every baseline must promise: sound numbers, nothing from the future, an answer for small logs too."""

    name: ClassVar[str]
    """The registered name."""
    settings: ClassVar[dict[str, Any]] = {}
    """Arguments under which the contract is tested."""
    jobs: ClassVar[int] = 400

    def make(self) -> Baseline:
        """Return the baseline, not fitted yet."""
        return BASELINES.get(self.name)(**self.settings)

    def fitted(self, examples: Examples, until_s: float) -> Baseline:
        """Return the baseline after it has learned from all that was known before `until_s`."""
        baseline = self.make()
        for task in sorted(baseline.tasks):
            learned, watched = split_rows(examples, task, until_s)
            baseline.fit([(examples, learned)], task, (examples, watched))
        if isinstance(baseline, ForecastsFailures):
            baseline.fit_failures([(examples, known_rows(examples, Task.RUN, until_s))])
        return baseline

    def answers(self, baseline: Baseline, examples: Examples, rows: NDArray[np.int64]) -> Answers:
        """Return all that the baseline says of some questions."""
        said = {task.value: baseline.forecast(examples, rows, task) for task in sorted(baseline.tasks)}
        if isinstance(baseline, ForecastsFailures):
            said["failures"] = baseline.failures(examples, rows)
        return said

    def test_it_is_registered_under_its_name(self) -> None:
        assert self.make().name == self.name

    def test_forecasts_are_finite_ordered_and_as_long_as_the_age(self) -> None:
        examples = make_examples(make_log(self.jobs))
        baseline, rows = self.fitted(examples, _time_at(examples, 0.6)), np.arange(len(examples))
        for task in baseline.tasks:
            found = baseline.forecast(examples, rows, task)
            assert found.shape == (len(rows), 3)
            assert np.isfinite(found).all()
            assert (found >= 0).all()
            assert (np.diff(found, axis=1) >= 0).all()
            assert (found >= examples.age_s(task)[:, None]).all()
            assert baseline.forecast(examples, rows[:0], task).shape == (0, 3)
        if isinstance(baseline, ForecastsFailures):
            chances = baseline.failures(examples, rows)
            assert chances.shape == (len(rows),)
            assert ((chances >= 0) & (chances <= 1)).all()
            assert baseline.failures(examples, rows[:0]).shape == (0,)

    def test_medians_of_runs_keep_to_the_limits(self) -> None:
        examples = make_examples(make_log(self.jobs))
        baseline, rows = self.fitted(examples, _time_at(examples, 0.6)), np.arange(len(examples))
        if Task.RUN not in baseline.tasks:
            pytest.skip("it forecasts no run times")
        limit_s = examples.history.facts["limit_s"][examples.questions.asked]
        median = baseline.forecast(examples, rows, Task.RUN)[:, 1]
        assert (median <= np.maximum(limit_s, examples.age_s(Task.RUN)) + 1e-6).all()

    @pytest.mark.parametrize("share", [0.65, 0.83, 0.97])
    def test_what_is_not_known_yet_has_no_influence(self, share: float) -> None:
        history = history_of(make_log(self.jobs))
        asked = int(share * len(history))
        now_s = float(history.facts["submit_s"][asked])
        questions = Questions.merged(at_submits(history), _asked_until(history, now_s))
        plain = examples_of(history, questions)
        other = examples_of(_another_future(history, asked, now_s), questions)
        rows = np.flatnonzero((questions.time_s <= now_s) & (questions.asked <= asked))
        split_s = _time_at(plain, 0.6)
        said, again = (self.answers(self.fitted(each, split_s), each, rows) for each in (plain, other))
        for what, numbers in said.items():
            np.testing.assert_array_equal(numbers, again[what], err_msg=what)

    def test_the_same_question_gets_the_same_answer_in_any_company(self) -> None:
        examples = make_examples(make_log(self.jobs))
        rows, split_s = np.arange(0, len(examples), 7), _time_at(examples, 0.6)
        said = self.answers(self.fitted(examples, split_s), examples, rows)
        again = self.answers(self.fitted(examples, split_s), examples, rows[::-2])
        for what, numbers in said.items():
            np.testing.assert_array_equal(numbers[::-2], again[what], err_msg=what)

    @pytest.mark.parametrize(
        "log",
        [
            {"jobs": 20},
            {"users": 1},
            {"limits": False},
            {"processors": None},
            {"jobs": 20, "users": 1, "limits": False},
        ],
        ids=str,
    )
    def test_meagre_logs_get_an_answer(self, log: dict[str, Any]) -> None:
        examples = make_examples(make_log(**{"jobs": 120, **log}))
        baseline = self.fitted(examples, _time_at(examples, 0.8))
        for numbers in self.answers(baseline, examples, np.arange(len(examples))).values():
            assert np.isfinite(numbers).all()
            assert (numbers >= 0).all()

    def test_it_refuses_what_it_does_not_forecast(self) -> None:
        examples = make_examples(make_log(20))
        for task in set(Task) - self.make().tasks:
            with pytest.raises(UsageError, match=f"does not forecast {task.value}s"):
                self.make().forecast(examples, np.arange(3), task)


def make_log(
    jobs: int = 400,
    *,
    users: int = 6,
    limits: bool = True,
    processors: int | None = PROCESSORS,
    policy: str = "fcfs+easy",
    seed: int = 3,
) -> Trace:
    """Return a log of a busy small machine, with failures, jobs that left the queue, and some that run still."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, users, jobs)
    submit_s = np.cumsum(rng.exponential(400, jobs)).round()
    cpus = 2 ** rng.integers(0, 5, jobs)
    limit_s = 600.0 * 2 ** rng.integers(0, 5, jobs)
    run_s = np.maximum(limit_s * np.minimum(rng.lognormal(-1.5 + 0.2 * user, 0.6), 1), 5).round()
    submit_ms, run_ms, limit_ms = ((column * 1000).astype(np.int64) for column in (submit_s, run_s, limit_s))
    table = Jobs(submit_ms, run_ms, limit_ms, limit_ms, limit_ms, cpus.astype(np.int64))
    start_ms = schedule(table, PROCESSORS, Policy.parse(policy))
    rows = []
    for index in range(jobs):
        wait_s = start_ms[index] / 1000 - submit_s[index]
        outcome = "completed" if rng.random() < 0.5 + 0.08 * user[index] else "failed"
        job = make_job(
            submit_s[index], wait_s, run_s[index], float(cpus[index]),
            user=f"u{user[index]}", queue="short" if limit_s[index] < 3000 else "long", outcome=outcome,
        )  # fmt: skip
        if limits:
            job["limit_s"] = limit_s[index]
        if wait_s > 60 and rng.random() < 0.05:
            job |= {"outcome": "cancelled", "start_ms": None, "wait_s": None, "run_s": None}
        elif index > jobs - 5:
            job |= {"outcome": "running", "end_ms": None, "run_s": None}
        rows.append(job)
    return make_trace(*rows, cpus=processors)


def make_examples(trace: Trace) -> Examples:
    """Return questions about every submit and about some jobs that wait or run already."""
    history = history_of(trace)
    later = in_between(history, 0.3, np.random.default_rng(0))
    return examples_of(history, Questions.merged(at_submits(history), later))


def _time_at(examples: Examples, share: float) -> float:
    submits = np.unique(examples.history.facts["submit_s"])
    return float(submits[int(share * len(submits))])


def _asked_until(history: JobHistory, until_s: float) -> Questions:
    later = in_between(history, 0.3, np.random.default_rng(0))
    kept = later.time_s <= until_s
    return Questions(later.asked[kept], later.time_s[kept], later.kinds[kept])


def _another_future(history: JobHistory, asked: int, now_s: float) -> JobHistory:
    """Return a history that is the same until `now_s`, and of which nothing later is left as it was."""
    rng = np.random.default_rng(8)
    count, at = len(history), np.arange(len(history))
    submit_s = history.facts["submit_s"]
    unstarted = (history.start_s >= now_s) & (history.end_s >= now_s)
    unended = history.end_s >= now_s
    start_s = np.maximum(submit_s, now_s) + rng.exponential(5000, count)
    start_s = np.where(unstarted, np.where(rng.random(count) < 0.1, np.inf, start_s), history.start_s)
    begun_s = np.where(np.isfinite(start_s), start_s, np.maximum(submit_s, now_s))
    end_s = np.where(unended, np.maximum(begun_s, now_s) + rng.exponential(9000, count), history.end_s)
    facts = history.facts.copy()
    facts[at > asked] = facts[rng.permutation(at[at > asked])]
    facts["submit_s"] = submit_s
    outcome = np.where(unended, rng.integers(-1, 6, count), history.outcome).astype(np.int32)
    return replace(history, facts=facts, start_s=start_s, end_s=end_s, outcome=outcome)
