"""What decisions are told of run times: forecasts, requests, or the truth."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

TAU_S = 10.0
"""Shorter runs count as this, as in the bounded slowdown."""


@dataclass(frozen=True)
class RunForecasts:
    """What is expected of the run time of each job. No run is longer than the limit."""

    expected_s: Floats
    """The mean."""
    median_s: Floats
    inverse: Floats
    """The mean of 1 / max(run, 10 s): what a second of waiting adds to the bounded slowdown."""

    def __len__(self) -> int:
        return len(self.expected_s)

    def select(self, rows: slice | NDArray[np.int64]) -> RunForecasts:
        """Return the forecasts of some jobs."""
        return RunForecasts(*(getattr(self, field.name)[rows] for field in fields(self)))

    @classmethod
    def certain(cls, run_s: Floats) -> RunForecasts:
        """Return forecasts that are sure of these run times: what is requested, or the truth."""
        run_s = np.maximum(np.asarray(run_s, np.float64), 1.0)
        return cls(run_s, run_s.copy(), 1 / np.maximum(run_s, TAU_S))

    def write(self, rows: NDArray[np.int64], of_rows: RunForecasts) -> None:
        """Put the forecasts of some jobs in their places."""
        for field in fields(self):
            getattr(self, field.name)[rows] = getattr(of_rows, field.name)
