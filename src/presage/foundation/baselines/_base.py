"""What a baseline promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from presage.errors import UsageError
from presage.foundation.baselines._quantiles import cut_at_limit, outlived
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from presage.foundation.view.examples import Examples

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]
    Part = tuple[Examples, Rows]
    """Some questions of one cluster."""


class Baseline(ABC):
    """Forecasts durations without the model.

    What is said of a question depends on what was known at its time alone: `examples.x` and the contexts are made
    so, and of the jobs themselves only starts and ends strictly before that time may be looked at. What is fitted
    depends on the parts that are given; it is the caller's part to give rows whose outcomes were known in time
    (`known_rows`). The same calls give the same numbers, on any machine with the same packages.

    A log of few jobs, of one user, or without limits gets an answer too.
    """

    name: ClassVar[str]
    """As registered."""
    tasks: ClassVar[frozenset[Task]]
    """The durations that it forecasts."""
    knows_age: ClassVar[bool] = False
    """Whether `_durations` takes into account how long a job has waited or run already."""

    def fit(  # noqa: B027  (most have nothing to learn)
        self, parts: Sequence[Part], task: Task, validation: Part | None = None
    ) -> None:
        """Learn from the given rows of one or more clusters, for one task; some have nothing to learn.

        `validation` are rows to stop at, no part of the others. Fitting again forgets what was learned before for
        the same task.
        """

    def forecast(self, examples: Examples, rows: Rows, task: Task) -> Floats:
        """Return (rows, 3): p10, p50 and p90 of the whole duration in seconds, finite and in ascending order.

        None is shorter than what a job has waited or run already. Runs are taken to end at their limits where
        there are any. Raises UsageError for a task that is not one of `tasks`, or that had to be fitted first.
        """
        if task not in self.tasks:
            raise UsageError(
                f"The baseline {self.name!r} does not forecast {task.value}s",
                expected=f"one of {', '.join(sorted(self.tasks)) or 'none'}",
                remedy="Take another baseline",
            )
        if not len(rows):
            return np.zeros((0, 3))
        age_s = examples.age_s(task)[rows]
        found = np.maximum.accumulate(np.maximum(self._durations(examples, rows, task), 0.0), axis=1)
        if not self.knows_age:
            found = outlived(found, age_s)
        if task is Task.RUN:
            found = cut_at_limit(found, examples.history.facts[examples.questions.asked[rows]])
        return np.maximum(found, age_s[:, None])

    @abstractmethod
    def _durations(self, examples: Examples, rows: Rows, task: Task) -> Floats:
        """Return (rows, 3) seconds for one of `tasks`; `forecast` brings them in order and cuts them."""


class ForecastsFailures(ABC):
    """Says as well how likely a job is not to complete, under the same promises as `Baseline`."""

    def fit_failures(  # noqa: B027  (there may be nothing to learn)
        self, parts: Sequence[Part], validation: Part | None = None
    ) -> None:
        """Learn from rows of jobs whose ends were known; some have nothing to learn."""

    @abstractmethod
    def failures(self, examples: Examples, rows: Rows) -> Floats:
        """Return (rows,): the probability of any known end but completion, from 0 to 1."""
