"""A learned order for machines that keep to a choice: what it reads of each waiting job, and how that is weighed.

Whoever is chosen there is kept until it starts, and the machine may stand idle meanwhile. So it reads, beside
what `presage.policies.queue_scorer` reads, how long a job would be waited for and what it would leave free. The
lowest score goes first.
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
    "fits",
    "log_until_it_fits",
    "share_left_free",
)
"""Natural logarithms: of the mean run, of the inverse of the mean of 1 / max(run, 10 s), and of the request, all
in seconds; of 1 + w / 4 h, of 1 + w times the mean of 1 / max(run, 10 s), and of 1 + the minutes until the job
fits, by the plans of those that run. `fits` is 1 for a job that fits; what it would then leave free is a share of
the machine. Else both are 0."""
AREA_WEIGHTS = {"log_expected_run": 1.0, "log_processors": 1.0}
"""The smallest expected area first."""


def area_weights() -> Floats:
    """Return the weights of the order by expected area, one for each of `OF_THE_JOB`."""
    return np.array([AREA_WEIGHTS.get(name, 0.0) for name in OF_THE_JOB])


@dataclass(frozen=True, eq=False)
class CommittedScorer:
    """A weighted sum of what is read of a job."""

    weights: Floats = field(default_factory=area_weights)
    """One for each of `OF_THE_JOB`."""

    def __post_init__(self) -> None:
        weights = np.ascontiguousarray(self.weights, np.float64)
        if weights.shape != (len(OF_THE_JOB),) or not np.isfinite(weights).all():
            raise UsageError(
                f"The weights of a scorer have the shape {weights.shape}, or are no numbers",
                expected=f"{len(OF_THE_JOB)} finite numbers",
            )
        object.__setattr__(self, "weights", weights)

    @classmethod
    def of(cls, **weights: float) -> CommittedScorer:
        """Return the scorer with these weights by name; all others are 0. Raises UsageError for other names."""
        unknown = sorted(weights.keys() - set(OF_THE_JOB))
        if unknown:
            raise UsageError(f"A scorer reads no {unknown[0]!r}", expected=f"some of {', '.join(OF_THE_JOB)}")
        return cls(np.array([weights.get(name, 0.0) for name in OF_THE_JOB]))
