"""Jobs: hand one over, look after it, stop it, see why what was done."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request
from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from presage.errors import InputError, unknown_job
from presage.orchestrator.documents import event_document, job_document
from presage.orchestrator.jobs import Order, parse_order
from presage.service.answers import documented
from presage.service.callbacks import without_secret
from presage.service.callers import AnyUser, TheState
from presage.service.schemas import inlined
from presage.service.tokens import Caller, Scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from presage.orchestrator.jobs import ManagedJob
    from presage.service.state import State

router = APIRouter(prefix="/jobs", tags=["jobs"])

JobId = Annotated[str, Path(pattern=r"^j[0-9a-f]{11}$", description="The id that handing the job over returned.")]
After = Annotated[int, Query(ge=0, lt=2**63, description="Only events numbered higher than this.")]
_ORDER_SCHEMA = inlined(TypeAdapter(Order).json_schema())
_STREAM_PAUSE_S = 0.5
_KEEP_ALIVE_S = 15.0
_CHECK_S = 5.0
"""How long a token that was taken back may still listen."""


@router.post("", status_code=201)
def hand_over(
    caller: AnyUser, state: TheState, order: Annotated[dict[str, Any], Body(json_schema_extra=_ORDER_SCHEMA)]
) -> dict[str, Any]:
    """Hand a job over; it is brought to its end whatever happens."""
    parsed = parse_order(order)
    _check_clusters(parsed, state.clusters)
    prepared, secret = state.callbacks.prepare(parsed)
    job = state.store.add(caller.user, prepared)
    state.callbacks.allow(job.job_id, secret)
    return job_document(job)


@router.get("")
def list_jobs(
    caller: AnyUser, state: TheState, active: bool = False, everybody: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """List one's own jobs, the newest first; operators may see everybody's."""
    owner = None if everybody and caller.scope.includes(Scope.OPERATOR) else caller.user
    return {"jobs": [job_document(job) for job in state.store.jobs(owner, active_only=active)]}


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
def stream_events(caller: AnyUser, state: TheState, request: Request, after: After = 0) -> StreamingResponse:
    """Stream what happens to one's own jobs, as server-sent events, for as long as the token is good."""
    state.streams.check(caller.user)
    return StreamingResponse(_events(caller, state, request, after), media_type="text/event-stream")


@router.get("/{job_id}", responses=documented(404))
def show(caller: AnyUser, state: TheState, job_id: JobId) -> dict[str, Any]:
    """Show a job with everything that was handed over."""
    return without_secret(job_document(_own(caller, state, job_id), with_order=True))


@router.post("/{job_id}/stop", status_code=202, responses=documented(404))
def stop(caller: AnyUser, state: TheState, job_id: JobId) -> dict[str, Any]:
    """Stop a job for good; what runs of it is cancelled."""
    _own(caller, state, job_id)
    return job_document(state.store.stop(job_id))


@router.get("/{job_id}/decisions", responses=documented(404))
def explain(caller: AnyUser, state: TheState, job_id: JobId) -> dict[str, list[dict[str, Any]]]:
    """Show what was decided about a job, by which rule, and why."""
    _own(caller, state, job_id)
    return {"decisions": state.store.decisions(job_id)}


@router.get("/{job_id}/events", responses=documented(404))
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
        raise unknown_job(job_id)
    return job


def _check_clusters(order: Order, known: tuple[str, ...]) -> None:
    """Raise InputError for a place that the plane cannot submit to."""
    for place in order.places:
        if known and place.cluster not in known:
            shown = ", ".join(known)
            raise InputError(f"The plane knows no cluster {place.cluster[:80]!r}", expected=f"one of {shown}")


async def _events(caller: Caller, state: State, request: Request, after: int) -> AsyncIterator[str]:
    """Give one's own events as they come, on a seat of one's own."""
    with state.streams.taken(caller.user):
        async for text in _own_events(caller, state, request, after):
            yield text


async def _own_events(caller: Caller, state: State, request: Request, after: int) -> AsyncIterator[str]:
    owners: dict[str, bool] = {}
    told_at = checked_at = time.monotonic()
    while not await request.is_disconnected():
        now = time.monotonic()
        if now - checked_at >= _CHECK_S:
            checked_at = now
            if not await run_in_threadpool(state.tokens.is_good, caller.token_id):
                return
        events = await run_in_threadpool(state.store.events, after)
        for event in events:
            after = event.number
            if event.job_id not in owners:
                job = await run_in_threadpool(state.store.get, event.job_id)
                owners[event.job_id] = job.owner == caller.user
            if owners[event.job_id]:
                told_at = now
                yield f"id: {event.number}\nevent: {event.kind}\ndata: {json.dumps(event_document(event))}\n\n"
        if not events:
            if now - told_at >= _KEEP_ALIVE_S:
                told_at = now
                yield ": nothing new\n\n"
            await asyncio.sleep(_STREAM_PAUSE_S)
