"""Whether the service lives and works, for those who keep it running; without a token."""

from __future__ import annotations

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, PlainTextResponse, Response

from presage.service.callers import TheState

router = APIRouter(tags=["health"])


@router.get("/healthz")
def alive() -> dict[str, str]:
    """Tell that the process answers."""
    return {"status": "alive"}


@router.get("/readyz", responses={503: {"description": "The database does not answer."}})
def ready(state: TheState) -> JSONResponse:
    """Tell whether the database answers."""
    try:
        state.store.counts()
    except Exception as error:  # noqa: BLE001  (whatever it is, the service is not ready)
        return JSONResponse({"status": "not ready", "reason": type(error).__name__}, 503)
    return JSONResponse({"status": "ready"})


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(request: Request) -> Response:
    """Give the figures of the plane and of the service to Prometheus."""
    return Response(request.app.state.figures.text(), media_type=CONTENT_TYPE_LATEST)
