"""Windows of cases as episodes to learn on, with the forecasts of their jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from presage.environments import Episode, Workload
from presage.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from presage.learning.cases import Case
    from presage.policies.run_forecasts import RunForecasts

JOBS = 256


@dataclass(frozen=True, kw_only=True)
class ForecastEpisode(Episode):
    """Jobs on an empty machine, and what is forecast of their runs."""

    forecasts: RunForecasts


@dataclass(frozen=True)
class CaseWindows(Workload):
    """Consecutive jobs from anywhere in a case, on an empty machine. Raises InputError if the case has fewer."""

    case: Case
    jobs: int = JOBS

    def __post_init__(self) -> None:
        if len(self.case) < self.jobs:
            raise InputError(
                f"There are {len(self.case):,} jobs for windows of {self.jobs:,}", remedy="Use a longer log"
            )

    def draw(self, rng: np.random.Generator) -> ForecastEpisode:
        """Return the next window."""
        begin = int(rng.integers(len(self.case) - self.jobs + 1))
        drawn = self.case.select(slice(begin, begin + self.jobs))
        return ForecastEpisode(drawn.jobs, drawn.processors, drawn.users, forecasts=drawn.forecasts)
