"""What a managed job came to, as far as it can be held against what was predicted of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.clusters.charges import cost_of
from presage.estimators._base import Quantity
from presage.estimators.workloads import TrainingWorkload
from presage.orchestrator.jobs import Ending, ManagedJob, Order, Phase, SubJob

if TYPE_CHECKING:
    from presage.estimators._base import EstimateRequest

_AS_PLANNED = frozenset({Ending.COMPLETED, Ending.CONTINUED})
_CUT_OFF = frozenset({Ending.TIMEOUT, Ending.MOVED})


def outcome_of(job: ManagedJob, request: EstimateRequest) -> float | None:
    """Return what happened to the quantity that was asked about; None if that cannot be told, or not yet.

    A wait is known once the first sub-job has ended, everything else when the job has completed. What ran at
    another place than the first, on other nodes or with a smaller batch tells nothing of what was predicted.
    """
    if request.quantity is Quantity.WAIT:
        return _wait_s(job)
    if job.phase is not Phase.COMPLETED:
        return None
    if request.quantity is Quantity.COST:
        return _cost(job, request)
    work = working_parts(job)
    if not work or not all(_is_as_ordered(each, job.order) for each in work):
        return None
    if request.quantity is Quantity.WALLTIME:
        times = [run_s(each) for each in work]
        return None if None in times else sum(each for each in times if each is not None)
    return _memory_bytes(work, request)


def working_parts(job: ManagedJob) -> list[SubJob]:
    """Return the sub-jobs that brought the job further; of a job that cannot go on, the one that completed."""
    return [each for each in job.sub_jobs if _brought_further(each, job.order)]


def run_s(sub_job: SubJob) -> float | None:
    """Return how long a sub-job ran; None if it did not, or nobody says."""
    status = sub_job.status
    if status is None or status.start_time is None or status.end_time is None:
        return None
    seconds = (status.end_time - status.start_time).total_seconds()
    return seconds if seconds >= 0 else None


def _brought_further(sub_job: SubJob, order: Order) -> bool:
    if sub_job.ending in _AS_PLANNED:
        return True
    if not order.is_resumable or sub_job.ending is None or not run_s(sub_job):
        return False
    if sub_job.done_after is None:
        return sub_job.ending in _CUT_OFF
    return sub_job.done_after > (sub_job.done_before or 0.0)


def _is_as_ordered(sub_job: SubJob, order: Order) -> bool:
    there, first = sub_job.place, order.places[0]
    sizes = [(each.nodes, each.cores, each.gpus) for each in (there, first)]
    return there.spot == first.spot and sizes[0] == sizes[1] and sub_job.batch_divisor == 1


def _wait_s(job: ManagedJob) -> float | None:
    first = job.sub_jobs[0] if job.sub_jobs else None
    if first is None or first.status is None or first.place.spot != job.order.places[0].spot:
        return None
    submitted, started = first.status.submit_time, first.status.start_time
    if submitted is None or started is None:
        return None
    return max(0.0, (started - submitted).total_seconds())


def _memory_bytes(work: list[SubJob], request: EstimateRequest) -> float | None:
    """Return the largest peak that a cluster saw; of a training on GPUs it saw the wrong memory."""
    workload, target = request.workload, request.target
    if isinstance(workload, TrainingWorkload):
        share = None if target is None else target.share
        # What the cluster knows is one process's, and what was predicted all those of a node.
        if share is not None and (share.gpus or workload.options.workers > share.nodes):
            return None
    peaks = [each.status.max_rss_bytes for each in work if each.status and each.status.max_rss_bytes]
    return float(max(peaks)) if peaks else None


def _cost(job: ManagedJob, request: EstimateRequest) -> float | None:
    """Return what all of it cost, failures too, by the rule it was planned with."""
    target = request.target
    ran = [each for each in job.sub_jobs if run_s(each)]
    if (
        target is None
        or target.charge is None
        or not ran
        or not all(_is_as_ordered(each, job.order) for each in ran)
    ):
        return None
    return sum(
        cost_of(target.charge, target.share, target.node_type, run_s(each) or 0.0, spot=target.spot)
        for each in ran
    )
