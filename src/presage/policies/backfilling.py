"""Ways to let later jobs pass a job that does not fit yet."""

from __future__ import annotations

from enum import IntEnum

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


_HERE = "presage.policies.backfilling"

BACKFILLINGS: Registry[Backfilling] = Registry(
    "backfilling",
    "presage.backfillings",
    [
        Spec("none", f"{_HERE}:NONE", "strict order: nobody passes the first job that does not fit"),
        Spec("easy", f"{_HERE}:EASY", "later jobs start if they do not delay the first that does not fit"),
        Spec("easy-sjbf", f"{_HERE}:EASY_SJBF", "like easy, the shortest are tried first"),
        Spec("conservative", f"{_HERE}:CONSERVATIVE", "later jobs start if they delay no job before them"),
    ],
)

NONE, EASY, EASY_SJBF, CONSERVATIVE = Backfilling
