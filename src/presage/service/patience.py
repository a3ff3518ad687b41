"""How long the server waits for whom: clients that send slowly, or nothing, do not keep others out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

    from fastapi import FastAPI

HEADERS_TIMEOUT_S = 10.0
_KEEP_ALIVE_S = 15
_MOST_CONNECTIONS = 1000
_STOP_S = 5
"""After which streams that are still open are cut off when the service stops."""


class ImpatientProtocol(H11Protocol):
    """HTTP, but whoever does not send the head of a request in time is cut off; the guards time the bodies."""

    headers_timeout_s = HEADERS_TIMEOUT_S

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Start the clock."""
        super().connection_made(transport)
        self.loop.call_later(self.headers_timeout_s, self._close_unless_called, None)

    def on_response_complete(self) -> None:
        """Start it again."""
        super().on_response_complete()
        self.loop.call_later(_KEEP_ALIVE_S + self.headers_timeout_s, self._close_unless_called, self.cycle)

    def _close_unless_called(self, last: object) -> None:
        if self.cycle is last and not self.transport.is_closing():
            self.transport.close()


def server_settings(app: FastAPI) -> uvicorn.Config:
    """Return how the service is served: bounded in connections and in time, silent about who calls what."""
    return uvicorn.Config(
        app,
        http=ImpatientProtocol,
        ws="none",
        log_config=None,  # what it has to say goes where everything else does
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # an address that the caller names himself would be no limit to him
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_STOP_S,
    )
