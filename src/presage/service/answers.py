"""Errors as they are answered: one form, with the status that fits."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

from presage.errors import PresageError

_STATUS = {
    "unauthenticated": 401,
    "forbidden": 403,
    "unknown_name": 404,
    "conflict": 409,
    "usage": 422,
    "input": 422,
    "unsupported": 422,
    "too_many_calls": 429,
    "missing_dependency": 501,
    "connector": 502,
    "command_missing": 502,
    "cluster_timeout": 504,
    "cluster_refused": 502,
    "cluster_unreachable": 502,
    "config": 503,
    "output": 503,
}
_OWN_TROUBLE = frozenset({500, 503})
_MOST_CHARS = 2000

log = logging.getLogger(__name__)


class ConflictError(PresageError):
    """The call does not go with how things stand."""

    code = "conflict"


class TooManyCallsError(PresageError):
    """The caller, or all callers together, ask for more than there is."""

    code = "too_many_calls"


class ErrorParts(BaseModel):
    """What went wrong."""

    code: str = Field(description="For programs; does not change.")
    problem: str
    expected: str = ""
    remedy: str = ""


class ErrorAnswer(BaseModel):
    """The form of all errors."""

    error: ErrorParts


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return these statuses as the reference of an endpoint has them."""
    return {
        status: {"model": ErrorAnswer, "description": HTTPStatus(status).phrase} for status in sorted(statuses)
    }


def error_answer(status: int, parts: dict[str, str], headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an error in the form that all have, of text that every client can read."""
    shown = {name: text[:_MOST_CHARS].encode("utf-8", "replace").decode() for name, text in parts.items()}
    return JSONResponse({"error": shown}, status, headers)


def answer_for(error: PresageError, *, is_about_path: bool = True) -> JSONResponse:
    """Return the answer to a call that failed. What troubles the service itself is logged, and not told.

    An unknown name is one that the path has, or else one in what was sent, which is then wrong.
    """
    codes = (getattr(kind, "code", "") for kind in type(error).__mro__)
    status = next((_STATUS[code] for code in codes if code in _STATUS), 500)
    if status == 404 and not is_about_path:
        status = 422
    if status in _OWN_TROUBLE:
        log.error("A call failed: %s", error)
        return error_answer(status, {"code": error.code, "problem": "The service cannot do this now"})
    headers = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}}.get(status)
    return error_answer(status, error.as_dict(), headers)
