"""Jobs that few jobs of the log are like: a trace should not tell them again.

A job that many others are equal to gives nobody away, and a trace without it would not be true. One that is alone
in the log, or nearly, is drawn by chance or by memory; either way its run time is moved by some seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers.columns import FloatArray, IntArray

    Flags = NDArray[np.bool_]
    Keys = NDArray[np.uint64]

_Keys = TypeVar("_Keys", "Keys", np.uint64)

FEW = 50
"""A job that at least that many jobs of the log are equal to may be drawn as it is."""
REACH_S, REACH_SHARE = 10.0, 0.25
"""How far a run time may be moved: by so many seconds and by such a share of it."""
_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


@dataclass(frozen=True)
class RareJobs:
    """The jobs of a log by user, labels and seconds of run time, and of which there are fewer than `FEW`."""

    keys: Keys
    """One for each job that is not equal to another, in ascending order."""
    few: Flags
    far: bool = False
    """Whether run times are moved as far as it takes, half of them up and half down.

    To the nearest seconds all jobs of a sort would go where one side is taken, and the trace would have too much
    or too little work.
    """

    @classmethod
    def none(cls) -> RareJobs:
        """Return that every job may be drawn."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.bool_))

    @classmethod
    def of(cls, user: IntArray, words: IntArray, run_s: FloatArray) -> RareJobs:
        """Return those of a log; of their words, gap and range of run times do not count."""
        keys, counts = np.unique(_keys(user, words, run_s), return_counts=True)
        return cls(keys, counts < FEW)

    def with_all(self) -> RareJobs:
        """Return the same with every job of the log as one that may not be drawn, however many are equal to it."""
        return RareJobs(self.keys, np.ones_like(self.few), far=True)

    def known(self, user: IntArray, words: IntArray, run_s: FloatArray) -> tuple[Flags, Flags]:
        """Return which jobs the log has, and of which of them it has few."""
        keys = _keys(user, words, run_s)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        there = self.keys[places] == keys
        return there, there & self.few[places]

    def avoid(
        self, user: IntArray, words: IntArray, run_s: FloatArray, most_s: FloatArray, rng: np.random.Generator
    ) -> None:
        """Move run times of jobs that are equal to rare ones to the nearest that the log does not have.

        None is moved beyond `most_s`. Where there is none within reach, they stay; `far` is as far as that.
        """
        if not len(self.keys):
            return
        left = np.flatnonzero(self.known(user, words, run_s)[1])
        if not len(left):
            return
        jobs = user[left], words[left], run_s[left], most_s[left]
        side = sides(len(run_s), rng)[left]
        first_s, second_s = self._free_s(*jobs, side), self._free_s(*jobs, -side)
        nearer = np.isnan(second_s) | (np.abs(first_s - run_s[left]) <= np.abs(second_s - run_s[left]))
        moved_s = np.where(~np.isnan(first_s) & (self.far | nearer), first_s, second_s)
        run_s[left] = np.where(np.isnan(moved_s), run_s[left], moved_s)

    def _free_s(
        self, user: IntArray, words: IntArray, run_s: FloatArray, most_s: FloatArray, side: FloatArray
    ) -> FloatArray:
        """Return the nearest run times on one side that the log does not have; NaN where none is within reach."""
        room_s = np.where(side > 0, most_s - run_s, run_s)
        reach_s = room_s if self.far else np.minimum(room_s, np.ceil(REACH_S + REACH_SHARE * run_s))
        found_s = np.full(len(run_s), np.nan)
        left, step = np.arange(len(run_s)), 0
        while len(left := left[step + 1 <= reach_s[left]]):
            step += 1
            moved_s = run_s[left] + step * side[left]
            free = ~self.known(user[left], words[left], moved_s)[0]
            found_s[left[free]] = moved_s[free]
            left = left[~free]
        return found_s


def sides(jobs: int, rng: np.random.Generator) -> FloatArray:
    """Return whether the run time of each job is made longer first, 1, or shorter, -1."""
    return rng.choice([-1.0, 1.0], jobs)


def mixed(keys: _Keys, parts: _Keys) -> _Keys:
    """Return the keys of jobs of which one more part is known; the kernels compile this for single jobs."""
    keys = (keys ^ parts) * _FACTOR
    return keys ^ (keys >> _SHIFT)


def _keys(user: IntArray, words: IntArray, run_s: FloatArray) -> Keys:
    """Return a number for each job that others have only if they are equal but for the gap."""
    keys = np.zeros(len(user), np.uint64)
    for part in (user, *words[:, 1:-1].T, np.rint(run_s).astype(np.int64)):
        keys = mixed(keys, part.astype(np.uint64))
    return keys
