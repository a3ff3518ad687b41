"""What is abnormal on a cluster: stalled jobs, wasteful requests, failures, and scheduling that does not work.

`find_anomalies` runs the detectors of the registry over a trace, in their order: what an earlier one explains, a
later one does not tell again. Other packages add detectors through the entry points `presage.detectors`.
"""

from __future__ import annotations

from presage.foundation.anomalies._base import Anomaly, Detector
from presage.foundation.anomalies.expectations import ExpectedRuns, expected_runs
from presage.foundation.anomalies.knowledge import Knowledge
from presage.foundation.anomalies.report import MAX_PER_DAY, MIN_SCORE, AnomalyReport, find_anomalies
from presage.registry import Registry, Spec

__all__ = [
    "DETECTORS",
    "MAX_PER_DAY",
    "MIN_SCORE",
    "Anomaly",
    "AnomalyReport",
    "Detector",
    "ExpectedRuns",
    "Knowledge",
    "expected_runs",
    "find_anomalies",
]

_HERE = "presage.foundation.anomalies"

DETECTORS: Registry[type[Detector]] = Registry(
    "detector",
    "presage.detectors",
    [
        Spec(
            "failure-cascade",
            f"{_HERE}.failure_cascades:FailureCascades",
            "failures connected through shared nodes",
        ),
        Spec(
            "node-failures",
            f"{_HERE}.node_failures:NodeFailures",
            "nodes and racks whose jobs fail more than elsewhere",
        ),
        Spec("user-failures", f"{_HERE}.user_failures:UserFailures", "streaks of failures of one user"),
        Spec(
            "unusable-partition", f"{_HERE}.unusable_partitions:UnusablePartitions", "partitions that start no job"
        ),
        Spec(
            "priority-inversion",
            f"{_HERE}.priority_inversions:PriorityInversions",
            "later, equal jobs served first",
        ),
        Spec("stalled-queue", f"{_HERE}.stalled_queue:StalledQueue", "jobs that wait while comparable ones pass"),
        Spec("idle-processors", f"{_HERE}.idle_processors:IdleProcessors", "idle processors beside jobs that fit"),
        Spec("stalled-run", f"{_HERE}.stalled_runs:StalledRuns", "jobs that run on and on and do little"),
        Spec("run-time", f"{_HERE}.run_times:RunTimes", "run times far from those of similar jobs"),
        Spec("wasteful-request", f"{_HERE}.wasteful_requests:WastefulRequests", "much asked for, little used"),
    ],
)
