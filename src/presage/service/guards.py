"""What stands before every call: rate, size and time limits, and headers on every answer."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders

from presage.service.answers import error_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY_BYTES = 8 << 20
BODY_TIMEOUT_S = 30.0
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


@dataclass
class Rates:
    """Limits for those who have shown a valid token, each by the token, and for all others by their address.

    A token counts as valid after a call with it was; until then whoever sends it is a stranger. So nobody gets
    more calls by sending ever new tokens, and nobody takes those of another by sending a part of his token.
    """

    callers: RateLimit = field(default_factory=RateLimit)
    strangers: RateLimit = field(default_factory=lambda: RateLimit(20.0, 100))
    _known: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def allows(self, token: str, address: str) -> bool:
        """Count a call, and return whether it may be made."""
        return self.callers.allows(token) if token in self._known else self.strangers.allows(address)

    def note(self, token: str, *, valid: bool) -> None:
        """Remember whether a token was valid at a call."""
        self._known.pop(token, None)
        if valid:
            self._known[token] = None
            if len(self._known) > _MOST_CALLERS:
                self._known.popitem(last=False)


class Guards:
    """An ASGI middleware: refuses bodies that are too large or too slow and callers that are too fast."""

    def __init__(
        self,
        app: ASGIApp,
        rates: Rates,
        most_body_bytes: int = MOST_BODY_BYTES,
        body_timeout_s: float = BODY_TIMEOUT_S,
    ) -> None:
        self._app = app
        self._rates = rates
        self._most = most_body_bytes
        self._timeout_s = body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, if it may be."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answered = _Answered(send)
        headers = dict(scope["headers"])
        token, address = _token(headers), _address(scope)
        if not self._rates.allows(token, address):
            refusal = error_answer(
                429, {"code": "too_many_calls", "problem": "You call too often"}, {"Retry-After": "1"}
            )
            await refusal(scope, receive, answered.send)
            return
        try:
            async with asyncio.timeout(self._timeout_s):
                messages = await _body(receive, headers.get(b"content-length"), self._most)
        except TimeoutError:
            slow = {"code": "too_slow", "problem": f"The request was not there after {self._timeout_s:g} s"}
            await error_answer(408, slow, {"Connection": "close"})(scope, receive, answered.send)
            return
        if messages is None:
            large = {"code": "too_large", "problem": f"A request may have {self._most:,} bytes"}
            await error_answer(413, large, {"Connection": "close"})(scope, receive, answered.send)
            return
        await self._pass_on(scope, _replayed(messages, receive), answered)
        if token:
            self._rates.note(token, valid=scope.get("state", {}).get("caller") is not None)

    async def _pass_on(self, scope: Scope, receive: Receive, answered: _Answered) -> None:
        try:
            await self._app(scope, receive, answered.send)
        except Exception:
            log.exception("A call to %s failed", scope["method"])
            if answered.begun:
                raise
            broken = error_answer(500, {"code": "internal", "problem": "The service failed; its log says why"})
            await broken(scope, receive, answered.send)


class _Answered:
    """Sends with headers, and knows whether an answer has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)


def _token(headers: dict[bytes, bytes]) -> str:
    """Return what stands for the token of a call without being it; empty if it has none."""
    given = headers.get(b"authorization")
    return hashlib.sha256(given).hexdigest() if given else ""


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


async def _body(receive: Receive, declared: bytes | None, most: int) -> list[Message] | None:
    """Return the messages of a body; None if it is too large. What it declares itself to have is not believed."""
    if declared is not None and not (declared.isdigit() and len(declared) < 20 and int(declared) <= most):
        return None
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
