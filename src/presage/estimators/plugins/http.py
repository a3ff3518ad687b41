"""Plug-ins that are servers: the request by POST, the answer in return; GET of the same address describes it."""

from __future__ import annotations

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from presage.errors import InputError
from presage.estimators._base import UnsupportedError
from presage.estimators.plugins._base import PluginEstimator
from presage.estimators.plugins.contract import MAX_DOCUMENT_BYTES, printable, read_refusal
from presage.estimators.plugins.manifest import Kind, Limits, Manifest, parse_manifest

if TYPE_CHECKING:
    from collections.abc import Coroutine

    import httpx

_PAUSES_S = (0.2, 0.6)
"""Before the second and the third attempt."""
_BUSY = (502, 503)
_OK = 200
_UNSUPPORTED = 422
_JSON = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}


class ServerFailedError(Exception):
    """A server could not be reached or gave what is no answer; the message says why, in words for a person."""


class Response(NamedTuple):
    """What a server returned."""

    status: int
    body: bytes


class HttpEstimator(PluginEstimator):
    """A server that gets a request by POST and returns the answer.

    200 is an answer, 422 a refusal with its reason; 502, 503 and connections that fail are tried again, twice,
    within the time limit; everything else is a failure. Redirections are not followed, and proxies not used.
    """

    def ask(self, document: bytes) -> bytes:
        try:
            response = _exchange("POST", self.manifest, document)
        except ServerFailedError as error:
            raise self.broken(str(error)) from None
        if response.status == _OK:
            return response.body
        if response.status == _UNSUPPORTED:
            raise UnsupportedError(_reason(response.body))
        raise self.broken(f"{self.manifest.url} answered with status {response.status}: {_reason(response.body)}")


def describe_address(url: str, *, limits: Limits | None = None) -> Manifest:
    """Return the manifest that the address gives of itself. Raises InputError if it gives none."""
    asked = parse_manifest(
        {"api": 1, "name": "unknown", "version": "0", "quantity": "memory", "kind": Kind.HTTP, "url": url},
        place=f"The address {printable(url)!r}",
    )
    try:
        response = _exchange("GET", asked, b"", limits=limits)
        document = json.loads(response.body) if response.status == _OK else None
    except ServerFailedError as error:
        raise InputError(str(error), remedy="Start the server, or say name, version and quantity") from None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise InputError(
            f"{url} does not describe itself: status {response.status}",
            expected="a manifest as JSON in answer to GET",
            remedy="Say name, version and quantity",
        )
    return parse_manifest({**document, "kind": Kind.HTTP, "url": url}, place=url)


def _exchange(method: str, manifest: Manifest, document: bytes, *, limits: Limits | None = None) -> Response:
    timeout_s = (limits or manifest.limits).timeout_s
    headers = dict(_JSON)
    token = os.environ.get(manifest.token_variable) if manifest.token_variable else None
    if token:
        headers["authorization"] = f"Bearer {token}"
    attempts = _attempts(method, manifest.url, document, headers, timeout_s)
    # In a thread of its own, as there may be an event loop in this one; asynchronous, as only then the time limit
    # holds for the whole exchange and not for each part of it.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _within(attempts, manifest.url, timeout_s)).result()


async def _within(attempts: Coroutine[Any, Any, Response], url: str, timeout_s: float) -> Response:
    try:
        return await asyncio.wait_for(attempts, timeout_s)
    except TimeoutError:
        raise ServerFailedError(f"{url} did not answer within {timeout_s:g} s") from None


async def _attempts(method: str, url: str, document: bytes, headers: dict[str, str], timeout_s: float) -> Response:
    import httpx

    problem = ""
    async with httpx.AsyncClient(timeout=timeout_s, trust_env=False, follow_redirects=False) as client:
        for pause_s in (0.0, *_PAUSES_S):
            await asyncio.sleep(pause_s)
            try:
                response = await _once(client, method, url, document, headers)
            except (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
                problem = f"{url} cannot be reached: {error or type(error).__name__}"
                continue
            except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
                raise ServerFailedError(f"{url} cannot be asked: {error or type(error).__name__}") from None
            if response.status not in _BUSY:
                return response
            problem = f"{url} is busy: status {response.status}"
    raise ServerFailedError(f"{problem} ({len(_PAUSES_S) + 1} attempts)")


async def _once(
    client: httpx.AsyncClient, method: str, url: str, document: bytes, headers: dict[str, str]
) -> Response:
    body = bytearray()
    async with client.stream(method, url, content=document or None, headers=headers) as response:
        async for chunk in response.aiter_raw():
            body.extend(chunk)
            if len(body) > MAX_DOCUMENT_BYTES:
                raise ServerFailedError(f"{url} returned more than {MAX_DOCUMENT_BYTES:,} bytes")
        return Response(response.status_code, bytes(body))


def _reason(body: bytes) -> str:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return read_refusal(body)
    if isinstance(document, dict) and "detail" in document and "unsupported" not in document:
        return printable(str(document["detail"]))
    return read_refusal(body)
