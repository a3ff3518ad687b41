from __future__ import annotations

import inspect

import pytest

from presage import errors
from presage.errors import MissingDependencyError, PresageError, UnknownNameError, closest


def test_a_message_has_its_three_parts_in_order() -> None:
    error = PresageError("The file is red", expected="a blue one", remedy="Paint it")
    assert str(error) == "The file is red. Expected a blue one. Paint it."
    assert error.as_dict() == {
        "code": "error",
        "problem": "The file is red",
        "expected": "a blue one",
        "remedy": "Paint it",
    }


def test_parts_that_are_not_given_are_left_out() -> None:
    assert str(PresageError("It rains.")) == "It rains."
    assert PresageError("It rains").as_dict() == {"code": "error", "problem": "It rains"}


def test_unknown_names_are_answered_with_the_closest() -> None:
    error = UnknownNameError("rule", "drop-unran", ["drop-unrun", "sort-by-submit"])
    assert error.suggestion == "drop-unrun"
    assert str(error).endswith("Did you mean 'drop-unrun'?")
    assert str(PresageError("It rains", remedy="Did you mean 'snows'?")) == "It rains. Did you mean 'snows'?"


def test_nothing_near_gives_no_suggestion() -> None:
    assert closest("zzz", ["swf", "sacct"]) is None
    assert closest("SACCT", ["swf", "sacct"]) == "sacct"


def test_a_missing_package_names_the_extra() -> None:
    error = MissingDependencyError("matplotlib", extra="plot", purpose="Drawing")
    assert "pip install 'presage[plot]'" in str(error)


def test_the_tree_drawn_in_the_module_is_the_tree() -> None:
    drawn = inspect.getdoc(errors) or ""
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, PresageError):
            assert name in drawn


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        ("UsageError", 2),
        ("UnreadableSourceError", 3),
        ("MissingDependencyError", 4),
        ("ConfigError", 5),
        ("OutputError", 7),
        ("ClusterRefusedError", 8),
    ],
)
def test_exit_codes_are_those_documented(kind: str, exit_code: int) -> None:
    assert getattr(errors, kind).exit_code == exit_code
