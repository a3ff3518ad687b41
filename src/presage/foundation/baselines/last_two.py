"""Run times as the user's last two."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.baselines._base import Baseline
from presage.foundation.baselines._recent import ended_runs, recent_quantiles
from presage.foundation.view import numbers
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from presage.foundation.baselines._base import Floats, Rows
    from presage.foundation.view.examples import Examples

ESTIMATE = numbers.PLACE["run_estimate"]


class LastTwo(Baseline):
    """The mean of the user's last two run times, cut at the limit (Tsafrir, Etsion and Feitelson, 2007).

    The limit stands for a user's first job. The interval is how far the last jobs were from theirs.
    """

    name = "last-two"
    tasks = frozenset({Task.RUN})

    def _durations(self, examples: Examples, rows: Rows, task: Task) -> Floats:
        history = examples.history
        estimate_s = np.expm1(examples.x[rows, ESTIMATE].astype(np.float64))
        ended = ended_runs(history)
        ratio = history.run_s[ended] / examples.jobs["estimate_s"][ended]
        errors = recent_quantiles(history.end_s[ended], ratio, examples.questions.time_s[rows])
        low, high = (np.nan_to_num(errors[:, place], nan=1.0) for place in (0, 2))
        factor: Floats = np.stack([np.minimum(low, 1), np.ones(len(rows)), np.maximum(high, 1)], 1)
        return np.asarray(estimate_s[:, None] * factor)
