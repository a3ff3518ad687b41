"""A learned order for one queue: what it reads of each waiting job, and how that becomes a score.

Symbols as in `presage.policies.orders`. The lowest score goes first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from presage.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

OF_THE_JOB = (
    "log_expected_run",
    "log_typical_run",
    "log_requested",
    "log_processors",
    "share_of_machine",
    "log_waited",
    "log_expected_slowdown",
    "user_share",
    "fits",
)
"""Natural logarithms: of the mean run, of the inverse of the mean of 1 / max(run, 10 s), and of the request, all
in seconds; of 1 + w / 4 h, and of 1 + w times the mean of 1 / max(run, 10 s). Shares from 0 to 1, the user's of
what the machine did of late (with a half-life of a week); and whether the job fits on what is free."""
OF_THE_QUEUE = ("log_waiting", "free_share", "log_backlog")
"""The same for all jobs: of 1 + the jobs that wait, and of 1 + the hours that their requests would fill the
machine for."""
INPUTS = 2 * len(OF_THE_JOB) + len(OF_THE_QUEUE)
"""How much a hidden unit reads: the job's numbers, the queue's, and means of the jobs'."""
LARGEST = 1e100
"""Of what a scorer multiplies by: no score comes near those that the guard and operators give to a job."""
AGEING_S = 4 * 3600.0
INDEX_WEIGHTS = {"log_expected_run": 1.0, "log_typical_run": 1.0, "log_processors": 0.5, "log_waited": -2.0}
"""Expected run x √processors / expected 1/run / (1 + w / 4 h)²: a fixed choice that does well everywhere."""


def index_weights() -> Floats:
    """Return the weights of the fixed index, one for each of `OF_THE_JOB`."""
    return np.array([INDEX_WEIGHTS.get(name, 0.0) for name in OF_THE_JOB])


@dataclass(frozen=True, eq=False)
class QueueScorer:
    """A weighted sum of what is read of a job, plus, where there are hidden units, a weighted sum of those.

    A hidden unit is the hyperbolic tangent of a sum over the job's own numbers, the queue's, and a mean of the
    numbers of all that wait, in which each counts by the softmax of its `attention`.
    """

    weights: Floats = field(default_factory=index_weights)
    """One for each of `OF_THE_JOB`."""
    hidden: Floats = field(default_factory=lambda: np.zeros((0, INPUTS + 1)))
    """A row for each unit: the job's numbers, the queue's, the means, and an offset."""
    out: Floats = field(default_factory=lambda: np.zeros(0))
    attention: Floats = field(default_factory=lambda: np.zeros(len(OF_THE_JOB)))

    def __post_init__(self) -> None:
        expected = {
            "weights": (len(OF_THE_JOB),),
            "hidden": (len(self.out), INPUTS + 1),
            "out": (len(self.out),),
            "attention": (len(OF_THE_JOB),),
        }
        for name, shape in expected.items():
            values = np.ascontiguousarray(getattr(self, name), np.float64)
            if values.shape != shape or not (np.abs(values) <= LARGEST).all():
                raise UsageError(
                    f"The {name} of a scorer have the shape {values.shape}, or are no numbers",
                    expected=f"numbers up to {LARGEST:g} of the shape {shape}",
                )
            object.__setattr__(self, name, values)

    def scores(self, of_jobs: Floats, of_queue: Floats) -> Floats:
        """Return the scores of the waiting jobs: `of_jobs` has a row for each, `of_queue` is of all together."""
        scores: Floats = of_jobs @ self.weights
        if len(self.out) and len(of_jobs):
            power = of_jobs @ self.attention
            share = np.exp(power - power.max())
            mean = share @ of_jobs / share.sum()
            same = np.broadcast_to(
                np.concatenate([of_queue, mean, [1.0]]), (len(of_jobs), INPUTS + 1 - of_jobs.shape[1])
            )
            scores = scores + np.tanh(np.concatenate([of_jobs, same], axis=1) @ self.hidden.T) @ self.out
        return scores


@dataclass(frozen=True)
class Guard:
    """Nobody waits for ever: when the oldest job has waited longer than `base_s` + `backlog` x B, it goes first.

    B is the time that all requests of the queue would fill the machine for, so that nobody is called late only
    because everybody is.
    """

    base_s: float = 24 * 3600.0
    backlog: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.base_s < np.inf and 0 <= self.backlog < np.inf):
            raise UsageError(
                f"A guard of {self.base_s} s and {self.backlog} times the backlog bounds nothing",
                expected="a wait above 0 s and a share from 0 on, both finite",
            )


GUARDS = {"A": Guard(), "E": Guard(12 * 3600.0, 0.3)}
"""Guards by name: A lets an order have its way for longer, E is strict."""
