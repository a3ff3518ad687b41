"""Jobs that wait, or waited, far longer than comparable ones while these passed them.

Comparable are jobs of the same partition and queue and of about the same size and limit. Waiting long is no
anomaly where all do: at least ten comparable jobs that came later must have started before. Jobs that depend on
others are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import polars as pl

from presage.foundation.anomalies._base import HIGHEST_SCORE, Anomaly, Detector, missing
from presage.foundation.anomalies._episodes import episodes
from presage.foundation.anomalies._history import History
from presage.foundation.anomalies._surprise import looked_at, tail_surprise
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from presage.foundation.anomalies._history import Floats, Ints
    from presage.foundation.anomalies.knowledge import Knowledge
    from presage.traces import Trace

_COMPARED = 25
_LEAST_COMPARED = 10
_LEAST_PASSED = 10
_LEAST_WAIT_S = 3_600.0
_CANDIDATES = 500
_USUAL, _SCALE = 0.3, 0.7


class StalledQueue(Detector):
    """Finds jobs that do not get their turn."""

    name: ClassVar[str] = "stalled-queue"
    family: ClassVar[str] = "waits"

    def needs(self, trace: Trace) -> str | None:
        return missing(trace, submit_ms="submit times", start_ms="starts")

    def find(self, known: Knowledge) -> list[Anomaly]:
        until = waited_until(known)
        wait_s = np.maximum(until - known.queued_ms, 0) / 1000
        group = _comparable(known)
        longest_s, passed_by = self._usual(known, group, until, wait_s)
        distance = np.maximum(np.log(wait_s + 60) - np.log(longest_s + 60), 0)
        distance[(wait_s < _LEAST_WAIT_S) | (passed_by < _LEAST_PASSED)] = 0.0
        distance[np.isnan(longest_s) | np.isnan(wait_s)] = np.nan
        surprise = tail_surprise(distance, until, usual=_USUAL, scale=_SCALE)
        over = surprise - looked_at(until, np.isfinite(distance))
        held = known.flags(pl.col("job_id").is_in(known.trace.edges["job_id"].to_list()))
        rows = np.flatnonzero((over >= known.min_score) & ~held & ~known.explained[self.family])
        rows = rows[np.argsort(-over[rows], kind="stable")][:_CANDIDATES]
        passed = _passed(known, group, rows, until)
        rows, passed = rows[passed >= _LEAST_PASSED], passed[passed >= _LEAST_PASSED]
        count = dict(zip(rows.tolist(), passed.tolist(), strict=True))
        together = episodes(
            rows, known.users[rows] * (known.places.max(initial=0) + 1) + known.places[rows], until[rows]
        )
        return [self._finding(known, part, over, wait_s, longest_s, until, count) for part in together]

    def _usual(self, known: Knowledge, group: Ints, until: Floats, wait_s: Floats) -> tuple[Floats, Floats]:
        """Return the longest wait of the last comparable jobs, and how many comparable ones passed at least."""
        started = np.flatnonzero(np.isfinite(known.start_ms) & np.isfinite(wait_s))
        past = History(group[started], known.start_ms[started])
        before = past.before(group, until)
        last = past.last(wait_s[started], group, before, _COMPARED)
        queued = np.flatnonzero(np.isfinite(known.queued_ms))
        line = History(group[queued], known.queued_ms[queued])
        ahead = line.before(group, known.queued_ms) - line.first(group)
        passed = before - past.first(group) - ahead
        return np.where(last.number >= _LEAST_COMPARED, last.high, np.nan), passed.astype(np.float64)

    def _finding(
        self, known: Knowledge, rows: Ints, over: Floats, wait_s: Floats, longest_s: Floats, until: Floats,
        passed: dict[int, int],
    ) -> Anomaly:  # fmt: skip
        worst = int(rows[np.argmax(over[rows])])
        job, user = known.text("job_id", worst), known.text("user", worst, default="")
        whose = f" of user {user}" if user else ""
        sort, place = known.place_name(worst)
        begun = np.isfinite(known.start_ms[worst])
        others = f"; so did {len(rows) - 1:,} more{whose}" if len(rows) > 1 else ""
        reason = (
            f"job {job}{whose} {'waited' if begun else 'has waited'} {wait_s[worst] / 3600:,.1f} h "
            f"in {sort} {place}, where the last {_COMPARED} comparable jobs waited at most "
            f"{longest_s[worst] / 3600:,.2f} h, and {passed[worst]:,} that came later started before{others}"
        )
        several = len(rows) > 1 and bool(user)
        return Anomaly(
            self.name, *(("user", user) if several else ("job", job)),
            int(np.min(known.queued_ms[rows])), int(np.max(until[rows])),
            min(float(over[worst]), HIGHEST_SCORE), reason,
            evidence=known.ids(rows[np.argsort(-over[rows], kind="stable")]), jobs=len(rows),
            numbers={
                "wait_s": float(wait_s[worst]), "longest_s": float(longest_s[worst]),
                "passed": passed[worst], "jobs": len(rows),
            },
            rows=tuple(rows.tolist()),
        )  # fmt: skip


def waited_until(known: Knowledge) -> Floats:
    """Return when each job's wait ended: by its start, by its end without a run, or not before now."""
    pending = known.flags(pl.col("outcome") == Outcome.PENDING.value)
    ran = np.nan_to_num(known.run_s) > 0
    gone = np.where(pending, known.now_ms, np.where(ran, np.nan, known.end_ms))
    return np.where(np.isfinite(known.start_ms), known.start_ms, gone)


def _comparable(known: Knowledge) -> Ints:
    """Return a number for each place, size (within a factor of two), limit (of four), and with or without GPUs."""
    limit_s = np.nan_to_num(known.floats(pl.col("limit_s")), nan=1.0)
    sizes = np.log2(np.clip(np.nan_to_num(known.cpus, nan=1.0), 1.0, 2.0**60)).astype(np.int64)
    lengths = (np.log2(np.clip(limit_s, 1.0, 2.0**60)) / 2).astype(np.int64)
    accelerated = (np.nan_to_num(known.gpus) > 0).astype(np.int64)
    return ((known.places * 64 + sizes) * 64 + lengths) * 2 + accelerated


def _passed(known: Knowledge, group: Ints, rows: Ints, until: Floats) -> Ints:
    """Return how many comparable jobs came later than each of the rows and started before its wait ended."""
    order = np.lexsort((known.queued_ms, group))
    sorted_group, queued, start = group[order], known.queued_ms[order], known.start_ms[order]
    passed = np.zeros(len(rows), np.int64)
    for place, row in enumerate(rows.tolist()):
        begin, end = np.searchsorted(sorted_group, [group[row], group[row] + 1])
        later = begin + np.searchsorted(queued[begin:end], [known.queued_ms[row], until[row]], side="right")
        passed[place] = int((start[slice(*later)] < until[row]).sum())
    return passed
