"""Gradient boosting that has learned from other clusters and has never seen the one that it is asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.errors import InputError
from presage.foundation.baselines.boosting import Boosting
from presage.foundation.baselines.splits import WARM_UP, known_rows
from presage.foundation.view.examples import at_submits, examples_of
from presage.foundation.view.jobs import history_of
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.foundation.baselines._base import Part
    from presage.traces import Trace

JOBS_PER_LOG = 50_000
ROWS_PER_LOG = 20_000


class BoostingZeroShot(Boosting):
    """Boosting on the last jobs of some logs, each of which counts alike, for the given tasks.

    It is not among `BASELINES`, because it needs these logs. `fit` leaves it as it is: of the log that is asked
    about, nothing is learned. Raises InputError if the logs teach nothing of a task.
    """

    name = "boosting-zero-shot"

    def __init__(self, logs: Sequence[Trace], tasks: Sequence[Task], *, seed: int = 0) -> None:
        super().__init__(rows_per_part=ROWS_PER_LOG, seed=seed)
        histories = [history_of(log).latest(JOBS_PER_LOG) for log in logs]
        examples = [examples_of(history, at_submits(history)) for history in histories]
        for task in tasks:
            parts = [(each, known_rows(each, task, np.inf)[WARM_UP:]) for each in examples]
            if not any(len(rows) for _, rows in parts):
                raise InputError(
                    f"The logs to boost on teach no {task.value}s",
                    expected=f"a log that has them, of more than {WARM_UP} jobs that ran",
                )
            super().fit(parts, task)
            if task is Task.RUN:
                super().fit_failures(parts)

    def fit(self, parts: Sequence[Part], task: Task, validation: Part | None = None) -> None:
        """Learn nothing more."""

    def fit_failures(self, parts: Sequence[Part], validation: Part | None = None) -> None:
        """Learn nothing more."""
