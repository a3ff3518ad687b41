"""Jobs that ran far longer or shorter than the same user's similar jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from presage.foundation.anomalies._base import HIGHEST_SCORE, Anomaly, Detector, missing
from presage.foundation.anomalies._episodes import episodes
from presage.foundation.anomalies._surprise import looked_at, tail_surprise

if TYPE_CHECKING:
    from presage.foundation.anomalies._history import Floats, Ints
    from presage.foundation.anomalies.knowledge import Knowledge
    from presage.traces import Trace

LEAST_DIFFERENCE_S = 600.0
_USUAL, _SCALE = 0.3, 0.7


class RunTimes(Detector):
    """Finds run times that are abnormal for the user and the kind of job."""

    name: ClassVar[str] = "run-time"
    family: ClassVar[str] = "runs"

    def needs(self, trace: Trace) -> str | None:
        return missing(trace, run_s="run times", user="users")

    def find(self, known: Knowledge) -> list[Anomaly]:
        at = known.end_ms
        findings = []
        for longer, distance in ((True, beyond_similar(known)), (False, shortfall(known))):
            # Who fails early is no anomaly of run times, and who is stopped at a limit or by hand is another kind.
            own = np.where(known.completed, distance, np.nan)
            over = surprise(known, own) - looked_at(at, np.isfinite(own))
            rows = np.flatnonzero(~known.explained[self.family] & (over >= known.min_score))
            findings += [
                self._finding(known, together, over, longer)
                for together in episodes(rows, known.users[rows], at[rows])
            ]
        return findings

    def _finding(self, known: Knowledge, rows: Ints, over: Floats, longer: bool) -> Anomaly:
        worst = int(rows[np.argmax(over[rows])])
        bound = known.expected.log_high if longer else known.expected.log_low
        run_s, bound_s = float(known.run_s[worst]), float(np.exp(bound[worst]))
        user, job = known.text("user", worst), known.text("job_id", worst)
        ratio = run_s / bound_s
        how = f"{ratio:,.1f} times the longest" if longer else f"1/{1 / max(ratio, 1e-6):,.0f} of the shortest"
        others = f"; so odd were {len(rows) - 1:,} more" if len(rows) > 1 else ""
        reason = (
            f"user {user}: job {job} ran {run_s:,.0f} s, {how} of the "
            f"{known.expected.similar[worst]} similar jobs before it ({bound_s:,.0f} s){others}"
        )
        return Anomaly(
            self.name, *(("job", job) if len(rows) == 1 else ("user", user)),
            int(np.min(known.begin_ms[rows])), int(np.max(known.end_ms[rows])),
            min(float(over[worst]), HIGHEST_SCORE), reason,
            evidence=known.ids(rows[np.argsort(-over[rows], kind="stable")]), jobs=len(rows),
            numbers={
                "run_s": run_s, "longest_s" if longer else "shortest_s": bound_s,
                "similar": int(known.expected.similar[worst]), "jobs": len(rows),
            },
            rows=tuple(rows.tolist()),
        )  # fmt: skip


def beyond_similar(known: Knowledge) -> Floats:
    """Return ln of how many times the longest similar run each job ran, at least 0; nan where too little was
    known.
    """
    high = known.expected.log_high
    clear = known.run_s - np.exp(high) >= LEAST_DIFFERENCE_S
    beyond = np.maximum(np.log(np.maximum(known.run_s, 1.0)) - high, 0)
    return np.where(np.isnan(beyond) | clear, beyond, 0.0)


def shortfall(known: Knowledge) -> Floats:
    """Return ln of how many times as long the shortest similar run was as each job, at least 0."""
    low = known.expected.log_low
    clear = np.exp(low) - known.run_s >= LEAST_DIFFERENCE_S
    below = np.maximum(low - np.log(np.maximum(known.run_s, 1.0)), 0)
    return np.where(np.isnan(below) | clear, below, 0.0)


def surprise(known: Knowledge, distance: Floats) -> Floats:
    """Return the surprise of distances as those of this site have been until then."""
    return tail_surprise(distance, known.last_ms, usual=_USUAL, scale=_SCALE)
