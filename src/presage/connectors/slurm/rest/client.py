"""Requests to slurmrestd and its answers, with a time limit; what can go wrong has a name."""

from __future__ import annotations

import json
import os
import pwd
import time
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import httpx

from presage.connectors._answers import read_bounded
from presage.connectors.slurm.words import UNREACHABLE, is_busy
from presage.errors import (
    ClusterBusyError,
    ClusterRefusedError,
    ClusterTimeoutError,
    ClusterUnreachableError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Method = Literal["GET", "POST", "DELETE"]
    Document = dict[str, Any]

TIMEOUT_S = 60.0
VERSIONS = ("v0.0.38", "v0.0.37", "v0.0.36")
MAX_ANSWER_BYTES = 1_000_000_000
"""A busy site's whole queue is some hundred megabytes: about 4 kB for each job, of everybody."""
TOKEN_VARIABLE = "SLURM_JWT"  # noqa: S105  (a name, where Slurm's own commands look too)
_UNAUTHORIZED = 401
_NOT_FOUND = 404
_FAILED = 400
_SERVER_FAILED = 500
_MAX_WORDS_CHARS = 600
_NOTHING = "Nothing found"
_ASK_AGAIN = "Ask again later; what was asked for may still have been done"


class SlurmRestClient:
    """A slurmrestd at `http://HOST:PORT`, `https://…` or `unix:/PATH`, asked in the name of one user.

    Over a socket slurmrestd knows by itself who asks (rest_auth/local). Otherwise it wants a token of the user
    (auth/jwt), a text, a file that is read for each request, or a function; without one, what the variable
    SLURM_JWT says. Raises UsageError for an address to which a token must not be sent: any without https, unless
    it is this machine's own.
    """

    def __init__(
        self,
        address: str,
        *,
        user: str | None = None,
        token: str | Path | Callable[[], str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        socket = address.removeprefix("unix:") if address.startswith("unix:") else None
        if socket is None:
            _check_address(address)
        self.address = address.rstrip("/")
        self.user = user or _own_name()
        self.timeout_s = timeout_s
        self._token = token
        self._version: str | None = None
        # A connection for each request: one that was kept may be dead when a job is handed over on it.
        transport = httpx.HTTPTransport(uds=socket, limits=httpx.Limits(max_keepalive_connections=0))
        self._base = "http://localhost" if socket is not None else self.address
        self._is_socket = socket is not None
        self._http = httpx.Client(transport=transport, follow_redirects=False, trust_env=False)

    def ask(
        self,
        method: Method,
        service: Literal["slurm", "slurmdb"],
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Document:
        """Return what slurmrestd answers; it may still have "errors" in it. Raises ConnectorError.

        The answer is empty where this slurmrestd has no such service, as without accounting.
        """
        status, content = self._send(method, f"{service}/{self.version()}/{path}", query, body)
        if status == _UNAUTHORIZED:
            raise self._unauthorized()
        if status == _NOT_FOUND:
            return {}
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict):
            return document
        words = _printable(content[:200].decode(errors="replace"))
        if _FAILED <= status < _SERVER_FAILED:
            raise problem_of(f"slurmrestd said no ({status}): {words}")
        raise ClusterUnreachableError(f"The answer of {self.address} is not slurmrestd's: {words!r}")

    def list_of(
        self, service: Literal["slurm", "slurmdb"], what: str, query: Mapping[str, str] | None = None
    ) -> list[Document] | None:
        """Return a list that slurmrestd has; None where it has no such service. Raises ConnectorError.

        Whatever goes wrong is no refusal: there is nothing in a question for a list that could be refused. When
        the controller is away, slurmrestd says "Unspecified error"; when slurmdbd is, it says so with status 200.
        That there is nothing to list is also an error to it.
        """
        document = self.ask("GET", service, what, query=query)
        found = document.get(what)
        words = errors_of(document)
        if words and _NOTHING not in words:
            raise ClusterUnreachableError(f"slurmrestd cannot list {what}: {words}", remedy=_ASK_AGAIN)
        return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else None

    def version(self) -> str:
        """Return the newest of our versions that slurmrestd has. Raises ClusterUnreachableError if it has none."""
        if self._version is None:
            for version in VERSIONS:
                status, _ = self._send("GET", f"slurm/{version}/ping", None, None)
                if status == _UNAUTHORIZED:
                    raise self._unauthorized()
                if status != _NOT_FOUND:
                    self._version = version
                    return version
            raise ClusterUnreachableError(
                f"slurmrestd at {self.address} has none of the versions that are known here",
                expected=f"one of {', '.join(VERSIONS)}",
                remedy="Load one of these OpenAPI plug-ins (slurmrestd -s), or use the connector 'slurm'",
            )
        return self._version

    def _send(
        self, method: Method, path: str, query: Mapping[str, str] | None, body: Mapping[str, Any] | None
    ) -> tuple[int, bytes]:
        headers = self._headers()
        content = None if body is None else _encoded(body)
        deadline_s = time.monotonic() + self.timeout_s
        try:
            with self._http.stream(
                method, f"{self._base}/{path}", params=query, content=content, headers=headers,
                timeout=self.timeout_s,
            ) as response:  # fmt: skip
                return response.status_code, read_bounded(response.iter_bytes(), deadline_s, MAX_ANSWER_BYTES)
        except httpx.TimeoutException:
            problem = f"slurmrestd at {self.address} did not answer within {self.timeout_s:g} s"
            raise ClusterTimeoutError(problem, remedy=_ASK_AGAIN) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            words = str(error) or type(error).__name__
            raise ClusterUnreachableError(
                f"slurmrestd at {self.address} cannot be reached: {words}", remedy=_ASK_AGAIN
            ) from None

    def _headers(self) -> dict[str, str]:
        kind = {"Content-Type": "application/json", "Accept": "application/json"}
        token = self._current_token()
        # Both or none: 22.05 refuses a token without a name.
        return kind if token is None else {**kind, "X-SLURM-USER-NAME": self.user, "X-SLURM-USER-TOKEN": token}

    def _current_token(self) -> str | None:
        try:
            given = self._token() if callable(self._token) else self._token
            token = given.read_text() if isinstance(given, Path) else given
        except OSError as error:
            problem = f"The token for slurmrestd cannot be read: {error.strerror}"
            raise ClusterUnreachableError(problem, remedy=f"Write it to {self._token}") from None
        if token is None and not self._is_socket:
            token = os.environ.get(TOKEN_VARIABLE)
        token = token.strip().removeprefix(f"{TOKEN_VARIABLE}=") if token else None
        if token and not (token.isascii() and token.isprintable()):
            raise UsageError("The token for slurmrestd is not one", expected="what `scontrol token` prints")
        return token or None

    def _unauthorized(self) -> ClusterUnreachableError:
        """Return the error of a token that has ended, say: no job's fault, and what is to be done is not lost."""
        return ClusterUnreachableError(
            f"slurmrestd at {self.address} does not accept the token of {self.user}",
            remedy="Get a new one with `scontrol token lifespan=SECONDS`, as that user",
        )


def errors_of(document: Document) -> str:
    """Return what slurmrestd says that went wrong, in its words; empty if nothing did."""
    told = document.get("errors")
    words: list[str] = []
    for each in told if isinstance(told, list) else []:
        if isinstance(each, dict):
            parts = (str(each.get(name) or "") for name in ("description", "error"))
            words.append(": ".join(part for part in parts if part))
    return _printable("; ".join(dict.fromkeys(filter(None, words))))


def problem_of(words: str) -> ClusterBusyError | ClusterRefusedError | ClusterUnreachableError:
    """Return the error that slurmrestd's words mean."""
    if any(mark in words for mark in UNREACHABLE):
        return ClusterUnreachableError(words, remedy=_ASK_AGAIN)
    if is_busy(words):
        return ClusterBusyError(words, remedy="Submit it again when fewer jobs wait")
    return ClusterRefusedError(words)


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        problem = "A text of the job is not made of whole characters"
        raise UsageError(problem, expected="Unicode, which is all that slurmrestd takes") from None


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        host, parts = "", urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        expected = "http://HOST:PORT, https://HOST:PORT or unix:/PATH"
        raise UsageError(f"{address[:80]!r} is not the address of a slurmrestd", expected=expected)
    if parts.scheme == "http" and not _is_this_machine(host):
        raise UsageError(
            f"A token must not be sent to {host} in clear",
            expected="https, or an address of this machine",
            remedy="Put a proxy with TLS before slurmrestd, or open a tunnel: ssh -L 6820:127.0.0.1:6820 HOST",
        )


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)[:_MAX_WORDS_CHARS]
