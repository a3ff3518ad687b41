"""A policy that watches itself: it goes by requests while forecasts would have made the last weeks worse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.learning.outcomes import Outcome, ratio_of
from presage.simulator.guided import Switches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.learning.cases import Case
    from presage.simulator.guided import Decider

    Ints = NDArray[np.int64]

DAY_MS = 86_400_000
FORECAST, REQUESTED = 0, 1


@dataclass(frozen=True)
class SelfWatch:
    """Once in a while the jobs of the last weeks that have ended are replayed with forecasts and with requests.

    Requests are used for as long as forecasts were surely worse: one run is one draw of a sum with a heavy tail,
    and changing sides by the mean alone costs more than bad forecasts do.
    """

    every_days: float = 7.0
    back_days: float = 28.0
    fewest_jobs: int = 200
    """With fewer jobs nothing is changed."""

    def watched_run(self, case: Case, decider: Decider) -> tuple[Ints, Switches]:
        """Return when each job starts, and from when on it went by what.

        Only what had ended by then counts, in the very schedule that comes of it. So each change of mind makes
        the schedule anew from there on.
        """
        since_ms = np.arange(
            int(case.jobs.submit_ms[0]), int(case.jobs.submit_ms[-1]) + 1, int(self.every_days * DAY_MS)
        ).astype(np.int64)
        source = np.full(len(since_ms), FORECAST, np.int64)
        start_ms = case.run(decider, "forecast", "requested", switches=Switches(since_ms, source))
        for epoch in range(1, len(since_ms)):
            better = self._better(case, decider, start_ms, int(since_ms[epoch]))
            if better is None or better == source[epoch]:
                continue
            source[epoch:] = better
            start_ms = case.run(decider, "forecast", "requested", switches=Switches(since_ms, source))
        return start_ms, Switches(since_ms, source)

    def _better(self, case: Case, decider: Decider, start_ms: Ints, now_ms: int) -> int | None:
        """Return what the last weeks would have gone better by; None if too little has happened."""
        begin = int(np.searchsorted(case.jobs.submit_ms, now_ms - self.back_days * DAY_MS))
        rows = np.arange(begin, int(np.searchsorted(case.jobs.submit_ms, now_ms)))
        rows = rows[start_ms[rows] + case.jobs.run_ms[rows] <= now_ms]
        if len(rows) < self.fewest_jobs:
            return None
        recent = case.select(rows)
        by_forecasts, by_requests = (
            Outcome.of(recent, recent.run(decider, told)) for told in ("forecast", "requested")
        )
        _, (low, _) = ratio_of(by_forecasts, by_requests)
        return REQUESTED if low is not None and low > 1 else FORECAST
