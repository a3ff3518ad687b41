"""What a stream remembers: its last jobs, and the last one of each sort of job that it had.

Letters in shapes: A streams, K jobs that one may look back to, F fields, D width of a job's vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers.sequence.features import HABITS, HISTORY, RECENT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers.columns import FloatArray, IntArray

    Float32 = NDArray[np.float32]
    Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Memory:
    """Jobs that the next of each stream may look back to: `RECENT` last ones, then `HABITS` of different sorts.

    Each sort is kept by its last job, the sort that came last first. `sort` are the fields that say what sort a
    job is of. A place without a job holds no word that there is.
    """

    words: IntArray  # (A, K, F)
    keys: Float32  # (A, K, D)
    values: Float32  # (A, K, D)
    present: Flags  # (A, K)
    run_s: FloatArray  # (A, K)
    sort: tuple[int, ...]

    @classmethod
    def empty(cls, streams: int, nothing: IntArray, width: int, sort: tuple[int, ...]) -> Memory:
        """Return the memory of streams before their first job; `nothing` are the words for no job."""
        return cls(
            words=np.tile(nothing, (streams, HISTORY, 1)),
            keys=np.zeros((streams, HISTORY, width), np.float32),
            values=np.zeros((streams, HISTORY, width), np.float32),
            present=np.zeros((streams, HISTORY), np.bool_),
            run_s=np.zeros((streams, HISTORY)),
            sort=sort,
        )

    def of(self, streams: slice | IntArray) -> Memory:
        """Return the memory of some streams; of a slice of them it is not a copy."""
        return Memory(
            self.words[streams],
            self.keys[streams],
            self.values[streams],
            self.present[streams],
            self.run_s[streams],
            self.sort,
        )

    def copy(self, source: IntArray, target: IntArray) -> None:
        """Let the streams at `target` remember what those at `source` do."""
        for held in (self.words, self.keys, self.values, self.present, self.run_s):
            held[target] = held[source]

    def run_of_same_sort_s(self, words: IntArray) -> FloatArray:
        """Return how long the last job of the same sort and range of run times ran; NaN where there is none."""
        fields = (*self.sort, words.shape[1] - 1)
        same = (self.words[:, RECENT:][:, :, fields] == words[:, None, fields]).all(axis=2)
        found = self.run_s[np.arange(len(words)), RECENT + same.argmax(axis=1)]
        return np.where(same.any(axis=1), found, np.nan)

    def add(self, words: IntArray, key: Float32, value: Float32, run_s: FloatArray) -> None:
        """Take up a new job of each stream, forgetting the oldest, and the last one of its sort."""
        same = (self.words[:, RECENT:][:, :, self.sort] == words[:, None, self.sort]).all(axis=2)
        gone = RECENT + np.where(same.any(axis=1), same.argmax(axis=1), HABITS - 1)
        slots = np.arange(HISTORY)
        moved = (slots < RECENT) | (slots <= gone[:, None])
        source = np.where(moved, slots - 1, slots)  # (A, K)
        streams = np.arange(len(words))[:, None]
        _push(self.words, words, streams, source)
        _push(self.keys, key, streams, source)
        _push(self.values, value, streams, source)
        _push(self.present, np.ones(len(words), np.bool_), streams, source)
        _push(self.run_s, run_s, streams, source)


def _push(held: NDArray[np.generic], new: NDArray[np.generic], streams: IntArray, source: IntArray) -> None:
    """Move what is held to its new places, and put what is new to the front of both parts."""
    held[:] = held[streams, source]
    held[:, 0] = new
    held[:, RECENT] = new
