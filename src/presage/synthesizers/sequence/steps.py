"""One job more of each of many streams, in NumPy: what the kernels do where they are worth it.

Letters in shapes: A streams, F fields, V words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.synthesizers.sequence.features import after_gap, after_job, before_gap
from presage.synthesizers.sequence.forward import draw_words
from presage.synthesizers.sequence.meanings import WEEK_H, gap_seconds, run_seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers.columns import FloatArray, IntArray
    from presage.synthesizers.sequence.features import Moment
    from presage.synthesizers.sequence.fields import Fields
    from presage.synthesizers.sequence.forward import Weights
    from presage.synthesizers.sequence.meanings import Meanings
    from presage.synthesizers.sequence.memory import Memory


class NextJobs(NamedTuple):
    """One job of each stream."""

    words: IntArray  # (A, F)
    gap_s: FloatArray
    run_s: FloatArray


class Steps:
    """Draws jobs of streams. What it was made of must not change before the last one is drawn."""

    def __init__(self, fields: Fields, weights: Weights, meanings: Meanings, hours: FloatArray) -> None:
        self._fields, self._weights, self._meanings, self._hours = fields, weights, meanings, hours
        # Three for each field, one more for a number that may be near another, and one for where in its range it
        # lies: the gap and the run time. They are used in the order of the fields.
        self._chances = 3 * len(fields.names) + 4

    def next_jobs(self, moment: Moment, memory: Memory, user: IntArray, rng: np.random.Generator) -> NextJobs:
        """Return the next job of each stream."""
        return self._draw(moment, memory, user, rng.random((self._chances, len(user))))

    def take_up(self, moment: Moment, memory: Memory, new: NextJobs) -> None:
        """Let the jobs just drawn be the last ones of their streams, and be remembered."""
        words, meanings = new.words, self._meanings
        limit_s = meanings.limits_s[words[:, meanings.limit_place]]
        size = meanings.sizes[words[:, meanings.size_place]]
        # Stacked, and so copied, because what is later may be part of what was before.
        later = np.stack(after_job(moment, new.gap_s, new.run_s, limit_s, size))
        for before, after in zip(moment, later, strict=True):
            before[:] = after
        memory.add(words, *self._weights.remember(words), new.run_s)

    def _draw(self, moment: Moment, memory: Memory, user: IntArray, chances: FloatArray) -> NextJobs:
        """Return the next jobs; `chances` are random numbers in [0, 1) of each stream."""
        fields, weights, last = self._fields, self._weights, len(self._fields.names) - 1
        words = np.empty((len(user), last + 1), np.int64)
        fresh = moment.done_today == 0
        numbers, who = before_gap(moment), weights.who(user)
        drawn = np.zeros((len(user), weights.width), np.float32)
        told = np.concatenate([numbers, who, drawn], axis=1)
        words[:, 0] = draw_words(
            weights, 0, told, memory, words[:, :0], user, fields.possible_gaps(fresh), chances[:4],
            near=True, fresh=fresh, favour=self._favour(moment),
        )  # fmt: skip
        gap_s = gap_seconds(self._meanings, words[:, 0], moment.now_s, chances[4])
        numbers = after_gap(moment, gap_s, numbers)
        for place in range(1, last + 1):
            drawn += weights.vectors(place - 1, words[:, place - 1])
            told = np.concatenate([numbers, who, drawn], axis=1)
            possible = fields.possible_runs(words) if place == last else None
            words[:, place] = draw_words(
                weights, place, told, memory, words[:, :place], user, possible, chances[2 + 3 * place :],
                near=place == last,
            )  # fmt: skip
        bound_s, before_s = fields.run_bound_s(words), memory.run_of_same_sort_s(words)
        run_s = run_seconds(self._meanings, words[:, last], bound_s, before_s, chances[-1])
        return NextJobs(words, gap_s, run_s)

    def _favour(self, moment: Moment) -> NDArray[np.float32]:
        """Return how much likelier each word of the gap is for the hour in which it would end: (A, V)."""
        middle_s = (self._meanings.gap_low + self._meanings.gap_high) / 2
        ends_h = (moment.now_s[:, None] + middle_s) / 3600
        return self._hours[ends_h.astype(np.int64) % WEEK_H].astype(np.float32)
