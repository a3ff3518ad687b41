"""Single jobs that are odd, told together: not one alarm per job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from presage.foundation.anomalies._history import Floats, Ints

GAP_MS = 86_400_000.0


def episodes(rows: Ints, group: Ints, time: Floats, gap_ms: float = GAP_MS) -> list[Ints]:
    """Return the rows of each group in the order of time, cut where more than the gap passes.

    `group` and `time` are those of the rows.
    """
    if not len(rows):
        return []
    order = np.lexsort((time, group))
    new = (np.diff(group[order]) != 0) | (np.diff(time[order]) > gap_ms)
    return np.split(rows[order], np.flatnonzero(new) + 1)
