"""Which questions of a log may be learned from at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.view._replay import SUBMITTED
from presage.foundation.view.targets import targets_of
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.foundation.view.examples import Examples

    Rows = NDArray[np.int64]

WARM_UP = 500
"""The first questions of a log tell little: hardly anything is known then."""


def known_rows(examples: Examples, task: Task, until_s: float) -> Rows:
    """Return the questions whose true durations were known strictly before `until_s`."""
    history, asked = examples.history, examples.questions.asked
    known_s = (history.start_s if task is Task.WAIT else history.end_s)[asked]
    targets = targets_of(examples, task)
    return np.flatnonzero(targets.usable & ~targets.is_censored & (known_s < until_s))


def split_rows(
    examples: Examples, task: Task, until_s: float, last_part: float = 1 / 8, warm_up: int = WARM_UP
) -> tuple[Rows, Rows]:
    """Return what to learn from and what to stop at, both known before `until_s`: the last part of the submits.

    What is learned from was known before the first question of the other part. The warm-up is left out unless
    that would leave less than as much.
    """
    times_s = examples.questions.time_s
    before = np.flatnonzero((times_s < until_s) & (examples.questions.kinds == SUBMITTED))
    known = known_rows(examples, task, until_s)
    if not len(before):
        return known, known[:0]
    since_s = times_s[before[int(len(before) * (1 - last_part))]]
    first = known_rows(examples, task, since_s)
    later = first[first >= warm_up]
    return (later if len(later) >= warm_up else first), known[times_s[known] >= since_s]
