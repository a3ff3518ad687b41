from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from presage.database import Database
from presage.estimators import ESTIMATORS
from presage.estimators.repository import Repository
from presage.registry import Spec
from tests.estimators.plugins.conftest import Server
from tests.estimators.repository.fakes import FakeWalltime

MakePlugin = Callable[..., Path]


@pytest.fixture
def repository(database_url: str, tmp_path: Path) -> Iterator[Repository]:
    database = Database(database_url)
    yield Repository(database, tmp_path / "estimators")
    database.close()


@pytest.fixture
def make_plugin(tmp_path: Path) -> MakePlugin:
    """Write a folder with a program that always gives the same answer."""

    def make(name: str = "constant", version: str = "1", quantity: str = "walltime", p50: float = 2.0) -> Path:
        folder = tmp_path / "plugins" / f"{name}-{version}-{p50}"
        folder.mkdir(parents=True)
        (folder / "estimator.toml").write_text(
            f'api = 1\nname = "{name}"\nversion = "{version}"\nquantity = "{quantity}"\n'
            'entrypoint = ["say"]\n[limits]\ntimeout_s = 10.0\n'
        )
        answer = f'{{"quantity": "{quantity}", "p10": 1, "p50": {p50}, "p90": 1000, "basis": "stated"}}'
        (folder / "say").write_text(f"#!/bin/sh\necho '{answer}'\n")
        (folder / "say").chmod(0o755)
        return folder

    return make


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> type[FakeWalltime]:
    """Put the fake into the registry, as an entry point would."""
    ESTIMATORS.specs()
    monkeypatch.setattr(ESTIMATORS, "_specs", dict(ESTIMATORS._specs))
    monkeypatch.setattr(ESTIMATORS, "_loaded", dict(ESTIMATORS._loaded))
    ESTIMATORS.register(Spec("fake-walltime", f"{FakeWalltime.__module__}:FakeWalltime", "from a test"))
    monkeypatch.setattr(FakeWalltime, "asked", 0)
    return FakeWalltime


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()
