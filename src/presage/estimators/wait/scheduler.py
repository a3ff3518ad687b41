"""The scheduler's own estimate: a second opinion."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from presage.connectors._base import EstimatesStarts, Submission
from presage.errors import PresageError
from presage.estimators._base import Basis, Estimate, EstimateRequest, Estimator, Quantity, UnsupportedError
from presage.estimators.spread import Spread

if TYPE_CHECKING:
    from presage.estimators.workloads import ScriptWorkload, Target, TrainingWorkload

NOTES = (
    "What the scheduler says, which plans with limits: as a rule jobs start earlier",
    "They start later if others with a higher priority come",
    "That the median is half of what it says is assumed",
)
USUAL_SHARE = 0.5
"""Of the time that the scheduler says; what a median is set to, because an estimate must have one."""
_SCRIPT = "#!/bin/sh\n:\n"


class SchedulerWait(Estimator):
    """When the scheduler itself would start such a job, by its connector; near the upper end of what is likely.

    What it says is p90. That the median is half of it is an assumption, and the answer says so.
    """

    name = "scheduler-wait"
    quantity = Quantity.WAIT

    def estimate(self, request: EstimateRequest) -> Estimate:
        live = self.knowledge.live
        if request.target is None:
            raise UnsupportedError("The machine that asks has no queue")
        if not isinstance(live, EstimatesStarts):
            raise UnsupportedError("No scheduler with estimates of its own is at hand")
        try:
            start = live.start_estimate(_submission(request.workload, request.target))
        except PresageError as error:
            raise UnsupportedError(
                f"The scheduler gives no estimate: {error.problem.partition(chr(10))[0]}"
            ) from None
        if start is None:
            raise UnsupportedError("The scheduler has no opinion on when such a job would start")
        told_s = max(0.0, (start - datetime.now(UTC)).total_seconds())
        spread = Spread(0.0, USUAL_SHARE * told_s, told_s)
        details = {"told_s": told_s, "start": start.isoformat()}
        return Estimate(self.quantity, spread, Basis.STATED, self.name, self.version, NOTES, details)


def _submission(workload: ScriptWorkload | TrainingWorkload, target: Target) -> Submission:
    share = target.share
    limit_s = target.walltime_s or getattr(workload, "walltime_s", None)
    return Submission(
        key="presage-estimate", name=workload.name or "presage-estimate", script=_SCRIPT,
        partition=target.partition or None, account=getattr(workload, "account", "") or None,
        qos=getattr(workload, "qos", "") or None, nodes=share.nodes, tasks_per_node=1, cores_per_node=share.cores,
        gpus_per_node=share.gpus or None, memory_bytes=share.memory_bytes,
        walltime_s=limit_s if limit_s is not None and math.isfinite(limit_s) else None,
    )  # fmt: skip
