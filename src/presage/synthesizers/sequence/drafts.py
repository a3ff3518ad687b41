"""Drafts: what a user does in six hours is drawn several times, and the one that keeps the plan best is kept.

The network is told how much work is still to come, but it draws job after job and need not end there. Plans are
what users of the log did, who kept theirs by definition: of several drafts, the nearest is most like them.

Letters in shapes: A streams, C drafts of each. Draft c of stream a is in row a * C + c of what is held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from presage.synthesizers.columns import FloatArray, IntArray
    from presage.synthesizers.sequence.features import Moment
    from presage.synthesizers.sequence.memory import Memory
    from presage.synthesizers.sequence.plans import Plan
    from presage.synthesizers.sequence.steps import NextJobs

LATE = 1.0
"""How much six hours too late count: as much as work that is off by a factor of so many powers of e."""


class Drafts:
    """The jobs of a plan, each drawn `count` times, and which of them are kept."""

    def __init__(self, plan: Plan, fields: int, count: int) -> None:
        jobs = len(plan.day)
        self._plan, self._count = plan, count
        self._words = np.empty((jobs, count, fields), np.int64)
        self._run_s, self._time_s = np.empty((jobs, count)), np.empty((jobs, count))
        self._ends = plan.ends_of_days()
        self._kept = np.zeros(jobs, np.int64)
        """Which draft, at the last job of each day."""

    def write(self, places: IntArray, new: NextJobs, time_s: FloatArray) -> None:
        """Take up one job of every draft of streams, which is at `places` of the plan, and when it comes."""
        self._words[places] = new.words.reshape(len(places), self._count, -1)
        self._run_s[places] = new.run_s.reshape(-1, self._count)
        self._time_s[places] = time_s.reshape(-1, self._count)

    def settle(self, places: IntArray, moment: Moment, memory: Memory) -> None:
        """Where the jobs just written, at `places`, are the last of their day, go on from the best draft alone."""
        streams = np.flatnonzero(self._ends[places])
        if self._count == 1 or not len(streams):
            return
        rows = streams[:, None] * self._count + np.arange(self._count)  # (A, C)
        best = self._distance(places[streams, None], moment, rows).argmin(axis=1)
        self._kept[places[streams]] = best
        others = rows[np.arange(self._count) != best[:, None]]
        source = np.repeat(rows[np.arange(len(rows)), best], self._count - 1)
        moment.copy(source, others)
        memory.copy(source, others)

    def kept(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return words, run times and times of the jobs that are kept."""
        ends = np.flatnonzero(self._ends)
        draft = np.repeat(self._kept[ends], np.diff(ends, prepend=-1))
        row = np.arange(len(draft))
        return self._words[row, draft], self._run_s[row, draft], self._time_s[row, draft]

    def _distance(self, places: IntArray, moment: Moment, rows: IntArray) -> FloatArray:
        """Return how far each draft is from what the plan says of the day that ends at `places`: (A, C)."""
        plan, part_s = self._plan, self._plan.calendar.part_s
        off = np.abs(np.log1p(moment.work_today[rows]) - np.log1p(plan.work[places]))
        late_s = moment.now_s[rows] - (plan.day[places] + 1) * part_s
        distance: FloatArray = off + LATE * np.maximum(late_s, 0) / part_s
        return distance
