"""Run times as their users requested them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.baselines._base import Baseline
from presage.foundation.baselines._recent import ended_runs, recent_quantiles
from presage.foundation.view.jobs import DEFAULT_LIMIT_S
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from presage.foundation.baselines._base import Floats, Rows
    from presage.foundation.view.examples import Examples


class Requested(Baseline):
    """The median is the limit itself, the interval is what the last jobs used of theirs.

    A job without a limit is taken to run as the last jobs did, whatever they asked for.
    """

    name = "requested"
    tasks = frozenset({Task.RUN})

    def _durations(self, examples: Examples, rows: Rows, task: Task) -> Floats:
        history, at_s = examples.history, examples.questions.time_s[rows]
        facts = history.facts[examples.questions.asked[rows]]
        ended = ended_runs(history)
        limited = ended[history.facts["has_limit"][ended] > 0]
        shares = history.run_s[limited] / history.facts["limit_s"][limited]
        use = recent_quantiles(history.end_s[limited], shares, at_s)
        low, high = np.nan_to_num(use[:, 0]), np.nan_to_num(use[:, 2])
        found = facts["limit_s"][:, None] * np.stack(
            [np.minimum(low, 1), np.ones(len(rows)), np.maximum(high, 1)], 1
        )
        runs = recent_quantiles(history.end_s[ended], history.run_s[ended], at_s)
        unheard_of = np.array([0.0, DEFAULT_LIMIT_S, DEFAULT_LIMIT_S])
        return np.where(facts["has_limit"][:, None] > 0, found, np.where(np.isnan(runs), unheard_of, runs))
