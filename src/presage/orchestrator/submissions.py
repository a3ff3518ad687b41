"""A job of the plane as a cluster gets it."""

from __future__ import annotations

import contextlib
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from presage.client.callbacks import JOB_VARIABLE, SUB_JOB_VARIABLE
from presage.client.run import FOLDER_VARIABLE
from presage.connectors._base import Submission
from presage.errors import UsageError
from presage.orchestrator.elastic import workers_of
from presage.orchestrator.holding import script_that_holds
from presage.orchestrator.jobs import ManagedJob, Phase, SubJob

if TYPE_CHECKING:
    from presage.orchestrator.jobs import Order

BATCH_DIVISOR = "PRESAGE_BATCH_DIVISOR"
"""By how much a job that ran out of memory should divide its batch, and multiply its accumulation."""
WORKERS = "PRESAGE_WORKERS"
"""Over how many workers an elastic job should spread its batches."""


def submission_of(job: ManagedJob, sub_job: SubJob) -> Submission:
    """Return what is handed to the cluster. Raises UsageError for what no cluster can take."""
    order, place = job.order, sub_job.place
    environment = {**order.environment, JOB_VARIABLE: job.job_id, SUB_JOB_VARIABLE: str(sub_job.number)}
    if order.run_folder is not None:
        environment[FOLDER_VARIABLE] = order.run_folder
    if order.elastic is not None:
        environment[WORKERS] = str(workers_of(place, order.elastic))
    if sub_job.batch_divisor > 1:
        environment[BATCH_DIVISOR] = str(sub_job.batch_divisor)
    output = output_of(job, sub_job)
    return Submission(
        key=sub_job.key,
        name=order.name,
        script=script_that_holds(order),
        arguments=order.arguments,
        working_directory=order.working_directory,
        output=None if output is None else str(output).replace("%", "%%"),
        environment=environment,
        partition=place.partition,
        account=order.account,
        qos=order.qos,
        nodes=place.nodes,
        cores_per_node=place.cores,
        gpus_per_node=place.gpus,
        gpu_type=place.gpu_type,
        memory_bytes=place.memory_bytes,
        walltime_s=place.walltime_s,
        signal="USR1" if order.is_resumable else None,
        signal_before_s=warning_s(order, place.walltime_s),
        depends_on=() if sub_job.follows is None else (sub_job.follows,),
        requeue=False,
        options=() if place.constraint is None else (f"--constraint={place.constraint}",),
    )


def problem_with(order: Order) -> str:
    """Return why an order could be submitted to no cluster at all; empty if it could."""
    job = ManagedJob("0" * 12, "", order, Phase.ACTIVE, datetime.min.replace(tzinfo=UTC))
    try:
        for place in order.places:
            submission = submission_of(job, SubJob(1, "presage-0-1", place))
            for each in fields(submission):
                str(getattr(submission, each.name)).encode()
            place.cluster.encode()
    except UsageError as error:
        return str(error).rstrip(".")
    except UnicodeEncodeError:
        return "a text of it has half a character in it"
    if order.run_folder is not None and not Path(order.run_folder).is_absolute():
        return f"its run folder {order.run_folder[:80]!r} is not absolute, and the plane works elsewhere"
    return ""


def warning_s(order: Order, walltime_s: float | None) -> float:
    """Return how long before its limit a job is told to save; not before half of a short one has passed."""
    return order.signal_before_s if walltime_s is None else min(order.signal_before_s, walltime_s / 2)


def make_run_folder(job: ManagedJob) -> None:
    """Make the folder in which a job saves itself, as far as this machine can: its files may be elsewhere."""
    if job.order.run_folder is not None:
        with contextlib.suppress(OSError):
            Path(job.order.run_folder).mkdir(parents=True, exist_ok=True)


def output_of(job: ManagedJob, sub_job: SubJob) -> Path | None:
    """Return the file of what a sub-job prints; None where the cluster chooses it."""
    folder = job.order.run_folder
    return None if folder is None else Path(folder) / f"output-{sub_job.number}.txt"
