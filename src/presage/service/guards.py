"""What stands before every call: size and rate limits, headers, and a record of what was changed or refused."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY_BYTES = 8 << 20
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'",
}
_MOST_CALLERS = 10_000

log = logging.getLogger(__name__)


class RateLimit:
    """So many calls a second on average, and so many at once, for each caller."""

    def __init__(self, per_s: float = 50.0, burst: int = 200, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, caller: str) -> bool:
        """Count a call, and return whether it may be made."""
        now = self._clock()
        left, since = self._left.pop(caller, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._per_s)
        self._left[caller] = (max(0.0, left - 1.0), now)
        if len(self._left) > _MOST_CALLERS:  # those who have not called for longest
            self._left.popitem(last=False)
        return left >= 1.0


class Guards:
    """An ASGI middleware: refuses bodies that are too large and callers that are too fast; adds headers."""

    def __init__(self, app: ASGIApp, rate: RateLimit, most_body_bytes: int = MOST_BODY_BYTES) -> None:
        self._app = app
        self._rate = rate
        self._most = most_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, if it may be."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if not self._rate.allows(_caller(scope, headers)):
            await _refuse(429, "too_many_calls", "You call too often")(scope, receive, _with_headers(send))
            return
        messages = await _body(receive, headers.get(b"content-length"), self._most)
        if messages is None:
            refusal = _refuse(413, "too_large", f"A request may have {self._most:,} bytes")
            await refusal(scope, receive, _with_headers(send))
            return
        await self._app(scope, _replayed(messages, receive), _with_headers(send))


def _caller(scope: Scope, headers: dict[bytes, bytes]) -> str:
    """Return by what a caller is told from others: the public part of a token, else the address."""
    words = headers.get(b"authorization", b"").split(b"_")
    if len(words) > 2:
        return words[1].decode("latin-1")[:40]
    client = scope.get("client")
    return client[0] if client else ""


async def _body(receive: Receive, declared: bytes | None, most: int) -> list[Message] | None:
    """Return the messages of a body without a declared length, none for others; None if it is too large."""
    if declared is not None:
        return [] if declared.isdigit() and int(declared) <= most else None
    messages, seen = [], 0
    while True:
        message = await receive()
        messages.append(message)
        seen += len(message.get("body", b""))
        if seen > most:
            return None
        if not message.get("more_body", False):
            return messages


def _replayed(messages: list[Message], receive: Receive) -> Receive:
    left = iter(messages)

    async def replaying() -> Message:
        message = next(left, None)
        return message if message is not None else await receive()

    return replaying


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def _refuse(status: int, code: str, problem: str) -> JSONResponse:
    content: dict[str, Any] = {"error": {"code": code, "problem": problem}}
    return JSONResponse(content, status)
