"""Service and plane in one process, until somebody stops it."""

from __future__ import annotations

import contextlib
import getpass
import logging
import socket
from typing import TYPE_CHECKING

from presage.errors import MissingDependencyError, UsageError
from presage.orchestrator.embedded import start_plane
from presage.orchestrator.feedback import start_feedback
from presage.orchestrator.retention import start_pruning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from presage.orchestrator.embedded import Clusters
    from presage.service.tokens import Tokens

log = logging.getLogger(__name__)

_LABEL = "presage up"
_BACKLOG = 2048
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  (compared with, not listened on)


def run_service(
    host: str,
    port: int,
    clusters: Clusters,
    announce: Callable[[str, str], None],
    *,
    kafka: str | None = None,
    reached_at: str | None = None,
    policies: Mapping[str, Path] | None = None,
) -> None:
    """Listen and work until SIGINT or SIGTERM; `announce` gets the address and a token once both work.

    `reached_at` is the address under which jobs find it, if that is another, as behind a proxy. `policies` are
    learned orders that callers may name, beside those of Presage.

    Raises MissingDependencyError without FastAPI, UsageError if nobody can listen there, and what is wrong with a
    policy.
    """
    try:
        import uvicorn

        from presage.service.app import create_app
    except ImportError:
        raise MissingDependencyError("fastapi", extra="serve", purpose="The service") from None
    from presage.clusters.catalogue import Catalogue
    from presage.database import Database, state_home
    from presage.orchestrator.store import Store
    from presage.service.callbacks import Callbacks
    from presage.service.offered import OfferedPolicies
    from presage.service.patience import server_settings
    from presage.service.state import State
    from presage.service.tokens import Tokens

    offered = OfferedPolicies(policies)
    database = Database()
    store, tokens = Store(database), Tokens(database)
    connectors = clusters.connect(state_home())
    listener = _listen(host, port)
    own_port = listener.getsockname()[1]
    callbacks = Callbacks(database, reached_at or f"http://{_reachable(host)}:{own_port}")
    app = create_app(State(store, tokens, callbacks, Catalogue(database), tuple(connectors), offered))
    background = []
    if kafka is not None:
        from presage.service.kafka import start_kafka

        background = start_kafka(kafka, database, store, callbacks)
    background += [start_feedback(database), start_pruning(database)]
    plane = start_plane(store, connectors, name=f"up-{socket.gethostname()}", pace=clusters.pace)
    announce(f"http://{_shown(host)}:{own_port}", _new_token(tokens))
    server = uvicorn.Server(server_settings(app))
    try:
        with contextlib.suppress(KeyboardInterrupt):  # which uvicorn passes on when it has come to its end
            server.run(sockets=[listener])
    finally:
        for each in background:
            each.stop()
        plane.stop()
        database.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)  # so that whoever calls as soon as the address is told is not refused
    except OSError as error:
        listener.close()
        raise UsageError(
            f"Nobody can listen on {host}:{port}: {error.strerror or error}",
            remedy="Stop whoever does, or name another with --port (0: any)",
        ) from None
    return listener


def _new_token(tokens: Tokens) -> str:
    """Return a token for the user of this machine; the one of the last start ends."""
    from presage.service.tokens import Scope

    for each in tokens.all():
        if each["label"] == _LABEL and each["revoked_at"] is None:
            tokens.revoke(each["token_id"])
    return tokens.create(getpass.getuser(), Scope.ADMIN, _LABEL)


def _reachable(host: str) -> str:
    """Return the name under which jobs on other machines find this one, if it listens to them."""
    return socket.getfqdn() if host in _EVERYWHERE else _shown(host)


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
