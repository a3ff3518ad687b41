from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from presage.clusters.catalogue import Catalogue
from presage.database import Database
from presage.orchestrator.store import Store
from presage.service.app import create_app
from presage.service.guards import RateLimit
from presage.service.state import State
from presage.service.tokens import Scope, Tokens


@dataclass
class Service:
    """A service in this process, and callers of all kinds."""

    client: TestClient
    state: State
    secrets: dict[str, str]

    def headers(self, who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secrets[who]}"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    database = Database(f"sqlite:///{tmp_path / 'presage.sqlite'}")
    tokens = Tokens(database)
    state = State(Store(database), tokens, Catalogue(database), ("sim",))
    secrets = {
        "ann": tokens.create("ann"),
        "bob": tokens.create("bob"),
        "olga": tokens.create("olga", Scope.OPERATOR),
        "root": tokens.create("root", Scope.ADMIN),
    }
    app = create_app(state, RateLimit(per_s=1e6, burst=10**6))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield Service(client, state, secrets)
