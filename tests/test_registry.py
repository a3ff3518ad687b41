from __future__ import annotations

import json
import logging
from dataclasses import asdict
from importlib.metadata import EntryPoint

import pytest

from presage.errors import PresageError, UnknownNameError
from presage.registry import Registry, Spec


def registry() -> Registry[type]:
    return Registry("colour", "presage.test-colours", [Spec("red", "decimal:Decimal", "warm")])


def test_a_kind_is_imported_when_first_used() -> None:
    import decimal

    assert registry().get("red") is decimal.Decimal


def test_an_unknown_name_is_answered_with_the_closest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'red'"):
        registry().get("rad")


def test_a_name_can_be_taken_once_only() -> None:
    with pytest.raises(PresageError, match="'red' is taken by decimal:Decimal"):
        registry().register(Spec("red", "fractions:Fraction"))


def test_specs_survive_json() -> None:
    spec = registry().spec("red")
    assert Spec(**json.loads(json.dumps(asdict(spec)))) == spec


def test_entry_points_come_through_the_same_door(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    points = [
        EntryPoint("blue", "fractions:Fraction", "presage.test-colours"),
        EntryPoint("red", "fractions:Fraction", "presage.test-colours"),
    ]
    monkeypatch.setattr("presage.registry.entry_points", lambda group: points)
    colours = registry()
    with caplog.at_level(logging.WARNING):
        assert list(colours) == ["red", "blue"]
    assert "'red' is taken" in caplog.text
    assert colours.get("blue").__name__ == "Fraction"
    assert "blue" in colours
    assert len(colours) == 2


def test_a_broken_plug_in_is_named_and_costs_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    colours = registry()
    colours.register(Spec("mauve", "no_such_package:Mauve", "from a broken package"))
    with pytest.raises(PresageError, match=r"'mauve'.*cannot be loaded"):
        colours.get("mauve")
    with caplog.at_level(logging.WARNING):
        assert list(colours.load_all()) == ["red"]
    assert "mauve" in caplog.text
