"""JSON schemas of what rooms read themselves, for the reference."""

from __future__ import annotations

from typing import Any

_DEFINITIONS = "#/$defs/"


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without references, as part of another document; it must not refer to itself."""
    definitions = schema.get("$defs", {})

    def resolved(part: Any) -> Any:
        if isinstance(part, list):
            return [resolved(each) for each in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return resolved(definitions[part["$ref"].removeprefix(_DEFINITIONS)])
        return {name: resolved(each) for name, each in part.items() if name != "$defs"}

    whole: dict[str, Any] = resolved(schema)
    return whole
