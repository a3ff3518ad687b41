"""Settings of a rule written behind its name: `multifactor:age=1000,fair_share=5000`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from presage.errors import UsageError

T = TypeVar("T")


def parse_settings(kind: type[T], text: str, what: str) -> T:
    """Return an instance of the dataclass `kind`, whose fields are numbers, with the settings of `text`.

    `what` names the rule in messages. Raises UsageError for unknown keys and for values that are no numbers.
    """
    types = {field.name: int if field.type == "int" else float for field in fields(kind)}  # type: ignore[arg-type]
    settings: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in types or not equals:
            expected = f"KEY=NUMBER with a key of {', '.join(types)}" if types else "no settings at all"
            raise UsageError(f"{what} has no setting {part.strip()!r}", expected=expected)
        try:
            settings[name] = types[name](value)
        except ValueError:
            number = "a whole number" if types[name] is int else "a number"
            raise UsageError(f"The setting {name} cannot be {value!r}", expected=number) from None
    return kind(**settings)


def changed_settings(rule: object) -> str:
    """Return what `parse_settings` takes: the numbers that differ from their defaults."""
    values = {field.name: (getattr(rule, field.name), field.default) for field in fields(rule)}  # type: ignore[arg-type]
    changed = {
        name: value for name, (value, usual) in values.items() if isinstance(value, int | float) and value != usual
    }
    return ",".join(f"{name}={repr(value).removesuffix('.0')}" for name, value in changed.items())
