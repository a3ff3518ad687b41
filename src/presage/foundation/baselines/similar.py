"""What the last jobs of the same kind did."""

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

ANCHOR = numbers.PLACE["run_anchor"]


class Similar(Baseline):
    """Quantiles of the last 50 waits of the same queue and classes of size and limit, or of 12 similar runs.

    Where there are none, waits are those of the last jobs of any kind, and runs are as far from the model's
    anchor as the last ones were from theirs.
    """

    name = "similar"
    tasks = frozenset({Task.WAIT, Task.RUN})

    def _durations(self, examples: Examples, rows: Rows, task: Task) -> Floats:
        if task is Task.WAIT:
            found = spread_s(examples, rows, "class")
            return np.where(found >= 0, found, recent_waits_s(examples, rows))
        found = spread_s(examples, rows, "similar")
        unknown = (found < 0).any(axis=1)
        found[unknown] = _around_anchor_s(examples, rows[unknown])
        return found


def spread_s(examples: Examples, rows: Rows, name: str) -> Floats:
    """Return p10, p50 and p90 of that name among the model's numbers; negative where nothing was seen."""
    places = [numbers.PLACE[f"{name}_p{percent}"] for percent in (10, 50, 90)]
    return np.expm1(examples.x[rows][:, places].astype(np.float64))


def recent_waits_s(examples: Examples, rows: Rows) -> Floats:
    """Return the spread of the last waits of any kind; no wait at all before the first is known."""
    return np.maximum(spread_s(examples, rows, "recent"), 0.0)


def _around_anchor_s(examples: Examples, rows: Rows) -> Floats:
    history = examples.history
    ended = ended_runs(history)
    ended = ended[ended >= examples.questions.asked.min(initial=0)]  # others have no anchor
    distance = np.log1p(history.run_s[ended]) - examples.jobs["run_anchor"][ended]
    errors = recent_quantiles(history.end_s[ended], distance, examples.questions.time_s[rows])
    low, high = np.nan_to_num(errors[:, 0]), np.nan_to_num(errors[:, 2])
    offset = np.stack([np.minimum(low, 0), np.zeros(len(rows)), np.maximum(high, 0)], 1)
    found: Floats = np.expm1(np.maximum(examples.x[rows, ANCHOR].astype(np.float64)[:, None] + offset, 0.0))
    return found
