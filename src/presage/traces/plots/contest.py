"""What a picture of a comparison is drawn from: plain numbers, wherever they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Literal

    import numpy as np
    from numpy.typing import NDArray

    from presage.traces.statistics import TimeSeries

    Unit = Literal["seconds", "share", "number"]


@dataclass(frozen=True)
class Result:
    """What a contender makes of one metric."""

    metric: str
    """What stands beside it: `mean wait`."""
    baseline: float
    value: float
    unit: Unit = "number"
    ratio_low: float | None = None
    """The interval of value over baseline; None if there is none."""
    ratio_high: float | None = None
    less_is_better: bool = True
    """Else, or if nobody can say, it stands in the table and not in the figure."""

    @property
    def ratio(self) -> float | None:
        """Value over baseline; None where the baseline is zero."""
        return self.value / self.baseline if self.baseline else None

    @property
    def is_clear(self) -> bool | None:
        """Whether the interval excludes no change; None if there is no interval."""
        if self.ratio_low is None or self.ratio_high is None:
            return None
        return self.ratio_low > 1 or self.ratio_high < 1


@dataclass(frozen=True, eq=False)
class Contender:
    """One schedule in a contest."""

    name: str
    waits_s: NDArray[np.float64]
    queue: TimeSeries
    """The mean number of waiting jobs over time."""
    results: tuple[Result, ...] = ()
    """Against the baseline, which has none."""


@dataclass(frozen=True, eq=False)
class Contest:
    """A baseline, and schedules that try to be better."""

    title: str
    headline: str
    baseline: Contender
    contenders: tuple[Contender, ...]
    dated: bool = True
    """Whether times are dates, told in `time_zone`; else they count from the log's own zero."""
    time_zone: str = "UTC"
