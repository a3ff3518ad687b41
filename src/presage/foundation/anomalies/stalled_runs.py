"""Jobs that run, or ran until somebody or something stopped them, far beyond similar ones, doing little.

Where the log knows the CPU time, a stalled job has used little of it. Where it does not, only jobs are taken that
still run or did not end by themselves. How unusual that is for the user counts too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import polars as pl

from presage.foundation.anomalies._base import HIGHEST_SCORE, Anomaly, Detector, missing
from presage.foundation.anomalies._episodes import episodes
from presage.foundation.anomalies._history import History
from presage.foundation.anomalies._surprise import looked_at
from presage.foundation.anomalies.run_times import beyond_similar, surprise
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from presage.foundation.anomalies._history import Bools, Floats, Ints
    from presage.foundation.anomalies.knowledge import Knowledge
    from presage.traces import Trace

_LITTLE = 0.05
_WEIGHT = 20.0
_PRIOR = 0.1
_STOPPED = [Outcome.RUNNING.value, Outcome.TIMEOUT.value, Outcome.CANCELLED.value]


class StalledRuns(Detector):
    """Finds jobs that hang."""

    name: ClassVar[str] = "stalled-run"
    family: ClassVar[str] = "runs"

    def needs(self, trace: Trace) -> str | None:
        return missing(trace, run_s="run times", user="users")

    def find(self, known: Knowledge) -> list[Anomaly]:
        beyond = beyond_similar(known)
        at = known.last_ms
        share = cpu_shares(known)
        stopped = known.flags(pl.col("outcome").is_in(_STOPPED))
        stalls = np.where(np.isnan(share), stopped, share < _LITTLE)
        over = surprise(known, beyond) + _unusual(known, stalls, at) - looked_at(at, np.isfinite(beyond))
        odd = stalls & (beyond > 0) & (over >= known.min_score) & ~known.explained[self.family]
        rows = np.flatnonzero(odd)
        return [
            self._finding(known, together, over, share, at)
            for together in episodes(rows, known.users[rows], at[rows])
        ]

    def _finding(self, known: Knowledge, rows: Ints, over: Floats, share: Floats, at: Floats) -> Anomaly:
        worst = int(rows[np.argmax(over[rows])])
        run_s, longest_s = float(known.run_s[worst]), float(np.exp(known.expected.log_high[worst]))
        user, job = known.text("user", worst), known.text("job_id", worst)
        verb = "has run" if known.running[worst] else "ran"
        cpu = "" if np.isnan(share[worst]) else f" and used {100 * share[worst]:.1f} % of its processors' time"
        others = f"; so did {len(rows) - 1:,} more" if len(rows) > 1 else ""
        reason = (
            f"user {user}: job {job} {verb} {run_s:,.0f} s, {run_s / longest_s:,.1f} times the longest of "
            f"{known.expected.similar[worst]} similar jobs before it ({longest_s:,.0f} s){cpu}{others}"
        )
        numbers = {"run_s": run_s, "longest_s": longest_s, "jobs": float(len(rows))}
        if np.isfinite(share[worst]):
            numbers["cpu_share"] = round(float(share[worst]), 4)
        return Anomaly(
            self.name, *(("job", job) if len(rows) == 1 else ("user", user)),
            int(np.min(known.begin_ms[rows])), int(np.max(at[rows])),
            min(float(over[worst]), HIGHEST_SCORE), reason,
            evidence=known.ids(rows[np.argsort(-over[rows], kind="stable")]), jobs=len(rows), numbers=numbers,
            rows=tuple(rows.tolist()),
        )  # fmt: skip


def _unusual(known: Knowledge, stalls: Bools, at: Floats) -> Floats:
    """Return how surprising it is for the user to have a job that used little, or that had to be stopped."""
    told = np.flatnonzero(np.isfinite(at))
    past = History(known.users[told], at[told])
    since, until = past.first(known.users), past.before(known.users, at)
    count = past.total(stalls[told].astype(np.float64), since, until)
    likely = (count + _WEIGHT * _PRIOR) / (until - since + _WEIGHT)
    return np.asarray(-np.log10(np.clip(likely, 1e-3, 1)))


def cpu_shares(known: Knowledge) -> Floats:
    """Return which share of its processors' time each job used; nan where the log does not tell."""
    share = known.floats(pl.col("cpu_used_s")) / (known.run_s * known.cpus)
    return np.where(np.isfinite(share) & (share >= 0), share, np.nan)
