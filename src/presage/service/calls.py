"""Every call, counted, timed and written down: who called what, how it was answered, how long it took."""

from __future__ import annotations

import logging
import secrets
import time
from typing import TYPE_CHECKING, Any

from starlette.datastructures import MutableHeaders

from presage.service.journal import JOB_ID, begin_call

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from presage.service.figures import CallFigures

REQUEST_ID_HEADER = "X-Request-Id"
_FAILED = 500
_UNKNOWN = "-"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

log = logging.getLogger(__name__)


class Calls:
    """An ASGI middleware. Paths are told as the reference has them: what a caller puts there may be a secret."""

    def __init__(self, app: ASGIApp, figures: CallFigures) -> None:
        self._app = app
        self._figures = figures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call on, and note what came of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = secrets.token_hex(8)
        facts = begin_call(request)
        began_s = time.perf_counter()
        status = _FAILED

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = request
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            self._note(scope, status, time.perf_counter() - began_s, facts)

    def _note(self, scope: Scope, status: int, took_s: float, facts: dict[str, Any]) -> None:
        method = scope["method"] if scope["method"] in _METHODS else _UNKNOWN
        path = _documented_path(scope)
        self._figures.count(method, path, status, took_s)
        caller = scope.get("state", {}).get("caller")
        facts["user"] = caller.user if caller is not None else None
        job_id = str(scope.get("path_params", {}).get("job_id", ""))
        facts["job_id"] = job_id if JOB_ID.fullmatch(job_id) else None
        found = {"call": f"{method} {path}", "status": status, "took_ms": round(took_s * 1000, 3)}
        log.info("%s %s", found["call"], status, extra=found)


def _documented_path(scope: Scope) -> str:
    """Return the path of a call as the reference has it; a dash if there is no such path."""
    path = getattr(scope.get("route"), "path", None)
    if path is None:
        return _UNKNOWN
    # A route may know only the part behind the prefix that it was included with.
    before = str(scope["path"]).split("/")[: -path.count("/")]
    return "/".join(before) + str(path)
