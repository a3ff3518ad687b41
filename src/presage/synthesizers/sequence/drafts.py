"""Drafts: what a user does in six hours is drawn several times, and the draft that keeps the plan best is kept.

The network is told how much work is still to come, but it draws job after job and need not end there. Plans are
what users of the log did, who kept theirs by definition: of several drafts, the nearest is most like them. And a
draft is the better for bringing users nearer to what is usual for them. Where somebody has thousands of jobs in
six hours, a draft is kept of every so many: five throws are too few for all of them at once.

Letters in shapes: A streams, C drafts of each. Draft c of stream a is in row a * C + c of what is held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from presage.synthesizers.columns import FloatArray, IntArray
    from presage.synthesizers.sequence.features import Moment
    from presage.synthesizers.sequence.fields import Flags
    from presage.synthesizers.sequence.memory import Memory
    from presage.synthesizers.sequence.plans import Plan
    from presage.synthesizers.sequence.steps import NextJobs
    from presage.synthesizers.sequence.tallies import Tally

HEAVY = 3.0
"""How much more it counts that work is off by a factor, where it is as much as days have on average, or more.

Planned work or drawn work, whichever is more: queues are made by those who bring much, planned or not.
"""
LATE = 1.0
"""Six hours too late count as much as light work that is off by so many powers of e."""
UNUSUAL = 4.0
"""And so much a draft of which every job would have to be another for its user to be as usual in one column."""
AT_ONCE = 100
"""How many jobs of a day are drawn at most before a draft of them is kept."""


class Drafts:
    """The jobs of a plan, each drawn `count` times, and which of them are kept."""

    def __init__(self, plan: Plan, fields: int, count: int, tally: Tally) -> None:
        jobs = len(plan.day)
        self._plan, self._count, self._tally = plan, count, tally
        self._user = np.repeat(plan.user, plan.jobs)
        self._words = np.empty((jobs, count, fields), np.int64)
        self._run_s, self._time_s = np.empty((jobs, count)), np.empty((jobs, count))
        self._ends_day = plan.ends_of_days()
        of_day = np.arange(jobs) - _begins(self._ends_day)
        self._ends = self._ends_day | (of_day % AT_ONCE == AT_ONCE - 1)
        """Which jobs are the last before a draft is kept."""
        self._begin = _begins(self._ends)
        self._mean_work = max(1.0, float(plan.work[self._ends_day].mean()))
        self._kept = np.zeros(jobs, np.int64)
        """Which draft, at each of the last jobs."""

    def write(self, places: IntArray, new: NextJobs, time_s: FloatArray) -> None:
        """Take up one job of every draft of streams, which is at `places` of the plan, and when it comes."""
        self._words[places] = new.words.reshape(len(places), self._count, -1)
        self._run_s[places] = new.run_s.reshape(-1, self._count)
        self._time_s[places] = time_s.reshape(-1, self._count)

    def settle(self, places: IntArray, moment: Moment, memory: Memory) -> None:
        """Where the jobs just written, at `places`, are the last of theirs, go on from the best draft alone."""
        streams = np.flatnonzero(self._ends[places])
        if self._count == 1 or not len(streams):
            return
        rows = streams[:, None] * self._count + np.arange(self._count)  # (A, C)
        off = self._off_plan(places[streams, None], moment, rows)
        best = np.array([self._choose(*each) for each in zip(places[streams].tolist(), off, strict=True)])
        self._kept[places[streams]] = best
        others = rows[np.arange(self._count) != best[:, None]]
        source = np.repeat(rows[np.arange(len(rows)), best], self._count - 1)
        moment.copy(source, others)
        memory.copy(source, others)

    def kept(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return words, run times and times of the jobs that are kept."""
        row = np.arange(len(self._ends))
        draft = self._kept[self._ends][np.cumsum(self._ends) - self._ends]
        return self._words[row, draft], self._run_s[row, draft], self._time_s[row, draft]

    def _choose(self, end: int, off_plan: FloatArray) -> int:
        """Return the draft to keep of the jobs that end at `end`, and tally it; `off_plan` (C,)."""
        begin, user = int(self._begin[end]), int(self._user[end])
        excess = self._tally.after(user, self._words[begin : end + 1])
        unusual = self._tally.distance(user, excess) / (end + 1 - begin)
        best = int((off_plan + UNUSUAL * unusual).argmin())
        self._tally.take_up(user, excess[best])
        return best

    def _off_plan(self, places: IntArray, moment: Moment, rows: IntArray) -> FloatArray:
        """Return how far each draft is from what the plan says of the days that `places` are on: (A, C).

        Before a day ends it counts only that there is more work than was planned: less may still become enough.
        """
        plan, part_s = self._plan, self._plan.calendar.part_s
        planned, done = plan.work[places], moment.work_today[rows]
        off = np.log1p(done) - np.log1p(planned)
        off = np.where(self._ends_day[places], np.abs(off), np.maximum(off, 0.0))
        heavy = 1 + HEAVY * np.minimum(np.maximum(planned, done) / self._mean_work, 1.0)
        late_s = moment.now_s[rows] - (plan.day[places] + 1) * part_s
        distance: FloatArray = heavy * off + LATE * np.maximum(late_s, 0) / part_s
        return distance


def _begins(ends: Flags) -> IntArray:
    """Return for each row where those begin that end with the next of `ends`, at it or below it."""
    last = np.flatnonzero(ends)
    rows = np.diff(last, prepend=-1)
    begins: IntArray = np.repeat(last + 1 - rows, rows)
    return begins
