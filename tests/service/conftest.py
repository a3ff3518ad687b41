from __future__ import annotations

import shutil
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
from presage.service.callbacks import Callbacks
from presage.service.guards import RateLimit, Rates
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


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that has had all migrations, which take longer than most of the tests."""
    file = tmp_path_factory.mktemp("service") / "empty.sqlite"
    database = Database(f"sqlite:///{file}")
    Tokens(database).all()
    database.close()
    return file


@pytest.fixture
def service(tmp_path: Path, empty_database: Path) -> Iterator[Service]:
    shutil.copy(empty_database, tmp_path / "presage.sqlite")
    database = Database(f"sqlite:///{tmp_path / 'presage.sqlite'}")
    tokens = Tokens(database)
    state = State(Store(database), tokens, Callbacks(database), Catalogue(database), ("sim",))
    secrets = {
        "ann": tokens.create("ann"),
        "bob": tokens.create("bob"),
        "olga": tokens.create("olga", Scope.OPERATOR),
        "root": tokens.create("root", Scope.ADMIN),
    }
    endless = RateLimit(per_s=1e6, burst=10**6)
    app = create_app(state, Rates(endless, endless))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield Service(client, state, secrets)
