"""What every section of a report is made of."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Figures:
    """Numbers that a section found."""

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON: no NaN, lists instead of tuples."""
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}


@dataclass(frozen=True)
class Unmeasured:
    """A section that could not be measured."""

    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Return the reason for JSON."""
        return {"not_measured": self.reason}


def _plain(value: Any) -> Any:
    if isinstance(value, Figures | Unmeasured):
        return value.as_dict()
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
