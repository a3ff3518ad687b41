"""What a schedule comes to for its jobs, and how two schedules of the same jobs compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.simulator.bootstrap import Draws
from presage.simulator.metrics import bounded_slowdown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.learning.cases import Case

LONGEST_MAX_WAIT, LONGEST_P99_WAIT = 2.5, 2.0
"""An order is safe if its waits are at most so many times those of first come, first served."""
Interval = tuple[float, float] | tuple[None, None]
"""Of 95 %; None where there are too few jobs for one."""


@dataclass(frozen=True)
class Outcome:
    """What a schedule comes to; waits in seconds."""

    slowdowns: NDArray[np.float64]
    """The bounded slowdown of each job."""
    waits_s: NDArray[np.float64]

    @classmethod
    def of(cls, case: Case, start_ms: NDArray[np.int64]) -> Outcome:
        """Return what the starts come to."""
        waits_s = (start_ms - case.jobs.submit_ms) / 1000
        return cls(bounded_slowdown(waits_s, case.jobs.run_ms / 1000), waits_s)

    @property
    def slowdown(self) -> float:
        """The mean bounded slowdown."""
        return float(self.slowdowns.mean())

    @property
    def p99_wait_s(self) -> float:
        """The wait that one job in a hundred exceeds."""
        return float(np.percentile(self.waits_s, 99))

    @property
    def max_wait_s(self) -> float:
        """The longest wait."""
        return float(self.waits_s.max())

    def is_safe(self, first_come: Outcome) -> bool:
        """Return whether nobody waits much longer than if everybody waited in line."""
        return (
            self.max_wait_s <= LONGEST_MAX_WAIT * first_come.max_wait_s
            and self.p99_wait_s <= LONGEST_P99_WAIT * first_come.p99_wait_s
        )


def ratio_of(one: Outcome, other: Outcome) -> tuple[float, Interval]:
    """Return the ratio of mean bounded slowdowns of the same jobs, and its interval by blocks of them."""
    draws = Draws.of(len(one.slowdowns))
    drawn = draws.sums(one.slowdowns) / draws.sums(other.slowdowns) if draws.any else np.empty(0)
    return one.slowdown / other.slowdown, draws.interval(drawn)
