"""Jobs: hand one over, look after it, stop it, see why what was done."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from presage.errors import UnknownNameError
from presage.orchestrator.documents import event_document, job_document
from presage.orchestrator.jobs import parse_order
from presage.service.callers import AnyUser, TheState
from presage.service.tokens import Caller, Scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from presage.orchestrator.jobs import ManagedJob
    from presage.service.state import State

router = APIRouter(prefix="/jobs", tags=["jobs"])

JobId = Annotated[str, Path(pattern=r"^j[0-9a-f]{11}$", description="The id that handing the job over returned.")]
After = Annotated[int, Query(ge=0, lt=2**63, description="Only events numbered higher than this.")]
_STREAM_PAUSE_S = 0.5
_KEEP_ALIVE_S = 15.0


@router.post("", status_code=201)
def hand_over(caller: AnyUser, state: TheState, order: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
    """Hand a job over; it is brought to its end whatever happens."""
    return job_document(state.store.add(caller.user, parse_order(order)))


@router.get("")
def list_jobs(
    caller: AnyUser, state: TheState, active: bool = False, everybody: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """List one's own jobs, the newest first; operators may see everybody's."""
    owner = None if everybody and caller.scope.includes(Scope.OPERATOR) else caller.user
    return {"jobs": [job_document(job) for job in state.store.jobs(owner, active_only=active)]}


@router.get("/events")
def stream_events(caller: AnyUser, state: TheState, request: Request, after: After = 0) -> StreamingResponse:
    """Stream what happens to one's own jobs, as server-sent events."""
    return StreamingResponse(_events(caller, state, request, after), media_type="text/event-stream")


@router.get("/{job_id}")
def show(caller: AnyUser, state: TheState, job_id: JobId) -> dict[str, Any]:
    """Show a job with everything that was handed over."""
    return job_document(_own(caller, state, job_id), with_order=True)


@router.post("/{job_id}/stop", status_code=202)
def stop(caller: AnyUser, state: TheState, job_id: JobId) -> dict[str, Any]:
    """Stop a job for good; what runs of it is cancelled."""
    _own(caller, state, job_id)
    return job_document(state.store.stop(job_id))


@router.get("/{job_id}/decisions")
def explain(caller: AnyUser, state: TheState, job_id: JobId) -> dict[str, list[dict[str, Any]]]:
    """Show what was decided about a job, by which rule, and why."""
    _own(caller, state, job_id)
    return {"decisions": state.store.decisions(job_id)}


@router.get("/{job_id}/events")
def list_events(
    caller: AnyUser, state: TheState, job_id: JobId, after: After = 0
) -> dict[str, list[dict[str, Any]]]:
    """Show what happened to a job."""
    _own(caller, state, job_id)
    return {"events": [event_document(event) for event in state.store.events(after, job_id=job_id)]}


def _own(caller: Caller, state: State, job_id: str) -> ManagedJob:
    """Return a job that the caller may see; of others it is not even told that they exist."""
    job = state.store.get(job_id)
    if job.owner != caller.user and not caller.scope.includes(Scope.OPERATOR):
        raise UnknownNameError("job", job_id, [])
    return job


async def _events(caller: Caller, state: State, request: Request, after: int) -> AsyncIterator[str]:
    owners: dict[str, bool] = {}
    silent_s = 0.0
    while not await request.is_disconnected():
        events = await run_in_threadpool(state.store.events, after)
        for event in events:
            after = event.number
            if event.job_id not in owners:
                job = await run_in_threadpool(state.store.get, event.job_id)
                owners[event.job_id] = job.owner == caller.user
            if owners[event.job_id]:
                silent_s = 0.0
                yield f"id: {event.number}\nevent: {event.kind}\ndata: {json.dumps(event_document(event))}\n\n"
        if not events:
            silent_s += _STREAM_PAUSE_S
            if silent_s >= _KEEP_ALIVE_S:
                silent_s = 0.0
                yield ": nothing new\n\n"
            await asyncio.sleep(_STREAM_PAUSE_S)
