"""Waits as a simulation of the queue foretells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.baselines._base import Baseline
from presage.foundation.baselines._recent import WINDOW, ended_runs
from presage.foundation.view._replay import SUBMITTED
from presage.foundation.view.tasks import Task
from presage.policies import Policy
from presage.simulator.jobs import Jobs
from presage.simulator.pooled import schedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.foundation.baselines._base import Floats, Rows
    from presage.foundation.view.examples import Examples

    Ints = NDArray[np.int64]

DRAWS = 10
GRACE_S = 60.0
"""What is left of a run that has outlived both what was expected of it and its limit."""
_LONGEST_S = 100 * 365 * 86_400.0


class Simulation(Baseline):
    """From the jobs that run and wait on, first come first served with backfilling, or by another policy.

    Jobs run as long as the mean of their user's last two, cut at their limits; reservations count with the limits.
    The interval comes of draws in which they are as wrong as the last ones were, all jobs of a user alike. What
    is submitted later does not exist, so that the answer is short of the truth where later jobs may overtake.

    A question costs some milliseconds and more where thousands wait: ask about a sample.
    """

    name = "simulation"
    tasks = frozenset({Task.WAIT})
    knows_age = True

    def __init__(self, *, policy: str = "fcfs+easy", draws: int = DRAWS, seed: int = 0) -> None:
        self._policy = Policy.parse(policy)
        self._draws = draws
        self._seed = seed

    def _durations(self, examples: Examples, rows: Rows, task: Task) -> Floats:
        past = _Past.of(examples)
        found = np.empty((len(rows), 3))
        for place, row in enumerate(rows):
            found[place] = self._wait_s(_present(examples, int(row), past))
        return found

    def _wait_s(self, now: _Present) -> Floats:
        if now.known_wait_s is not None:
            return np.full(3, now.known_wait_s)
        median = now.wait_s(now.expected_s(), self._policy)
        rng = np.random.default_rng([self._seed, now.asked])
        drawn = [now.wait_s(now.drawn_s(rng), self._policy) for _ in range(self._draws)]
        low, high = np.quantile([*drawn, median], (0.1, 0.9))
        return np.array([min(low, median), median, max(high, median)])


@dataclass(frozen=True)
class _Past:
    """What became known in the course of the log: errors of expected run times, and how full the machine was."""

    error_known_s: Floats
    errors: Floats
    used_known_s: Floats
    most_used: Floats

    @classmethod
    def of(cls, examples: Examples) -> _Past:
        history = examples.history
        ended = ended_runs(history)
        started, left = np.isfinite(history.start_s), np.isfinite(history.start_s) & np.isfinite(history.end_s)
        times_s = np.concatenate([history.start_s[started], history.end_s[left]])
        change = np.concatenate([history.facts["size"][started], -history.facts["size"][left]])
        order = np.lexsort((change, times_s))  # at one instant those that leave come first
        return cls(
            history.end_s[ended],
            history.run_s[ended] / examples.jobs["estimate_s"][ended],
            times_s[order],
            np.maximum.accumulate(np.cumsum(change[order])),
        )

    def errors_at(self, time_s: float) -> Floats:
        """Return the last runs that had ended, as shares of what was expected of them, ascending."""
        count = int(np.searchsorted(self.error_known_s, time_s, side="left"))
        return np.sort(self.errors[max(count - WINDOW, 0) : count])

    def most_used_at(self, time_s: float) -> float:
        count = int(np.searchsorted(self.used_known_s, time_s, side="left"))
        return float(self.most_used[count - 1]) if count else 1.0


@dataclass(frozen=True)
class _Present:
    """The jobs that ran at the time of a question, and behind them those that waited, the asked one among them.

    Times are seconds from then on: submits and starts are negative.
    """

    asked: int
    place: int
    """Of the asked job among all."""
    known_wait_s: float | None
    """If it runs already."""
    running: int
    submit_s: Floats
    elapsed_s: Floats
    size: Ints
    user: Ints
    estimate_s: Floats
    limit_s: Floats
    """Infinite where there is none."""
    errors: Floats
    machine: int

    def expected_s(self) -> Floats:
        """Return how long each job will have run, if all goes as expected."""
        return np.where(self.estimate_s >= self.elapsed_s, self.estimate_s, self._last_s())

    def drawn_s(self, rng: np.random.Generator) -> Floats:
        """Return how long each job will have run, with errors as the last ones were."""
        if not len(self.errors):
            return self.expected_s()
        users, of = np.unique(self.user, return_inverse=True)
        chance = rng.random(len(users))[of]
        gone = np.searchsorted(self.errors, self.elapsed_s / self.estimate_s, side="left")
        left = len(self.errors) - gone
        at = np.minimum(gone + (chance * left).astype(np.int64), len(self.errors) - 1)
        run_s = np.minimum(self.errors[at] * self.estimate_s, self.limit_s)
        return np.where((left > 0) & (run_s >= self.elapsed_s), run_s, self._last_s())

    def wait_s(self, run_s: Floats, policy: Policy) -> float:
        """Return how long the asked job will have waited, if jobs run for so long."""
        start_ms = schedule(self._jobs(run_s), self.machine, policy)
        behind_filler = self.place + (1 if self._idle else 0)
        return float(start_ms[behind_filler]) / 1000 - float(self.submit_s[self.place])

    @property
    def _idle(self) -> int:
        return self.machine - int(self.size[: self.running].sum())

    def _last_s(self) -> Floats:
        """Return how long jobs run that outlived what was expected: to their limit, or a little longer."""
        waits = np.minimum(self.estimate_s, self.limit_s)
        runs = np.where(
            np.isfinite(self.limit_s) & (self.limit_s >= self.elapsed_s), self.limit_s, self.elapsed_s + GRACE_S
        )
        return np.where(np.arange(len(self.size)) < self.running, runs, waits)

    def _jobs(self, run_s: Floats) -> Jobs:
        """Return the jobs for an empty machine, which the running ones fill first, with one more that idles.

        All these are submitted before anything else, so that nothing else can start before now.
        """
        count = self.running
        plan_s = np.minimum(np.maximum(run_s, np.where(np.isfinite(self.limit_s), self.limit_s, 0)), _LONGEST_S)
        earliest_s = float(min(self.submit_s.min(), -self.elapsed_s.max()))
        first_s = earliest_s - float(plan_s.max()) - 1.0
        earlier_s = np.where(np.arange(len(run_s)) < count, -self.elapsed_s - first_s, 0.0)
        submit_s = np.where(np.arange(len(run_s)) < count, first_s, self.submit_s)
        columns = [submit_s, run_s + earlier_s, plan_s + earlier_s]
        size = self.size
        if self._idle:
            columns = [np.insert(c, count, v) for c, v in zip(columns, (first_s, -first_s, -first_s), strict=True)]
            size = np.insert(size, count, self._idle)
        submit_ms, run_ms, plan_ms = (np.round(column * 1000).astype(np.int64) for column in columns)
        return Jobs(submit_ms, np.maximum(run_ms, 1), plan_ms, plan_ms, plan_ms, size)


def _present(examples: Examples, row: int, past: _Past) -> _Present:
    history, questions = examples.history, examples.questions
    asked, now_s = int(questions.asked[row]), float(questions.time_s[row])
    submit_s = history.facts["submit_s"]
    is_new = questions.kinds[row] == SUBMITTED
    known = asked if is_new else int(np.searchsorted(submit_s, now_s, side="left"))
    start_s, end_s = history.start_s[:known], history.end_s[:known]
    lives = end_s >= now_s
    runs, waits = np.flatnonzero(lives & (start_s < now_s)), np.flatnonzero(lives & ~(start_s < now_s))
    started = asked < known and start_s[asked] < now_s
    queue = np.append(waits, asked) if is_new else waits
    jobs = np.concatenate([runs, queue])
    facts = history.facts[jobs]
    size = np.maximum(np.ceil(facts["size"]), 1).astype(np.int64)
    machine = history.size if history.size is not None else past.most_used_at(now_s)
    held = int(size[: len(runs)].sum())
    return _Present(
        asked=asked,
        place=int(np.flatnonzero(jobs == asked)[0]),
        known_wait_s=float(start_s[asked] - submit_s[asked]) if started else None,
        running=len(runs),
        submit_s=facts["submit_s"] - now_s,
        elapsed_s=np.concatenate([now_s - start_s[runs], np.zeros(len(queue))]),
        size=size,
        user=facts["user"].astype(np.int64),
        estimate_s=examples.jobs["estimate_s"][jobs],
        limit_s=np.where(facts["has_limit"] > 0, facts["limit_s"], np.inf),
        errors=past.errors_at(now_s),
        machine=max(int(np.ceil(machine)), held, int(size.max())),
    )
