"""Requests to Tapis and its answers, with time limits; what can go wrong has a name.

What changes nothing, or the same thing however often it is asked for, is asked for again when a connection
breaks. Handing over a job is not: it is tried again only if the request cannot have arrived.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlsplit

import httpx

from presage.connectors._answers import read_bounded
from presage.connectors.tapis.tokens import Tokens
from presage.errors import (
    ClusterRefusedError,
    ClusterTimeoutError,
    ClusterUnreachableError,
    ConnectorError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

Method = Literal["GET", "POST"]
TIMEOUT_S = 30.0
MAX_ANSWER_BYTES = 100_000_000
_PAUSES_S = (0.0, 0.3, 1.0)
"""Before each attempt."""
_BUSY = (429, 502, 503, 504)
_TOO_MANY = 429
_UNAUTHORIZED = 401
_FAILED = 400
_SERVER_FAILED = 500
_MAX_WORDS_CHARS = 600
_ASK_AGAIN = "Ask again later; what was asked for may still have been done"


@dataclass(frozen=True)
class Answer:
    """What Tapis said: a status of HTTP, words for a person, and the result."""

    status: int
    message: str
    result: Any


@dataclass(frozen=True)
class _Call:
    method: Method
    path: tuple[str, ...]
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str | int] | None = None
    is_repeatable: bool = True
    is_file: bool = False


class TapisClient:
    """The services of one tenant, whose address is `base_url`, in the name of one user.

    Raises UsageError for an address to which a password must not be sent: any without https, unless it is this
    machine's own.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: str | Callable[[], str] | None = None,
        username: str | None = None,
        password: str | None = None,
        timeout_s: float = TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        is_local = _check_address(base_url)
        self.base_url = base_url.rstrip("/")
        self.timeout_s = timeout_s
        # A connection for each request: one that was kept may be dead when a job is handed over on it.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._http = httpx.Client(
            transport=transport, limits=limits, follow_redirects=False, trust_env=not is_local
        )
        by_password = token is None and username is not None and password is not None
        login = {"grant_type": "password", "username": username, "password": password}
        self._tokens = Tokens(token, (lambda: self._log_in(login)) if by_password else None)

    def ask(
        self,
        method: Method,
        *path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str | int] | None = None,
        is_repeatable: bool = True,
        accepted: Collection[int] = (),
    ) -> Answer:
        """Return the answer to a request for a path, whose parts may be any text.

        Raises ClusterRefusedError with the words of Tapis if it said no, unless with an `accepted` status;
        ClusterTimeoutError or ClusterUnreachableError if there is no answer.
        """
        return self._authorized(_Call(method, path, body, query, is_repeatable), accepted)

    def download(self, *path: str) -> bytes:
        """Return the file at a path as it is. Raises as `ask` does."""
        answer = self._authorized(_Call("GET", path, is_file=True), ())
        return bytes(answer.result)

    def _authorized(self, call: _Call, accepted: Collection[int]) -> Answer:
        token = self._tokens.current()
        answer = self._attempt(call, token)
        if answer.status == _UNAUTHORIZED and self._tokens.renew(token):
            answer = self._attempt(call, self._tokens.current())
        if answer.status < _FAILED or answer.status in accepted:
            return answer
        raise _refusal(answer)

    def _log_in(self, login: Mapping[str, Any]) -> str:
        answer = self._attempt(_Call("POST", ("oauth2", "tokens"), login), None)
        if answer.status >= _FAILED:
            raise _refusal(answer)
        try:
            return str(answer.result["access_token"]["access_token"])
        except (TypeError, KeyError):
            raise ClusterUnreachableError("Tapis gave no token where one was expected") from None

    def _attempt(self, call: _Call, token: str | None) -> Answer:
        """Return the first answer of a few attempts, all within the time limit."""
        request = self._request(call, token)
        deadline_s = time.monotonic() + self.timeout_s
        problem: ConnectorError = self._timeout()
        for pause_s in _PAUSES_S:
            time.sleep(pause_s)
            if time.monotonic() >= deadline_s:
                break
            has_arrived = True
            try:
                answer = self._once(request, deadline_s, is_file=call.is_file)
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
                problem, has_arrived = self._unreachable(error), False
            except httpx.TimeoutException:
                problem = self._timeout()
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                problem = self._unreachable(error)
            else:
                if answer.status not in _BUSY:
                    return answer
                problem = ClusterUnreachableError(f"Tapis is busy: {answer.message}", remedy=_ASK_AGAIN)
                has_arrived = answer.status != _TOO_MANY
            if has_arrived and not call.is_repeatable:
                break
        raise problem

    def _request(self, call: _Call, token: str | None) -> httpx.Request:
        url = "/".join([self.base_url, "v3", *(quote(part, safe="") for part in call.path)])
        headers = {"X-Tapis-Token": token} if token else {}
        return self._http.build_request(call.method, url, params=call.query, json=call.body, headers=headers)

    def _once(self, request: httpx.Request, deadline_s: float, *, is_file: bool) -> Answer:
        left_s = max(0.001, deadline_s - time.monotonic())
        request.extensions["timeout"] = httpx.Timeout(left_s).as_dict()
        response = self._http.send(request, stream=True)
        try:
            content = read_bounded(response.iter_bytes(), deadline_s, MAX_ANSWER_BYTES)
        finally:
            response.close()
        if is_file and response.status_code < _FAILED:
            return Answer(response.status_code, "", content)
        return _parse(response.status_code, bytes(content))

    def _timeout(self) -> ClusterTimeoutError:
        problem = f"Tapis at {self.base_url} did not answer within {self.timeout_s:g} s"
        return ClusterTimeoutError(problem, remedy=_ASK_AGAIN)

    def _unreachable(self, error: Exception) -> ClusterUnreachableError:
        words = str(error) or type(error).__name__
        return ClusterUnreachableError(f"Tapis at {self.base_url} cannot be reached: {words}", remedy=_ASK_AGAIN)


def _parse(status: int, content: bytes) -> Answer:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        words = _printable(content[:200].decode(errors="replace"))
        if status < _FAILED:  # somebody else than Tapis, a proxy's page for example
            raise httpx.DecodingError(f"its answer is not Tapis's: {words!r}")
        return Answer(status, words, None)
    return Answer(status, _printable(str(document.get("message") or "")), document.get("result"))


def _refusal(answer: Answer) -> ConnectorError:
    words = answer.message or "no reason given"
    if answer.status >= _SERVER_FAILED:
        return ClusterUnreachableError(f"Tapis failed ({answer.status}): {words}", remedy=_ASK_AGAIN)
    remedy = ""
    if answer.status == _UNAUTHORIZED:
        remedy = "Check the token, or the username and the password"
    return ClusterRefusedError(f"Tapis said no ({answer.status}): {words}", remedy=remedy)


def _printable(text: str) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(plain.split())[:_MAX_WORDS_CHARS]


def _check_address(base_url: str) -> bool:
    """Return whether an address is this machine's own. Raises UsageError for one that cannot be used."""
    try:
        parts = urlsplit(base_url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not host or parts.username or parts.query or parts.fragment:
        raise UsageError(
            f"{base_url[:80]!r} cannot be the address of Tapis", expected="an address like https://tacc.tapis.io"
        )
    is_local = host == "localhost"
    with contextlib.suppress(ValueError):
        is_local = is_local or ip_address(host).is_loopback
    if parts.scheme == "http" and not is_local:
        raise UsageError(
            f"{base_url[:80]!r} would carry the token for everybody to read", expected="an address with https"
        )
    return is_local
