"""A whole log through the view: every question is asked at its time, with nothing told that came later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.view._compiling import compiled, inner
from presage.foundation.view._events import end, start, submit
from presage.foundation.view._query import ask, remember_submit

if TYPE_CHECKING:
    from presage.foundation.view._records import View

SUBMITTED, STILL_WAITS, STILL_RUNS, NEW = 0, 1, 2, 3
"""When a job is asked about: as it is submitted, while it waits, while it runs, before it is submitted at all."""


@compiled
def replay(
    view: View, start_s: np.ndarray, end_s: np.ndarray, outcomes: np.ndarray, by_start: np.ndarray,
    by_end: np.ndarray, first: int, asked: np.ndarray, time_s: np.ndarray, kinds: np.ndarray,
    x: np.ndarray, waits: np.ndarray, runs: np.ndarray,
) -> None:  # fmt: skip
    """Answer the questions (`asked`, `time_s`, `kinds`: in the order of time) with rows of numbers and contexts.

    Every job from `first` on must be asked about at its submit, in order; those before only fill the view.
    `start_s` and `end_s` are infinite where they never came.
    """
    clock = np.zeros(3, np.int64)  # submits, starts and ends told so far
    for row in range(len(asked)):
        index = asked[row]
        _tell(view, start_s, end_s, outcomes, by_start, by_end, first, clock, time_s[row])
        if kinds[row] == SUBMITTED:
            while clock[0] < min(first, index):  # submitted at the very same instant
                submit(view, clock[0])
                clock[0] += 1
        ask(view, index, time_s[row], x[row], waits[row], runs[row])
        if kinds[row] == SUBMITTED:
            remember_submit(view, x[row])
            submit(view, index)
            clock[0] = index + 1


@inner
def _tell(
    view: View, start_s: np.ndarray, end_s: np.ndarray, outcomes: np.ndarray, by_start: np.ndarray,
    by_end: np.ndarray, first: int, clock: np.ndarray, now_s: float,
) -> None:  # fmt: skip
    """Tell what happened strictly before `now_s`; at one instant submits come first, then starts, then ends."""
    count = len(view.jobs)
    while True:
        next_submit = view.jobs[clock[0]].submit_s if clock[0] < first else np.inf
        next_start = start_s[by_start[clock[1]]] if clock[1] < count else np.inf
        next_end = end_s[by_end[clock[2]]] if clock[2] < count else np.inf
        soonest = min(next_submit, next_start, next_end)
        if not soonest < now_s:
            return
        if next_submit == soonest:
            submit(view, clock[0])
            clock[0] += 1
        elif next_start == soonest:
            start(view, by_start[clock[1]], next_start)
            clock[1] += 1
        else:
            index = by_end[clock[2]]
            end(view, index, next_end, outcomes[index])
            clock[2] += 1
