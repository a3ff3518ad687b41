"""Ways to let later jobs pass a job that does not fit yet."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import IntEnum

from presage.errors import UsageError
from presage.policies.settings import changed_settings, parse_settings
from presage.registry import Registry, Spec


class Backfilling(IntEnum):
    """How jobs behind the first one that does not fit may start; the number is the engine's code."""

    NONE = 0
    """Not at all: the order is strict."""
    EASY = 1
    """In the queue's order, if they do not delay the first job that does not fit."""
    EASY_SJBF = 2
    """Like EASY, the shortest tried first."""
    CONSERVATIVE = 3
    """In the queue's order, if they delay no job before them; every job has a reservation."""
    PERIODIC = 4
    """As Slurm does: strict order at once, and at intervals a conservative pass over a part of the queue."""


_HERE = "presage.policies.backfilling"

BACKFILLINGS: Registry[Backfilling] = Registry(
    "backfilling",
    "presage.backfillings",
    [
        Spec("none", f"{_HERE}:NONE", "strict order: nobody passes the first job that does not fit"),
        Spec("easy", f"{_HERE}:EASY", "later jobs start if they do not delay the first that does not fit"),
        Spec("easy-sjbf", f"{_HERE}:EASY_SJBF", "like easy, the shortest are tried first"),
        Spec("conservative", f"{_HERE}:CONSERVATIVE", "later jobs start if they delay no job before them"),
        Spec("periodic", f"{_HERE}:PERIODIC", "as in Slurm: strict at once, conservative every 30 seconds"),
    ],
)

NONE, EASY, EASY_SJBF, CONSERVATIVE, PERIODIC = Backfilling

_LONGEST_S = 1e9


@dataclass(frozen=True)
class PeriodicBackfill:
    """Settings of the backfilling `periodic`; the defaults are Slurm's own, whose names stand behind each.

    Written behind the backfilling, those that differ from the default: `fcfs+periodic:interval_s=60,depth=200`.
    Raises UsageError if a value makes no sense.
    """

    interval_s: float = 30.0
    """How often the queue is backfilled (`bf_interval`)."""
    depth: int = 500
    """How many jobs of the queue are looked at then (`bf_max_job_test`)."""
    window_s: float = 86_400.0
    """How far ahead places are reserved (`bf_window`, there in minutes)."""
    resolution_s: float = 60.0
    """What starts and ends of reservations are rounded down to (`bf_resolution`)."""
    precision_s: float = 30.0
    """How close ends of running jobs count as one, the last; it doubles with each group (`bf_window_linear`)."""
    main_depth: int = 100
    """How many jobs a pass of the main scheduler looks at (`default_queue_depth`)."""
    main_interval_s: float = 60.0
    """How often it looks at all jobs (`sched_interval`)."""
    main_gap_s: float = 3.0
    """The least time between two passes that submits and ends ask for (`batch_sched_delay`)."""
    poll_s: float = 1.0
    """How often it is looked whether a pass was asked for (the controller's background loop)."""
    limit_unit_s: float = 60.0
    """What time limits are rounded up to; Slurm knows whole minutes only."""
    release_s: float = 0.0
    """How long processors stay taken after a job has ended: the epilogue, and the message that it is over."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0.0 if field.name in {"window_s", "precision_s", "main_gap_s", "release_s"} else 0.001
            least = 1 if field.type == "int" else least
            if not (math.isfinite(value) and least <= value <= _LONGEST_S):
                raise UsageError(
                    f"The backfilling cannot have {field.name}={value:g}",
                    expected=f"a number from {least:g} to {_LONGEST_S:g}",
                )

    @classmethod
    def parse(cls, text: str) -> PeriodicBackfill:
        """Return the settings written as `interval_s=60,depth=200`. Raises UsageError."""
        return parse_settings(cls, text, "The backfilling 'periodic'")

    def __str__(self) -> str:
        """What `parse` takes: the settings that differ from the defaults."""
        return changed_settings(self)
