"""What was lately seen, at any time of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from presage.foundation.baselines._quantiles import LEVELS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.foundation.view.jobs import JobHistory

    Floats = NDArray[np.float64]

WINDOW = 500
_CHUNK = 2000


def ended_runs(history: JobHistory) -> NDArray[np.int64]:
    """Return the jobs that ran for some time and ended, in the order of their ends."""
    run_s = history.run_s
    ran = np.flatnonzero(np.isfinite(run_s) & (run_s > 0))
    return ran[np.argsort(history.end_s[ran], kind="stable")]


def recent_quantiles(known_s: Floats, values: Floats, at_s: Floats, window: int = WINDOW) -> Floats:
    """Return (n, 3): p10, p50 and p90 of the last `window` values known strictly before each time; NaN of none.

    `known_s` says when each value became known, ascending.
    """
    count = np.searchsorted(known_s, at_s, side="left")
    asked, place = np.unique(count, return_inverse=True)
    found = np.full((len(asked), len(LEVELS)), np.nan)
    full = asked >= window
    for row in np.flatnonzero(~full & (asked > 0)):
        found[row] = np.quantile(values[: asked[row]], LEVELS)
    if full.any():
        windows = sliding_window_view(values, window)
        rows = np.flatnonzero(full)
        for begin in range(0, len(rows), _CHUNK):
            part = rows[begin : begin + _CHUNK]
            found[part] = np.quantile(windows[asked[part] - window], LEVELS, axis=1).T
    return found[place]


def recent_mean(known_s: Floats, values: Floats, at_s: Floats, if_none: float, window: int = WINDOW) -> Floats:
    """Return (n,): the mean of the last `window` values known strictly before each time."""
    count = np.searchsorted(known_s, at_s, side="left")
    taken = np.minimum(count, window)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.where(taken > 0, (sums[count] - sums[count - taken]) / np.maximum(taken, 1), if_none)
