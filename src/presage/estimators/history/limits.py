"""Which limit of time a script should ask for, by how long its earlier runs took."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from presage.estimators.history.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Sequence

SURE_SHARE = 0.95
HEADROOM = 1.25
LONGEST_HEADROOM = 1.1
AFTER_TIMEOUT = 1.5
"""How much longer than a run that reached its limit the next one may need."""
RUNS_TO_ADVISE = 5
"""With fewer runs no limit is advised."""
USUAL_FACTOR = 3.0
"""Within this factor of their median lie 80 % of the runs of one script, before any are known."""
LEAST_LIMIT_S = 300.0
"""Shorter limits gain nothing, and a slow file system would break them."""
_STEPS_S = ((600.0, 60.0), (3600.0, 300.0), (4 * 3600.0, 900.0), (math.inf, 3600.0))


def advised_limit_s(
    runs_s: Sequence[float], timeouts_s: Sequence[float] = (), most_s: float | None = None
) -> float | None:
    """Return a limit for the next run, None if there are too few to advise one.

    `runs_s` are the earlier runs in their order, `timeouts_s` those of them that reached their limit, `most_s` the
    longest limit they had. The limit is p95 with headroom, longer than any of the runs. Work changes now and then:
    as much as the same rule would have been too short for runs of the past, the limit is longer.
    """
    if len(runs_s) < RUNS_TO_ADVISE:
        return None
    short_by = [runs_s[count] / _needed_s(runs_s[:count], most_s) for count in range(RUNS_TO_ADVISE, len(runs_s))]
    needed_s = _needed_s(runs_s, most_s) * max(1.0, _upper(short_by))
    return max(LEAST_LIMIT_S, rounded_limit_s(max(needed_s, AFTER_TIMEOUT * max(timeouts_s, default=0.0))))


def rounded_limit_s(seconds: float) -> float:
    """Return the next limit up that a person would write: whole minutes, quarters of an hour, hours."""
    for below, step in _STEPS_S:
        rounded = step * math.ceil(seconds / step)
        if rounded <= below:
            return rounded
    raise AssertionError("the last step has no end")


def _needed_s(runs_s: Sequence[float], most_s: float | None) -> float:
    sure_s = Samples(runs_s, USUAL_FACTOR, most_s).quantile(SURE_SHARE)
    return max(HEADROOM * sure_s, LONGEST_HEADROOM * max(runs_s))


def _upper(ratios: Sequence[float]) -> float:
    """Return what 95 % of the ratios are not above; the largest where they are few."""
    ordered = sorted(ratios)
    place = math.ceil(SURE_SHARE * (len(ordered) + 1))
    return ordered[min(place, len(ordered)) - 1] if ordered else 0.0
