"""Failures as those of the user's last jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.baselines._base import Baseline, ForecastsFailures
from presage.foundation.baselines._recent import ended_runs, recent_mean
from presage.foundation.view import numbers

if TYPE_CHECKING:
    from presage.foundation.baselines._base import Floats, Rows
    from presage.foundation.view.examples import Examples
    from presage.foundation.view.tasks import Task

FAILURES = numbers.PLACE["user_failures"]
NOTHING_KNOWN = 0.5


class UserEma(ForecastsFailures, Baseline):
    """A running mean over the user's jobs, each of which counts a fifth of what is left.

    A user's first job is as likely to fail as the last jobs of everybody.
    """

    name = "user-ema"
    tasks = frozenset()

    def failures(self, examples: Examples, rows: Rows) -> Floats:
        history = examples.history
        ended = ended_runs(history)
        ended = ended[history.outcome[ended] >= 0]
        failed = (history.outcome[ended] > 0).astype(np.float64)
        usual = recent_mean(history.end_s[ended], failed, examples.questions.time_s[rows], NOTHING_KNOWN)
        of_user = examples.x[rows, FAILURES].astype(np.float64)
        return np.clip(np.where(of_user >= 0, of_user, usual), 0.0, 1.0)

    def _durations(self, examples: Examples, rows: Rows, task: Task) -> Floats:
        return np.zeros((len(rows), 3))  # never asked for: it has no tasks
