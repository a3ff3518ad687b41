"""One decision about a live queue: what a scorer reads of it, and the order that comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.policies.queue_scorer import AGEING_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.policies.queue_scorer import Guard, QueueScorer
    from presage.policies.run_forecasts import RunForecasts

    Floats = NDArray[np.float64]

HOUR_S = 3600.0


@dataclass(frozen=True)
class Queue:
    """The jobs that wait, in the order of their submits, and the machine that they wait for."""

    waited_s: Floats
    requested_s: Floats
    processors: NDArray[np.int64]
    user_share: Floats
    """Of each job's user in the work of late, from 0 to 1; see `queue_scorer.OF_THE_JOB`."""
    free: int
    capacity: int
    urgent: NDArray[np.bool_] | None = None
    """An operator wants these before all others."""

    def __len__(self) -> int:
        return len(self.waited_s)

    @property
    def backlog_s(self) -> float:
        """How long all requests would fill the machine for."""
        return float(self.requested_s @ self.processors) / self.capacity

    def reads(self, forecasts: RunForecasts) -> tuple[Floats, Floats]:
        """Return what a scorer reads of each job, and of the queue."""
        of_jobs = (
            np.log(forecasts.expected_s), -np.log(forecasts.inverse), np.log(self.requested_s),
            np.log(self.processors), self.processors / self.capacity, np.log1p(self.waited_s / AGEING_S),
            np.log1p(self.waited_s * forecasts.inverse), self.user_share, self.processors <= self.free,
        )  # fmt: skip
        of_queue = (np.log1p(len(self)), self.free / self.capacity, np.log1p(self.backlog_s / HOUR_S))
        return np.stack(of_jobs, axis=1).astype(np.float64), np.array(of_queue)


def order_queue(
    scorer: QueueScorer, guard: Guard | None, queue: Queue, forecasts: RunForecasts
) -> NDArray[np.int64]:
    """Return the places of the waiting jobs in the order in which they should go.

    Urgent jobs come first; then the oldest, if it has waited longer than the guard allows; then all others by
    score. It is the order of one pass of the simulator.
    """
    if not len(queue):
        return np.empty(0, np.int64)
    scores = scorer.scores(*queue.reads(forecasts))
    if guard is not None and queue.waited_s[0] > guard.base_s + guard.backlog * queue.backlog_s:
        scores[0] = -np.finfo(np.float64).max
    if queue.urgent is not None:
        scores[queue.urgent] = -np.inf
    return np.argsort(scores, kind="stable").astype(np.int64)
