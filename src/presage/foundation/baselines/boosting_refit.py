"""Gradient boosting that is learned anew from the cluster itself as its log goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.baselines._base import Baseline
from presage.foundation.baselines.boosting import Boosting
from presage.foundation.baselines.similar import Similar
from presage.foundation.baselines.splits import split_rows
from presage.foundation.baselines.state_knn import StateKnn
from presage.foundation.view._replay import SUBMITTED
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.foundation.baselines._base import Floats, Rows
    from presage.foundation.view.examples import Examples


class BoostingRefit(Baseline):
    """Boosting on the cluster's own past, refitted each time when these shares of its jobs were submitted.

    A question is answered by the last fit before it, which learned from what was known then; the last eighth of
    that stops it. Questions before the first fit are answered without training. `fit` adds nothing: all that is
    learned comes from the log that is asked about.
    """

    name = "boosting-refit"
    tasks = frozenset({Task.WAIT, Task.RUN})
    knows_age = True

    def __init__(
        self,
        *,
        shares: Sequence[float] = (0.8, 0.85, 0.9, 0.95),
        intervals: bool = True,
        seed: int = 0,
    ) -> None:
        self._shares = shares
        self._intervals = intervals
        self._seed = seed

    def _durations(self, examples: Examples, rows: Rows, task: Task) -> Floats:
        untrained = StateKnn() if task is Task.WAIT else Similar()
        found = untrained.forecast(examples, rows, task)
        times_s = examples.questions.time_s
        submits = np.flatnonzero(examples.questions.kinds == SUBMITTED)
        cuts_s = [times_s[submits[int(len(submits) * share)]] for share in self._shares]
        for since_s, until_s in zip(cuts_s, [*cuts_s[1:], np.inf], strict=True):
            mine = np.flatnonzero((times_s[rows] >= since_s) & (times_s[rows] < until_s))
            learned, watched = split_rows(examples, task, since_s)
            if len(mine) and len(learned):
                boosting = Boosting(intervals=self._intervals, seed=self._seed)
                boosting.fit([(examples, learned)], task, (examples, watched))
                found[mine] = boosting.forecast(examples, rows[mine], task)
        return found
