"""The two durations that the model forecasts."""

from __future__ import annotations

from enum import StrEnum

from presage.foundation.view import numbers


class Task(StrEnum):
    """Which duration is asked for."""

    WAIT = "wait"
    RUN = "run"

    @property
    def numbers(self) -> int:
        """How many of `numbers.QUERY`, from the first on, are read to forecast it."""
        return len(numbers.QUERY) - (len(numbers.WORK) if self is Task.WAIT else 0)
