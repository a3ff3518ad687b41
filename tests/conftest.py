from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from presage.testing.postgres import PostgresServer

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
FIXTURES = Path(__file__).parent / "fixtures" / "traces"

# How long one example takes says more about the machine than about the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real traces beside the repository."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real traces are not on this machine")
    return SHARED_DATA


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder of small invented logs, one per format."""
    return FIXTURES


@pytest.fixture(scope="session", autouse=True)
def _state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep all tests away from what the person who runs them has in their catalogue."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRESAGE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of its own; `empty_database` gives its database."""
    from presage.testing.postgres import PostgresServer, missing_for_postgres

    if reason := missing_for_postgres():
        pytest.skip(reason)
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, once of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'presage.sqlite'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.empty_database()
