"""Scheduler as a service: a queue and a machine in, decisions out. Nothing is kept."""

from __future__ import annotations

import time

from fastapi import APIRouter, Depends

from presage.service.answers import documented
from presage.service.callers import AnyUser, TheState, unrecorded
from presage.service.queues import ScheduleAnswer, ScheduleRequest

router = APIRouter(tags=["schedule"], dependencies=[Depends(unrecorded)])


@router.post("/schedule", responses=documented(501))
def schedule(caller: AnyUser, state: TheState, request: ScheduleRequest) -> ScheduleAnswer:
    """Decide who of a queue starts now, on which nodes, and when the others will, in their order.

    Tasks of a job start together. Several of them may share a node that has room.
    """
    from presage.service.scheduling import decide, free_after

    begin = time.perf_counter()
    with state.computing.taken(caller.user):
        policy, decisions, free = decide(request, state.policies)
    return ScheduleAnswer(
        policy=policy,
        decisions=decisions,
        free_processors=free_after(free, decisions),
        decided_in_ms=round((time.perf_counter() - begin) * 1000, 3),
    )
