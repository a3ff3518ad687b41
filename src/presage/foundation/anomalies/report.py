"""Running the detectors over a trace, and choosing what is worth telling."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.foundation.anomalies.expectations import ExpectedRuns, expected_runs
from presage.foundation.anomalies.knowledge import Knowledge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from presage.foundation.anomalies._base import Anomaly, Detector
    from presage.traces import Trace

MIN_SCORE = 1.5
"""Chosen on three logs and one generated workload, with seeds that the published results do not use."""
MAX_PER_DAY = 5
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class AnomalyReport:
    """What was found, and what could not be looked for."""

    findings: tuple[Anomaly, ...]
    """The most surprising first."""
    ran: tuple[str, ...]
    skipped: dict[str, str]
    """Detectors that could not say anything about the trace, and why."""
    jobs: int
    days: float
    """From the first submission to the last instant that the trace tells of."""
    withheld: dict[str, int] = field(default_factory=dict)
    """Findings of each kind left out because their day had more surprising ones than may be told."""

    @property
    def per_day(self) -> float:
        """Findings per day of the trace."""
        return len(self.findings) / max(self.days, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "jobs": self.jobs,
            "days": round(self.days, 3),
            "findings": [finding.to_dict() for finding in self.findings],
            "counts": dict(Counter(finding.kind for finding in self.findings)),
            "withheld": self.withheld,
            "ran": list(self.ran),
            "skipped": [{"kind": kind, "reason": reason} for kind, reason in self.skipped.items()],
        }


def find_anomalies(
    trace: Trace,
    *,
    kinds: Iterable[str] | None = None,
    since_ms: float | None = None,
    min_score: float = MIN_SCORE,
    max_per_day: int | None = MAX_PER_DAY,
    expected: Callable[[Trace], ExpectedRuns] = expected_runs,
    progress: Callable[[str], None] = lambda _: None,
) -> AnomalyReport:
    """Return the anomalies of a trace, as they could be told at its end.

    `kinds` are names of detectors, by default all. Findings below `min_score` are left out, as are those that
    ended before `since_ms`, and per kind and day (of their ends) all but the `max_per_day` most surprising.
    `expected` says how long jobs could be expected to run. `progress` is called with the name of each detector
    before it runs. Raises UnknownNameError for an unknown kind.
    """
    from presage.foundation.anomalies import DETECTORS

    chosen = {*DETECTORS} if kinds is None else {DETECTORS.spec(kind).name for kind in kinds}
    known = Knowledge(trace, min_score, expected)
    found: list[Anomaly] = []
    ran, skipped = [], {}
    for name in (each for each in DETECTORS if each in chosen):
        progress(name)
        detector = DETECTORS.get(name)()
        reason = _reason_not_to(detector, trace)
        if reason is not None:
            skipped[name] = reason
            continue
        ran.append(name)
        # What cannot be computed, because a log says impossible things, is nan and means unknown.
        with np.errstate(all="ignore"):
            findings = detector.find(known)
        for finding in findings:
            if finding.score >= min_score:
                found.append(finding)
                known.explained[detector.family][list(finding.rows)] = True
    recent = [finding for finding in found if since_ms is None or finding.end_ms >= since_ms]
    kept, withheld = _within_budget(recent, max_per_day)
    days = _days(known)
    return AnomalyReport(tuple(kept), tuple(ran), skipped, len(trace), days, withheld)


def _reason_not_to(detector: Detector, trace: Trace) -> str | None:
    return "the trace has no jobs" if not len(trace) else detector.needs(trace)


def _within_budget(findings: list[Anomaly], max_per_day: int | None) -> tuple[list[Anomaly], dict[str, int]]:
    ranked = sorted(findings, key=lambda each: (-each.score, each.end_ms, each.kind, each.name))
    told: Counter[tuple[str, int]] = Counter()
    withheld: Counter[str] = Counter()
    kept = []
    for finding in ranked:
        day = (finding.kind, finding.end_ms // _DAY_MS)
        told[day] += 1
        if max_per_day is None or told[day] <= max_per_day:
            kept.append(finding)
        else:
            withheld[finding.kind] += 1
    return kept, dict(withheld)


def _days(known: Knowledge) -> float:
    submits = known.submit_ms[np.isfinite(known.submit_ms)]
    if not len(submits):
        return 0.0
    return max(float(known.now_ms - submits.min()), 0.0) / _DAY_MS
