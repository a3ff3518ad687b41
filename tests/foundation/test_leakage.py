"""Nothing that the model reads may depend on what was not known yet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from presage.foundation.view.examples import Examples, Questions, at_submits, examples_of, in_between
from presage.foundation.view.jobs import JobHistory, history_of
from presage.foundation.view.tasks import Task
from presage.traces import Trace

REQUEST = (
    "size", "limit_s", "gpus", "name_bits", "has_limit", "has_memory", "user", "queue", "group", "program", "name",
    "klass", "log_size", "log_limit", "log_memory", "log_gpus",
)  # fmt: skip
"""All that a job asks for and is called; together, because some follow from others."""


@pytest.fixture(scope="module")
def examples(busy_trace: Trace) -> Examples:
    """Questions about jobs that differ in everything."""
    rng = np.random.default_rng(5)
    jobs = len(busy_trace)

    def drawn(*values: object) -> pl.Series:
        return pl.Series([values[place] for place in rng.integers(0, len(values), jobs)])

    trace = busy_trace.with_jobs(
        busy_trace.jobs.with_columns(
            queue=drawn("short", "long", None),
            partition=drawn("cpu", "gpu"),
            group=drawn("physics", "chemistry", "biology"),
            executable=drawn("solve", "train"),
            name=drawn("run-1", "run-2", "sweep", "protein"),
            gpus_req=drawn(0.0, 1.0, 4.0),
            mem_req_bytes=drawn(None, 2**30, 2**34),
            limit_s=pl.when(drawn(True, True, False)).then("limit_s"),
        )
    )
    history = history_of(trace)
    later = in_between(history, 0.3, rng)
    return examples_of(history, Questions.merged(at_submits(history), later))


def scrambled(history: JobHistory, now_s: float, rng: np.random.Generator) -> JobHistory:
    """Return the history with every outcome unknown at `now_s`, and every later request, drawn anew."""
    facts = history.facts.copy()
    start_s, end_s, outcome = history.start_s.copy(), history.end_s.copy(), history.outcome.copy()
    unstarted = start_s >= now_s
    start_s[unstarted] = np.maximum(facts["submit_s"][unstarted], now_s) + rng.exponential(20_000, unstarted.sum())
    unended = (end_s >= now_s) | unstarted
    end_s[unended] = np.maximum(start_s[unended], now_s) + 1 + rng.exponential(20_000, unended.sum())
    outcome[unended] = rng.integers(-1, 6, unended.sum())
    later = facts["submit_s"] > now_s
    shuffled = rng.permutation(np.flatnonzero(later))
    for name in REQUEST:
        assert len(np.unique(facts[name][later])) > 1, f"all jobs have the same {name}: nothing would be tested"
        facts[name][later] = facts[name][shuffled]
    return replace(history, facts=facts, start_s=start_s, end_s=end_s, outcome=outcome)


def until(questions: Questions, now_s: float) -> Questions:
    kept = questions.time_s <= now_s
    return Questions(questions.asked[kept], questions.time_s[kept], questions.kinds[kept])


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_what_is_not_known_yet_changes_nothing(examples: Examples, share: float) -> None:
    history = examples.history
    now_s = float(history.facts["submit_s"][int(share * len(history))])
    other_history = scrambled(history, now_s, np.random.default_rng(7))
    asked = until(examples.questions, now_s)
    rows = len(asked.asked)
    # Later submits must be asked about too, so that the view is filled on.
    later = at_submits(other_history, int(asked.asked[asked.kinds == 0].max()) + 1)
    other = examples_of(other_history, Questions.merged(asked, later))

    assert (history.end_s >= now_s).sum() > 10, "nothing was unknown"
    np.testing.assert_array_equal(other.x[:rows], examples.x[:rows])
    np.testing.assert_array_equal(other.waits[:rows], examples.waits[:rows])
    np.testing.assert_array_equal(other.runs[:rows], examples.runs[:rows])
    last = np.arange(max(rows - 40, 0), rows)
    for task in Task:
        before, after = examples.seen(last, task), other.seen(last, task)
        np.testing.assert_array_equal(after.tokens, before.tokens)
        np.testing.assert_array_equal(after.outcomes, before.outcomes)
        np.testing.assert_array_equal(after.ends, before.ends)


def test_what_was_known_does_matter(examples: Examples) -> None:
    """The test above would pass if nothing were ever looked at."""
    history = examples.history
    half = len(history) // 2
    start_s = history.start_s.copy()
    start_s[:half] += 60.0
    moved = replace(history, start_s=start_s, end_s=history.end_s + 60.0)
    other = examples_of(moved, examples.questions)

    assert (other.x != examples.x).any(axis=1).mean() > 0.9
