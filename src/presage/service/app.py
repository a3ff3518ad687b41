"""The application: endpoints, errors, guards. What it works with is handed in, so that tests hand in their own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response

import presage
from presage.errors import PresageError
from presage.service.guards import Guards, RateLimit
from presage.service.page import reference_page
from presage.service.routers import estimates, health, jobs, systems, tokens

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from presage.service.state import State

API = "/api/v1"
_STATUS = {
    "unauthenticated": 401,
    "forbidden": 403,
    "unknown_name": 404,
    "usage": 422,
    "input": 422,
    "unsupported": 422,
    "missing_dependency": 501,
    "connector": 502,
    "command_missing": 502,
    "cluster_timeout": 504,
    "cluster_refused": 502,
    "cluster_unreachable": 502,
    "config": 503,
    "output": 503,
}
_READS = frozenset({"GET", "HEAD", "OPTIONS"})

log = logging.getLogger(__name__)


def create_app(state: State, rate: RateLimit | None = None) -> FastAPI:
    """Return the service on these rooms."""
    # The usual pages of FastAPI load scripts from elsewhere; ours works without a network.
    app = FastAPI(
        title="Presage",
        version=presage.__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{API}/openapi.json",
    )
    app.state.presage = state
    api = APIRouter(prefix=API)
    for each in (jobs, systems, estimates, tokens):
        api.include_router(each.router)
    app.include_router(api)
    app.include_router(health.router)
    app.add_api_route(f"{API}/docs", lambda: HTMLResponse(reference_page(app.openapi())), include_in_schema=False)
    app.add_exception_handler(PresageError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_refusal)
    app.middleware("http")(_record)
    app.add_middleware(Guards, rate=rate or RateLimit())
    return app


async def _record(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
    """Write down calls that change something or are refused."""
    response = await proceed(request)
    refused = response.status_code in (401, 403)
    if request.method not in _READS or refused:
        from starlette.concurrency import run_in_threadpool

        caller = getattr(request.state, "caller", None)
        call = f"{request.method} {request.url.path}"
        try:
            await run_in_threadpool(request.app.state.presage.tokens.record, caller, call, response.status_code)
        except PresageError as error:
            log.warning("The call %s could not be recorded: %s", call, error)
    return response


async def _on_error(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, PresageError):
        raise error
    codes = (getattr(kind, "code", "") for kind in type(error).__mro__)
    status = next((_STATUS[code] for code in codes if code in _STATUS), 500)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": error.as_dict()}, status, headers)


async def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return JSONResponse({"error": {"code": "input", "problem": f"{place}: {first['msg']}"}}, 422)


async def _on_refusal(request: Request, error: Exception) -> JSONResponse:
    """Say what the framework itself refuses (no such path, too large) in the form that all errors have."""
    if not isinstance(error, HTTPException):
        raise error
    content = {"error": {"code": f"http_{error.status_code}", "problem": str(error.detail)}}
    return JSONResponse(content, error.status_code, error.headers)
