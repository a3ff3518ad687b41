"""Queues in which later jobs that are not smaller, shorter or more important start first, again and again.

Backfilling lets smaller and shorter jobs pass; a job that asks for as many processors and as much time passes
only by priority. Where the log has priorities they decide, where it has none only jobs of the same user are
compared, whose fair share is the same. A job is inverted if such a later one started a quarter of an hour earlier
or more. What counts is that it happens more often than usual in this queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import polars as pl

from presage.foundation.anomalies._base import Anomaly, Detector, missing
from presage.foundation.anomalies._history import History, codes_of
from presage.foundation.anomalies._surprise import DAY_MS, Streak, looked_at, streaks

if TYPE_CHECKING:
    from presage.foundation.anomalies._history import Bools, Floats, Ints
    from presage.foundation.anomalies.knowledge import Knowledge
    from presage.traces import Trace

_TOLERANCE_MS = 900_000.0
_LEVELS = 8
_LEAST_INVERTED = 10
_LEAST_PASSING = 5
_LEAST_USERS = 2
_WEIGHT = 200.0
_PRIOR = 0.02


class PriorityInversions(Detector):
    """Finds queues that serve later jobs first without a reason that the log would show."""

    name: ClassVar[str] = "priority-inversion"
    family: ClassVar[str] = "waits"

    def needs(self, trace: Trace) -> str | None:
        lacking = missing(trace, submit_ms="submit times", start_ms="starts")
        if lacking is None and trace.jobs.select(pl.col("user", "priority").is_null().all()).row(0) == (
            True,
            True,
        ):
            return "the trace has neither users (user) nor priorities (priority)"
        return lacking

    def find(self, known: Knowledge) -> list[Anomaly]:
        held = known.flags(pl.col("job_id").is_in(known.trace.edges["job_id"].to_list()))
        told = np.isfinite(known.queued_ms) & np.isfinite(known.start_ms) & ~held & ~known.explained[self.family]
        rows = np.flatnonzero(told & (known.start_ms >= known.queued_ms))
        jobs = _Requests.of(known, rows)
        inverted, passing = jobs.inverted()
        # A job is known to be inverted or not when it starts.
        order = np.lexsort((jobs.start, known.places[rows]))
        rows, inverted, passing = rows[order], inverted[order], passing[order]
        place, start = known.places[rows], known.start_ms[rows]
        price = looked_at(start, np.ones(len(rows), np.bool_))
        found = streaks(place, inverted, _usual(place, inverted, start), price, known.min_score)
        findings = [self._finding(known, rows, inverted, passing, streak) for streak in found]
        return [finding for finding in findings if finding is not None]

    @staticmethod
    def _users(known: Knowledge) -> int:
        return len(np.unique(known.users))

    def _finding(
        self, known: Knowledge, rows: Ints, inverted: Bools, passing: Bools, streak: Streak
    ) -> Anomaly | None:
        stretch = slice(streak.first, streak.last + 1)
        members, bad, ahead = rows[stretch], rows[stretch][inverted[stretch]], rows[stretch][passing[stretch]]
        # What concerns one user alone, that user may have wanted.
        users = len(np.unique(known.users[bad]))
        if (
            len(bad) < _LEAST_INVERTED
            or len(ahead) < _LEAST_PASSING
            or users < min(_LEAST_USERS, self._users(known))
        ):
            return None
        sort, place = known.place_name(int(members[0]))
        start_ms, end_ms = known.start_ms[members[0]], known.start_ms[members[-1]]
        before = inverted[: streak.first][known.places[rows[: streak.first]] == known.places[members[0]]]
        usually = f"usually {100 * before.mean():.1f} %" if len(before) else "from the beginning on"
        of_whom = "" if known.trace.manifest.has.get("priorities") else " of the same user"
        reason = (
            f"{sort} {place}: {len(bad):,} of {len(members):,} jobs that started "
            f"{known.between(start_ms, end_ms)} had been passed by later ones{of_whom} that were not smaller, "
            f"shorter or more important ({len(ahead):,} such); {usually}"
        )
        return Anomaly(
            self.name, sort, place, int(start_ms), int(end_ms), streak.score, reason,
            evidence=known.ids(bad), jobs=len(bad),
            numbers={"inverted": len(bad), "started": len(members), "passing": len(ahead)},
            rows=tuple(bad.tolist()),
        )  # fmt: skip


@dataclass(frozen=True)
class _Requests:
    """What jobs asked for, as far as it decides who goes first."""

    group: Ints
    queued: Floats
    start: Floats
    cpus: Floats
    limit: Floats
    priority: Floats

    @classmethod
    def of(cls, known: Knowledge, rows: Ints) -> _Requests:
        jobs = known.trace.jobs.select(
            "cluster", "partition", "queue", "qos", "constraint", "user", "gpus_req", "gpu_type_req", "nodes_req",
            "mem_req_bytes",
        )  # fmt: skip
        priority = known.floats(pl.col("priority"))
        ranked = bool(np.isfinite(priority).any())
        columns = [name for name in jobs.columns if not (ranked and name == "user")]
        group = codes_of(jobs, *columns)
        return cls(
            group[rows], known.queued_ms[rows], known.start_ms[rows], np.nan_to_num(known.cpus[rows], nan=1.0),
            np.nan_to_num(known.floats(pl.col("limit_s"))[rows]), np.nan_to_num(priority[rows]),
        )  # fmt: skip

    def inverted(self) -> tuple[Bools, Bools]:
        """Return who was passed by a later job that is not smaller, shorter or more important, and who passed so.

        Sizes, limits and priorities are rounded to a few levels on the safe side: who waits is taken for larger,
        and who passes for smaller, than it is.
        """
        order = np.lexsort((self.queued, self.group))
        opens = np.r_[True, np.diff(self.group[order]) != 0] if len(order) else np.zeros(0, np.bool_)
        number = np.cumsum(opens)
        passed, passing = np.zeros(len(order), np.bool_), np.zeros(len(order), np.bool_)
        cpus, limit, rank = (column[order] for column in (self.cpus, self.limit, -self.priority))
        start = self.start[order]
        behind, ahead = _neighbours(number, self.queued[order])
        for size in _levels(cpus):
            for time in _levels(limit):
                for low in _levels(rank):
                    victim = (cpus <= size) & (limit <= time) & (rank <= low)
                    victor = (cpus >= size) & (limit >= time) & (rank >= low)
                    first = _at(_least_so_far(np.where(victor, start, np.inf)[::-1], number[::-1])[::-1], behind)
                    passed |= victim & (first + _TOLERANCE_MS < start)
                    last = -_at(_least_so_far(np.where(victim, -start, np.inf), number), ahead)
                    passing |= victor & (last - _TOLERANCE_MS > start)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return passed[back], passing[back]


def _levels(values: Floats) -> Floats:
    """Return a few of the values, at equal shares of them."""
    return np.unique(np.quantile(values, np.linspace(0, 1, _LEVELS), method="higher")) if len(values) else values


def _neighbours(number: Ints, queued: Floats) -> tuple[Ints, Ints]:
    """Return the places of the next job of the same group that was queued later, and of the last queued earlier.

    -1 where there is none. Jobs are sorted by group and then by when they were queued.
    """
    if not len(number):
        return number, number
    place = np.arange(len(number))
    other = np.r_[True, (np.diff(number) != 0) | (np.diff(queued) != 0)]
    begin = np.maximum.accumulate(np.where(other, place, 0))
    end = np.minimum.accumulate(np.where(np.r_[other[1:], True], place + 1, len(number))[::-1])[::-1]
    behind = np.where((end < len(number)) & (number[np.minimum(end, len(number) - 1)] == number), end, -1)
    ahead = np.where((begin > 0) & (number[np.maximum(begin - 1, 0)] == number), begin - 1, -1)
    return behind, ahead


def _least_so_far(value: Floats, number: Ints) -> Floats:
    """Return the least value so far of each group."""
    frame = pl.DataFrame({"value": value, "number": number})
    return frame.select(pl.col("value").cum_min().over("number"))["value"].to_numpy()


def _at(values: Floats, places: Ints) -> Floats:
    return np.where(places >= 0, values[places], np.inf)


def _usual(place: Ints, inverted: Bools, start: Floats) -> Floats:
    """Return the share of inverted jobs of each place until the day before."""
    past = History(place, start)
    since, until = past.first(place), past.before(place, start - DAY_MS)
    count = past.total(inverted.astype(np.float64), since, until)
    return np.asarray((count + _WEIGHT * _PRIOR) / (until - since + _WEIGHT))
