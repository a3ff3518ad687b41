"""Scheduler as a service: a queue and a machine in, decisions out. Nothing is kept."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from presage.errors import InputError
from presage.policies import Policy
from presage.service.answers import documented
from presage.service.callers import AnyUser, TheState, unrecorded

router = APIRouter(tags=["schedule"], dependencies=[Depends(unrecorded)])

MOST_JOBS = 5000
_LATEST_S = 1e11
JobName = Annotated[str, Field(min_length=1, max_length=200)]
Instant = Annotated[float, Field(ge=0, lt=_LATEST_S, allow_inf_nan=False)]
Length = Annotated[float, Field(gt=0, le=1e8, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=5_000_000)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Job(_Part):
    job_id: JobName
    processors: Count
    limit_s: Length = Field(description="How long it may run, or will by the best forecast.")


class WaitingJob(_Job):
    """A job that waits."""

    submitted_s: Instant = Field(description="When, on any clock; `now_s` is on the same.")


class RunningJob(_Job):
    """A job that holds processors."""

    started_s: Instant


class ScheduleRequest(_Part):
    """A queue, and the machine that it waits for."""

    processors: Count = Field(description="Of the machine, those in use included.")
    now_s: Instant
    waiting: Annotated[list[WaitingJob], Field(max_length=MOST_JOBS)]
    running: Annotated[list[RunningJob], Field(max_length=MOST_JOBS)] = []
    policy: str = Field(
        default="fcfs+easy", max_length=200, description="ORDER or ORDER+BACKFILLING, as GET /policies lists them."
    )


class Decision(BaseModel):
    """What to do with one job."""

    job_id: str
    action: Literal["start", "wait", "refuse"] = Field(
        description="start: now; wait: until start_s; refuse: it can never start on this machine."
    )
    processors: int
    start_s: float | None = Field(description="If everybody runs to his limit and nobody else comes.")


class ScheduleAnswer(BaseModel):
    """Decisions, first things first."""

    policy: str
    decisions: list[Decision]
    free_processors: int = Field(description="After the jobs that start now have started.")
    decided_in_ms: float


@router.post("/schedule", responses=documented(501))
def schedule(caller: AnyUser, state: TheState, request: ScheduleRequest) -> ScheduleAnswer:
    """Decide who of a queue starts now on a pool of processors, and when the others will, in their order."""
    begin = time.perf_counter()
    policy = Policy.parse(request.policy)
    _check_names(request)
    with state.computing.taken(caller.user):
        decisions = _decide(request, policy)
    started = sum(each.processors for each in decisions if each.action == "start")
    held = sum(each.processors for each in request.running)
    return ScheduleAnswer(
        policy=str(policy),
        decisions=decisions,
        free_processors=request.processors - held - started,
        decided_in_ms=round((time.perf_counter() - begin) * 1000, 3),
    )


def _check_names(request: ScheduleRequest) -> None:
    seen: set[str] = set()
    jobs: list[_Job] = [*request.running, *request.waiting]
    for job in jobs:
        if job.job_id in seen:
            raise InputError(f"Two jobs have the id {job.job_id!r}", expected="each job once")
        seen.add(job.job_id)


def _decide(request: ScheduleRequest, policy: Policy) -> list[Decision]:
    import numpy as np

    from presage.simulator.next_starts import MachineNow, QueueNow, next_starts

    def whole_ms(seconds: list[float]) -> Any:
        return np.round(np.array(seconds, np.float64) * 1000).astype(np.int64)

    def counts(numbers: list[int]) -> Any:
        return np.array(numbers, np.int64)

    now_ms = round(request.now_s * 1000)
    fitting = [job for job in request.waiting if job.processors <= request.processors]
    runs = request.running
    machine = MachineNow(
        now_ms, request.processors, counts([job.processors for job in runs]),
        whole_ms([job.started_s for job in runs]), whole_ms([job.limit_s for job in runs]),
    )  # fmt: skip
    queue = QueueNow(
        whole_ms([job.submitted_s for job in fitting]),
        np.maximum(whole_ms([job.limit_s for job in fitting]), 1),
        counts([job.processors for job in fitting]),
    )
    starts = next_starts(machine, queue, policy)
    order = np.lexsort((queue.submit_ms, starts))
    decided = [
        Decision(
            job_id=fitting[place].job_id,
            action="start" if starts[place] <= now_ms else "wait",
            processors=fitting[place].processors,
            start_s=float(starts[place]) / 1000,
        )
        for place in order
    ]
    never = [
        Decision(job_id=job.job_id, action="refuse", processors=job.processors, start_s=None)
        for job in request.waiting
        if job.processors > request.processors
    ]
    return decided + never
