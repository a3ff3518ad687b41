"""What one stream remembers; see `Memory`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers.sequence.compiled._compiling import inner
from presage.synthesizers.sequence.compiled._sums import ONE, add, linear, silu
from presage.synthesizers.sequence.features import HABITS, HISTORY, RECENT

if TYPE_CHECKING:
    from presage.synthesizers.sequence.compiled._parts import Held, Parts


@inner
def run_of_same_sort_s(parts: Parts, held: Held, a: int, words: np.ndarray) -> float:
    """Return how long the last job of the same sort and range of run times ran; NaN if there is none."""
    last = len(words) - 1
    for k in range(RECENT, HISTORY):
        if held.words[a, k, last] == words[last] and _of_same_sort(parts, held.words[a, k], words):
            return held.run_s[a, k]
    return np.nan


@inner
def remember(parts: Parts, held: Held, a: int, words: np.ndarray, run_s: float) -> None:
    """Let a stream remember a job; see `Memory.add`."""
    width = parts.words.shape[1]
    summed, job = np.zeros(width, np.float32), np.empty(width, np.float32)
    for place in range(len(words)):
        add(summed, ONE, parts.words[parts.first[place] + place + words[place]])
    linear(summed, parts.job, parts.job_bias, job)
    silu(job)
    _make_room(parts, held, a, words)
    held.words[a, 0] = words
    linear(job, parts.key, parts.key_bias, held.keys[a, 0])
    linear(job, parts.value, parts.value_bias, held.values[a, 0])
    held.present[a, 0] = True
    held.run_s[a, 0] = run_s
    _move(held, a, 0, RECENT)


@inner
def _make_room(parts: Parts, held: Held, a: int, words: np.ndarray) -> None:
    """Forget the oldest job, and the last one of the sort of the new one, or of the sort that came longest ago."""
    gone = RECENT
    while gone < RECENT + HABITS - 1 and not _of_same_sort(parts, held.words[a, gone], words):
        gone += 1
    for k in range(RECENT - 1, 0, -1):
        _move(held, a, k - 1, k)
    for k in range(gone, RECENT, -1):
        _move(held, a, k - 1, k)


@inner
def _move(held: Held, a: int, source: int, target: int) -> None:
    held.words[a, target] = held.words[a, source]
    held.keys[a, target] = held.keys[a, source]
    held.values[a, target] = held.values[a, source]
    held.present[a, target] = held.present[a, source]
    held.run_s[a, target] = held.run_s[a, source]


@inner
def _of_same_sort(parts: Parts, one: np.ndarray, other: np.ndarray) -> bool:
    for field in parts.sort:  # noqa: SIM110 (kernels know no generators)
        if one[field] != other[field]:
            return False
    return True
