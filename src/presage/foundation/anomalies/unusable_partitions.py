"""Partitions that take jobs and start none, for longer than jobs of other partitions wait.

Each job that left or still waits without a start counts by how few jobs of the whole site wait as long as it did
since anything last started in its partition; a start begins the count anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import polars as pl

from presage.foundation.anomalies._base import HIGHEST_SCORE, Anomaly, Detector, missing
from presage.foundation.anomalies._history import History
from presage.foundation.anomalies._surprise import looked_at
from presage.foundation.anomalies.stalled_queue import waited_until
from presage.wording import counted

if TYPE_CHECKING:
    from presage.foundation.anomalies._history import Floats, Ints
    from presage.foundation.anomalies.knowledge import Knowledge
    from presage.traces import Trace

_LEAST_JOBS = 5
_LEAST_USERS = 2
_LEAST_LIKELY = 0.02
_LEAST_WAIT_S = 3_600.0


class UnusablePartitions(Detector):
    """Finds partitions or queues whose jobs never start."""

    name: ClassVar[str] = "unusable-partition"
    family: ClassVar[str] = "waits"

    def needs(self, trace: Trace) -> str | None:
        if all(trace.jobs[name].null_count() == len(trace.jobs) for name in ("partition", "queue")):
            return "the trace has neither partitions (partition) nor queues (queue)"
        return missing(trace, submit_ms="submit times", start_ms="starts", outcome="outcomes")

    def find(self, known: Knowledge) -> list[Anomaly]:
        until = waited_until(known)
        started = np.isfinite(known.start_ms)
        wait_s = (until - np.where(started, known.queued_ms, _idle_since(known, until))) / 1000
        named = known.flags(pl.any_horizontal(pl.col("partition", "queue").is_not_null()))
        tried = named & np.isfinite(wait_s) & (started | (wait_s >= _LEAST_WAIT_S)) & ~known.explained[self.family]
        rows = np.flatnonzero(tried)
        rows = rows[np.lexsort((until[rows], known.places[rows]))]
        new = np.r_[True, np.diff(known.places[rows]) != 0] | started[rows] if len(rows) else started[rows]
        begins = np.flatnonzero(new)
        long = np.diff(np.append(begins, len(rows))) >= _LEAST_JOBS
        least_users = min(_LEAST_USERS, len(np.unique(known.users)))
        findings = []
        for begin, end in zip(begins[long], np.append(begins, len(rows))[1:][long], strict=True):
            part = rows[begin:end]
            part = part[~started[part]]
            if len(part) >= _LEAST_JOBS and len(np.unique(known.users[part])) >= least_users:
                findings += self._judged(known, part, wait_s, until)
        return findings

    def _judged(self, known: Knowledge, rows: Ints, wait_s: Floats, until: Floats) -> list[Anomaly]:
        end_ms = float(until[rows].max())
        elsewhere = (known.places != known.places[rows[0]]) & (known.start_ms <= end_ms) & np.isfinite(wait_s)
        waits = np.sort(wait_s[elsewhere])
        longer = 1 - (np.searchsorted(waits, wait_s[rows]) / (len(waits) + 1))
        price = looked_at(until, np.isfinite(wait_s))[rows[np.argmax(until[rows])]]
        score = min(float(-np.log10(np.maximum(longer, _LEAST_LIKELY)).sum() - price), HIGHEST_SCORE)
        if score < known.min_score:
            return []
        sort, place = known.place_name(int(rows[0]))
        start_ms = float((until[rows] - wait_s[rows] * 1000).min())
        usual_s = float(np.median(waits)) if len(waits) else 0.0
        users = len(np.unique(known.users[rows]))
        wait_h = float(np.median(wait_s[rows])) / 3600
        reason = (
            f"{sort} {place}: none of {len(rows):,} jobs of {counted(users, 'user')} started "
            f"{known.between(start_ms, end_ms)}, though they waited {wait_h:,.1f} h; elsewhere jobs started after "
            f"{usual_s / 3600:,.2f} h"
        )
        return [
            Anomaly(
                self.name, sort, place, int(start_ms), int(end_ms), score, reason,
                evidence=known.ids(rows), jobs=len(rows),
                numbers={
                    "jobs": len(rows), "users": users, "wait_s": wait_h * 3600, "usual_s": usual_s,
                },
                rows=tuple(rows.tolist()),
            )
        ]  # fmt: skip


def _idle_since(known: Knowledge, until: Floats) -> Floats:
    """Return since when each job waited and nothing started in its place."""
    begun = np.flatnonzero(np.isfinite(known.start_ms))
    past = History(known.places[begun], known.start_ms[begun])
    place = past.before(known.places, until)
    some = place > past.first(known.places)
    latest = known.start_ms[begun][past.order][np.maximum(place - 1, 0)] if len(begun) else until
    return np.where(some, np.fmax(known.queued_ms, latest), known.queued_ms)
