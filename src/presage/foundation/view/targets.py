"""What then happened to the jobs that were asked about: the truth that forecasts are measured against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.view._replay import STILL_RUNS, STILL_WAITS, SUBMITTED
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.foundation.view.examples import Examples


@dataclass(frozen=True)
class Targets:
    """One row for each question; durations in seconds."""

    outcome_s: NDArray[np.float64]
    """The whole duration, or what was seen of it."""
    is_censored: NDArray[np.bool_]
    age_s: NDArray[np.float64]
    end: NDArray[np.int32]
    """How the job ended, as a place in OUTCOMES; -1: unknown."""
    usable: NDArray[np.bool_]
    """Whether anything at all is known."""


def targets_of(examples: Examples, task: Task) -> Targets:
    """Return the truth about all questions of `examples`.

    A job that left the queue, or that the log loses sight of, counts with what was seen of it. Jobs that ran for
    no time at all say nothing about waits or runs: they never got what they asked for. A log that does not tell
    when jobs started says nothing about any wait.
    """
    history, questions = examples.history, examples.questions
    asked, kinds = questions.asked, questions.kinds
    submit_s = history.facts["submit_s"][asked]
    start_s, end_s = history.start_s[asked], history.end_s[asked]
    last_s = _last_seen_s(examples)
    started, ended = np.isfinite(start_s), np.isfinite(end_s)
    ran = started & (end_s > start_s)
    if task is Task.WAIT:
        since_s, until_s, known = submit_s, np.where(started, start_s, np.where(ended, end_s, last_s)), started
        usable = np.isin(kinds, (SUBMITTED, STILL_WAITS)) & (ran | ~started) & history.has_waits
    else:
        since_s, until_s, known = np.where(started, start_s, last_s), np.where(ended, end_s, last_s), ended
        usable = np.isin(kinds, (SUBMITTED, STILL_RUNS)) & ran
    outcome_s = np.maximum(until_s - since_s, 0.0)
    age_s = examples.age_s(task)
    usable &= outcome_s >= age_s
    end = np.where(ended & started, history.outcome[asked], -1)
    return Targets(outcome_s, ~known, age_s, end.astype(np.int32), usable)


def _last_seen_s(examples: Examples) -> float:
    """Return the time of the last thing that the log knows of."""
    history = examples.history
    times = [history.facts["submit_s"], history.start_s, history.end_s]
    return float(max(np.max(each, where=np.isfinite(each), initial=0.0) for each in times))
