"""Questions asked throughout a log, with all that the model reads and what then happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.view import numbers
from presage.foundation.view._replay import STILL_RUNS, STILL_WAITS, SUBMITTED, replay
from presage.foundation.view._tokens import fill_batch
from presage.foundation.view.seen import ANCHOR, Seen
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.foundation.view.jobs import JobHistory

    Floats = NDArray[np.float32]


ALL = slice(None)


@dataclass(frozen=True)
class Questions:
    """Which jobs are asked about, and when; in the order of time."""

    asked: NDArray[np.int64]
    time_s: NDArray[np.float64]
    kinds: NDArray[np.int32]

    @classmethod
    def merged(cls, *parts: Questions) -> Questions:
        """Return all questions in the order of time; at one instant those about known jobs come first."""
        asked, time_s, kinds = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("asked", "time_s", "kinds")
        )
        order = np.lexsort((asked, kinds == SUBMITTED, time_s))
        return cls(asked[order], time_s[order], kinds[order])


def at_submits(history: JobHistory, first: int = 0) -> Questions:
    """Ask about every job from `first` on as it is submitted."""
    asked = np.arange(first, len(history))
    return Questions(asked, history.facts["submit_s"][asked], np.full(len(asked), SUBMITTED, np.int32))


def in_between(history: JobHistory, share: float, rng: np.random.Generator, first: int = 0) -> Questions:
    """Ask about a share of the jobs once more at a random time of their wait, and of their run.

    Times are spread evenly over the logarithm of the age: jobs are as likely to be asked about after a minute as
    after a day.
    """
    parts = []
    submit_s, start_s, end_s = history.facts["submit_s"], history.start_s, history.end_s
    for kind, since_s, until_s in (
        (STILL_WAITS, submit_s, np.minimum(start_s, end_s)),
        (STILL_RUNS, start_s, end_s),
    ):
        with np.errstate(invalid="ignore"):
            span_s = until_s - since_s
        drawn = (
            (rng.random(len(history)) < share)
            & np.isfinite(span_s)
            & (span_s > 2)
            & (np.arange(len(history)) >= first)
        )
        rows = np.flatnonzero(drawn)
        age_s = np.expm1(rng.random(len(rows)) * np.log1p(span_s[rows]))
        parts.append(Questions(rows, since_s[rows] + age_s, np.full(len(rows), kind, np.int32)))
    return Questions.merged(*parts)


@dataclass(frozen=True)
class Examples:
    """What the model reads, a row for each question, and the jobs that the contexts point to."""

    history: JobHistory
    questions: Questions
    jobs: NDArray[np.void]
    x: Floats
    """Questions by numbers of `numbers.QUERY`."""
    waits: NDArray[np.int32]
    """Which jobs are the context for a wait; -1: none."""
    runs: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.x)

    def age_s(self, task: Task, rows: NDArray[np.int64] | slice = ALL) -> NDArray[np.float64]:
        """Return how long the jobs had waited (or run) when they were asked about; 0 at their submits."""
        kind = STILL_WAITS if task is Task.WAIT else STILL_RUNS
        asked, time_s = self.questions.asked[rows], self.questions.time_s[rows]
        since_s = self.history.facts["submit_s"][asked] if task is Task.WAIT else self.history.start_s[asked]
        return np.where(
            self.questions.kinds[rows] == kind, time_s - np.where(np.isfinite(since_s), since_s, 0), 0.0
        )

    def seen(self, rows: NDArray[np.int64], task: Task) -> Seen:
        """Return what the model sees of some questions."""
        contexts = self.waits if task is Task.WAIT else self.runs
        shape = (len(rows), contexts.shape[1])
        tokens = np.empty((*shape, len(numbers.TOKEN)), np.float32)
        outcomes, ends = np.empty(shape, np.float32), np.empty(shape, np.int32)
        asked, time_s = self.questions.asked, self.questions.time_s
        fill_batch(self.jobs, rows, asked, time_s, self.x, contexts, task is Task.WAIT, tokens, outcomes, ends)
        x = self.x[rows, : task.numbers]
        return Seen(
            task, x, x[:, ANCHOR[task]], tokens, contexts[rows] >= 0, outcomes, ends, self.age_s(task, rows)
        )


def examples_of(history: JobHistory, questions: Questions, first: int = 0) -> Examples:
    """Replay a history and return its examples. `questions` must ask about every submit from `first` on."""
    view = history.view()
    rows = len(questions.asked)
    x = np.zeros((rows, len(numbers.QUERY)), np.float32)
    waits = np.full((rows, numbers.WAIT_CONTEXT), -1, np.int32)
    runs = np.full((rows, numbers.RUN_CONTEXT), -1, np.int32)
    replay(
        view, history.start_s, history.end_s, history.outcome,
        np.argsort(history.start_s, kind="stable"), np.argsort(history.end_s, kind="stable"), first,
        questions.asked, questions.time_s, questions.kinds, x, waits, runs,
    )  # fmt: skip
    # Jobs before `first` were never asked about: their states are not known.
    for context in (waits, runs):
        context[(context >= 0) & (context < first)] = -1
    return Examples(history, questions, view.jobs, x, waits, runs)
