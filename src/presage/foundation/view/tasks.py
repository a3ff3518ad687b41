"""The two durations that the model forecasts."""

from __future__ import annotations

from enum import StrEnum


class Task(StrEnum):
    """Which duration is asked for."""

    WAIT = "wait"
    RUN = "run"
