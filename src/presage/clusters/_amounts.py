"""Values of fields whose name ends in a unit, as people write them and as programs keep them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from presage.errors import UsageError
from presage.units import format_bytes, format_seconds, parse_bytes, parse_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

PER_SECOND = "/s"
_UNITS = {
    "TiB": 1 << 40, "TB": 10**12, "GiB": 1 << 30, "GB": 10**9, "MiB": 1 << 20, "MB": 10**6, "KiB": 1 << 10,
}  # fmt: skip
_DECIMALS = (0, 1, 2)
_READABLE = 1_000_000


def parse_amount(field: str, value: Any) -> Any:
    """Return what a field takes: the number that a text with a unit stands for, anything else as it is.

    `memory_bytes` takes `178 GiB`, `bandwidth_bytes_s` takes `2 TB/s`, `max_walltime_s` takes `168h`. Raises
    UsageError for a text that is no amount.
    """
    parse = _parser_of(field)
    if parse is None:
        return value
    if isinstance(value, float) and field.endswith("_bytes") and value.is_integer():
        return int(value)
    return parse(value) if isinstance(value, str) else value


def readable_amount(field: str, value: Any) -> Any:
    """Return the shortest text that stands for exactly this value, or the value if there is none."""
    parse = _parser_of(field)
    if parse is None or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    for text in sorted(_spellings(field, value), key=len):
        with suppress(UsageError):  # more than a person would write
            if parse(text) == value:
                return text
    return value


def amount_in_words(field: str, value: Any) -> str:
    """Return a value for a person, rounded where it has a unit."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if _parser_of(field) is None or not isinstance(value, int | float):
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    if field.endswith("_bytes_s"):
        return f"{format_bytes(value)}{PER_SECOND}"
    return format_bytes(value) if field.endswith("_bytes") else format_seconds(value)


def without_unit(field: str) -> str:
    """Return the name of a field as a person says it: `max_walltime_s` is "max walltime"."""
    for suffix in ("_bytes_s", "_bytes", "_s"):
        field = field.removesuffix(suffix)
    return field.replace("_", " ")


def _parser_of(field: str) -> Callable[[str], float] | None:
    if field.endswith("_bytes_s"):
        return lambda text: float(parse_bytes(text.strip().removesuffix(PER_SECOND)))
    if field.endswith("_bytes"):
        return parse_bytes
    return parse_seconds if field.endswith("_s") else None


def _spellings(field: str, value: float) -> list[str]:
    if not 0 <= value < 1e15 or value != int(value):
        return []
    if not field.endswith(("_bytes", "_bytes_s")):
        for unit_s, unit in ((3600, "h"), (60, "min"), (1, "s")):
            if value % unit_s == 0 and value >= unit_s:
                return [f"{int(value) // unit_s}{unit}"]
        return []
    per = PER_SECOND if field.endswith("_bytes_s") else ""
    return [
        f"{value / size:.{decimals}f} {unit}{per}"
        for decimals in _DECIMALS
        for unit, size in _UNITS.items()
        if 1 <= value / size < _READABLE
    ]
