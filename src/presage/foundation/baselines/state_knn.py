"""Waits of the jobs that met a similar state of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.baselines._base import Baseline
from presage.foundation.baselines.similar import recent_waits_s, spread_s
from presage.foundation.view import numbers
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from presage.foundation.baselines._base import Floats, Rows
    from presage.foundation.view.examples import Examples

MEAN = numbers.PLACE["neighbour_mean"]


class StateKnn(Baseline):
    """The nearest 24 of the last 5,000 started jobs: the fallback of the model, and needs no training.

    The median is the mean of the logarithms of their waits, the nearer the heavier; the interval is their spread.
    """

    name = "state-knn"
    tasks = frozenset({Task.WAIT})

    def _durations(self, examples: Examples, rows: Rows, task: Task) -> Floats:
        found = spread_s(examples, rows, "neighbour")
        mean_s = np.expm1(examples.x[rows, MEAN].astype(np.float64))
        found = np.stack([np.minimum(found[:, 0], mean_s), mean_s, np.maximum(found[:, 2], mean_s)], 1)
        return np.where(mean_s[:, None] >= 0, found, recent_waits_s(examples, rows))
