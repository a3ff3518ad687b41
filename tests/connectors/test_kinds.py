"""Every kind of connector that is registered runs the contract."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from presage.connectors import CONNECTORS
from presage.testing.connectors import ConnectorContract


@pytest.fixture(scope="module")
def contracts() -> dict[str, type[ConnectorContract]]:
    """All contracts that the tests of this folder run, by the kind they are of."""
    for path in Path(__file__).parent.glob("test_*.py"):
        import_module(f"{__package__}.{path.stem}")
    return {each.kind: each for each in _below(ConnectorContract) if each.kind}


def _below(parent: type[ConnectorContract]) -> Iterator[type[ConnectorContract]]:
    for each in parent.__subclasses__():
        yield each
        yield from _below(each)


def test_every_kind_runs_the_contract(contracts: dict[str, type[ConnectorContract]]) -> None:
    assert set(contracts) >= {"local", "simulated", "slurm", "tapis"}
    assert set(contracts) == {spec.name for spec in CONNECTORS.specs() if spec.target.startswith("presage.")}
