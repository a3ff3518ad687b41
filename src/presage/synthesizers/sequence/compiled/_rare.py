"""Moving the run times of rare jobs; see `RareJobs`."""

from __future__ import annotations

import numpy as np

from presage.synthesizers.sequence.compiled._compiling import compiled, inner
from presage.synthesizers.sequence.rare import REACH_S, REACH_SHARE, mixed


@compiled
def any_rare(keys: np.ndarray, few: np.ndarray, user: np.ndarray, words: np.ndarray, run_s: np.ndarray) -> bool:
    """Return whether a job is equal to one of which the log has few."""
    for a in range(len(user)):
        place = _known(keys, _begun_key(user[a], words[a]), run_s[a])
        if place >= 0 and few[place]:
            return True
    return False


@compiled
def move_rare(
    keys: np.ndarray, few: np.ndarray, user: np.ndarray, words: np.ndarray, run_s: np.ndarray,
    most_s: np.ndarray, side: np.ndarray, far: bool,
) -> None:  # fmt: skip
    """Move run times of rare jobs, first to the given side; see `RareJobs.avoid`."""
    for a in range(len(user)):
        key = _begun_key(user[a], words[a])
        place = _known(keys, key, run_s[a])
        if place >= 0 and few[place]:
            run_s[a] = _moved_s(keys, key, run_s[a], most_s[a], side[a], far)


@inner
def _moved_s(keys: np.ndarray, key: np.uint64, run_s: float, most_s: float, side: float, far: bool) -> float:
    """Return the run time that a job is moved to; the same where there is none."""
    first_s = _free_s(keys, key, run_s, most_s, side, far)
    second_s = _free_s(keys, key, run_s, most_s, -side, far)
    nearer = np.isnan(second_s) or abs(first_s - run_s) <= abs(second_s - run_s)
    moved_s = first_s if not np.isnan(first_s) and (far or nearer) else second_s
    return run_s if np.isnan(moved_s) else moved_s


@inner
def _free_s(keys: np.ndarray, key: np.uint64, run_s: float, most_s: float, side: float, far: bool) -> float:
    """Return the nearest run time on one side that the log does not have; NaN where none is within reach."""
    reach_s = most_s - run_s if side > 0 else run_s
    if not far:
        reach_s = min(reach_s, np.ceil(REACH_S + REACH_SHARE * run_s))
    step = 1.0
    while step <= reach_s:
        if _known(keys, key, run_s + step * side) < 0:
            return run_s + step * side
        step += 1
    return np.nan


@inner
def _begun_key(user: int, words: np.ndarray) -> np.uint64:
    """Return the key of a job of which all but the run time is known."""
    key = mixed(np.uint64(0), np.uint64(user))
    for place in range(1, len(words) - 1):
        key = mixed(key, np.uint64(words[place]))
    return key


@inner
def _known(keys: np.ndarray, begun: np.uint64, run_s: float) -> int:
    """Return where the log has a job of this run time; -1 where it has none."""
    key = mixed(begun, np.uint64(np.int64(np.rint(run_s))))
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < len(keys) and keys[low] == key else -1
