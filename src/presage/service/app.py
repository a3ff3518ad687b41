"""The application: endpoints, errors, guards. What it works with is handed in, so that tests hand in their own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response

import presage
from presage.errors import PresageError
from presage.service.answers import answer_for, documented, error_answer
from presage.service.calls import Calls
from presage.service.figures import CallFigures
from presage.service.guards import Guards, Rates
from presage.service.page import CONTENT_POLICY, reference_page
from presage.service.routers import (
    callbacks,
    estimates,
    health,
    insights,
    jobs,
    models,
    plans,
    schedules,
    systems,
    tokens,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from presage.service.state import State

API = "/api/v1"
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_ROUTERS = (jobs, callbacks, systems, estimates, plans, insights, models, schedules, tokens)

log = logging.getLogger(__name__)


def create_app(state: State, rates: Rates | None = None) -> FastAPI:
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
    api = APIRouter(prefix=API, responses=documented(400, 401, 403, 413, 422, 429))
    for each in _ROUTERS:
        api.include_router(each.router)
    app.include_router(api)
    app.include_router(health.router)
    app.add_api_route(f"{API}/docs", lambda: _reference(app), include_in_schema=False)
    app.add_exception_handler(PresageError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_refusal)
    app.middleware("http")(_record)
    app.add_middleware(Guards, rates=rates or Rates())
    app.state.figures = CallFigures(state.store)
    app.add_middleware(Calls, figures=app.state.figures)  # the outermost: what guards refuse counts too
    return app


def _reference(app: FastAPI) -> HTMLResponse:
    return HTMLResponse(reference_page(app.openapi()), headers={"Content-Security-Policy": CONTENT_POLICY})


async def _record(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
    """Write down calls that change something or are refused."""
    response = await proceed(request)
    refused = response.status_code in (401, 403)
    if refused or (request.method not in _READS and not getattr(request.state, "is_unrecorded", False)):
        from starlette.concurrency import run_in_threadpool

        caller = getattr(request.state, "caller", None)
        call = f"{request.method} {quote(request.url.path[:200], errors='replace')}"
        try:
            await run_in_threadpool(request.app.state.presage.tokens.record, caller, call, response.status_code)
        except PresageError as error:
            log.warning("The call %s could not be recorded: %s", call, error)
    return response


async def _on_error(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, PresageError):
        raise error
    return answer_for(error, is_about_path=bool(request.path_params))


async def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return error_answer(422, {"code": "input", "problem": f"{place}: {first['msg']}"})


async def _on_refusal(request: Request, error: Exception) -> JSONResponse:
    """Say what the framework itself refuses (no such path, too large) in the form that all errors have."""
    if not isinstance(error, HTTPException):
        raise error
    parts = {"code": f"http_{error.status_code}", "problem": str(error.detail)}
    return error_answer(error.status_code, parts, dict(error.headers) if error.headers else None)
