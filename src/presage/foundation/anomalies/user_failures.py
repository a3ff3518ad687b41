"""Users whose jobs suddenly fail, one after the other, more than theirs usually do.

Failures of one user come in streaks anyway: who resubmits a broken program fails again. So what is expected of a
run depends on how the user's previous one ended, as it was a day ago and earlier: of this user, drawn towards
everybody where little is known. A streak is told if it is longer than streaks of this site are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from presage.foundation.anomalies._base import Anomaly, Detector, missing
from presage.foundation.anomalies._history import History
from presage.foundation.anomalies._surprise import DAY_MS, Streak, looked_at, odds_ratio, streaks

if TYPE_CHECKING:
    from presage.foundation.anomalies._history import Bools, Floats, Ints
    from presage.foundation.anomalies._runs import Runs
    from presage.foundation.anomalies.knowledge import Knowledge
    from presage.traces import Trace

_LEAST_FAILURES = 5
_LEAST_ODDS_RATIO = 3.0
_WEIGHT = 5.0
_WEIGHT_OF_ALL = 50.0
_PRIOR = np.array([0.05, 0.3])  # after a run that ended well, and after one that failed


class UserFailures(Detector):
    """Finds streaks of failures of a user."""

    name: ClassVar[str] = "user-failures"
    family: ClassVar[str] = "failures"

    def needs(self, trace: Trace) -> str | None:
        return missing(trace, outcome="outcomes", user="users")

    def find(self, known: Knowledge) -> list[Anomaly]:
        runs = known.runs
        someone = known.trace.jobs["user"].is_not_null().to_numpy()[runs.row]
        kept = np.flatnonzero(someone & ~known.explained[self.family][runs.row])
        order = kept[np.argsort(runs.user[kept], kind="stable")]
        user, failed, end_ms = runs.user[order], runs.failed[order], runs.end_ms[order]
        expected = usual_after(user, failed, end_ms)
        price = looked_at(end_ms, np.ones(len(order), np.bool_))
        found = streaks(user, failed, expected, price, known.min_score)
        findings = [self._finding(known, runs, order, streak) for streak in found]
        return [finding for finding in findings if finding is not None]

    def _finding(self, known: Knowledge, runs: Runs, order: Ints, streak: Streak) -> Anomaly | None:
        members = order[streak.first : streak.last + 1]
        bad = members[runs.failed[members]]
        user = known.text("user", int(runs.row[members[0]]))
        earlier = order[: streak.first]
        earlier = earlier[runs.user[earlier] == runs.user[members[0]]]
        usual = float(runs.failed[earlier].mean()) if len(earlier) else 0.0
        if len(bad) < _LEAST_FAILURES or odds_ratio(len(bad) / len(members), usual) < _LEAST_ODDS_RATIO:
            return None
        usually = f"usually {100 * usual:.0f} %" if len(earlier) else "no runs before"
        start_ms, end_ms = runs.end_ms[members[0]], runs.end_ms[members[-1]]
        reason = (
            f"user {user}: {len(bad):,} of {len(members):,} runs failed "
            f"{known.between(start_ms, end_ms)}; {usually}"
        )
        known.explained[self.family][runs.row[bad]] = True
        return Anomaly(
            self.name, "user", user, int(start_ms), int(end_ms), streak.score, reason,
            evidence=known.ids(runs.row[bad]), jobs=len(np.unique(runs.row[bad])),
            numbers={"failed": len(bad), "runs": len(members), "usual": round(usual, 4)},
            rows=tuple(runs.row[bad].tolist()),
        )  # fmt: skip


def usual_after(user: Ints, failed: Bools, end_ms: Floats) -> Floats:
    """Return how likely each run was to fail after the user's previous one, as known a day before it ended.

    Runs are sorted by user and then by end.
    """
    if not len(user):
        return np.zeros(0)
    previous = np.r_[False, failed[:-1]] & np.r_[False, user[1:] == user[:-1]]
    after, value = previous.astype(np.int64), failed.astype(np.float64)
    then = end_ms - DAY_MS
    everybody = History(after, end_ms)
    since, until = everybody.first(after), everybody.before(after, then)
    of_all = (everybody.total(value, since, until) + _WEIGHT_OF_ALL * _PRIOR[after]) / (
        until - since + _WEIGHT_OF_ALL
    )
    pair = 2 * user + after
    own = History(pair, end_ms)
    since, until = own.first(pair), own.before(pair, then)
    return np.asarray((own.total(value, since, until) + _WEIGHT * of_all) / (until - since + _WEIGHT))
