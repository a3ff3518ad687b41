"""Amounts as people write them: `178 GiB`, `4h`, `1-12:00:00`; and back."""

from __future__ import annotations

import math
import re

from presage.errors import UsageError

_BYTES = {
    "": 1, "b": 1,
    "k": 1 << 10, "kb": 10**3, "kib": 1 << 10,
    "m": 1 << 20, "mb": 10**6, "mib": 1 << 20,
    "g": 1 << 30, "gb": 10**9, "gib": 1 << 30,
    "t": 1 << 40, "tb": 10**12, "tib": 1 << 40,
}  # fmt: skip
_SECONDS = {"": 1, "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AMOUNT = re.compile(r"\s*(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[a-zA-Z]*)\s*")
_CLOCK = re.compile(
    r"(?:(?P<days>[0-9]+)-)?(?P<hours>[0-9]+):(?P<minutes>[0-9]{1,2})(?::(?P<seconds>[0-9]{1,2}))?"
)
_MOST_BYTES = 1e18
_MOST_SECONDS = 1000 * 365 * 86_400.0


def parse_bytes(text: str | float) -> int:
    """Return an amount of memory in bytes. `GB` is 10⁹; `GiB` and, as schedulers have it, `G` are 2³⁰.

    A plain number is bytes already. Raises UsageError for anything else.
    """
    count = _parse(text, _BYTES)
    if count > _MOST_BYTES:
        raise UsageError(
            f"{text!r} is no amount of memory", expected="a number with its unit, like 178 GiB or 500M"
        )
    return round(count)


def parse_seconds(text: str | float) -> float:
    """Return a duration in seconds, from `90`, `90s`, `15min`, `4h`, `2d`, `1w`, `4:00:00` or `1-12:00:00`.

    A plain number is seconds already. Raises UsageError for anything else.
    """
    clock = _CLOCK.fullmatch(text.strip()) if isinstance(text, str) else None
    if clock is None:
        length_s = _parse(text, _SECONDS)
    else:
        days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        length_s = days * 86_400 + hours * 3600 + minutes * 60 + seconds
    if length_s > _MOST_SECONDS:
        raise UsageError(
            f"{text!r} is no length of time",
            expected="a number with s, min, h, d or w, like 24h, or 1-12:00:00, below 1000 years",
        )
    return length_s


def format_bytes(count: float) -> str:
    """Return bytes as a person reads them: 512 MiB, 178 GiB, 1.5 TiB."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if abs(count) >= 1 << power:
            return f"{count / (1 << power):.4g} {unit}"
    return f"{count:.4g} B"


def format_seconds(seconds: float) -> str:
    """Return a duration as schedulers write it, rounded up to whole seconds: `4:00:00`, `1-12:00:00`."""
    whole = int(-(-seconds // 1))
    days, rest = divmod(whole, 86_400)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{clock}" if days else clock


def spell_seconds(seconds: float) -> str:
    """Return a duration as it is spoken of: 42 s, 15 min, 30 h; days only come in hours, as limits do."""
    if seconds >= 3600:
        return f"{seconds / 3600:.4g} h"
    return f"{seconds / 60:.3g} min" if seconds >= 60 else f"{seconds:.3g} s"


def _parse(text: str | float, units: dict[str, int]) -> float:
    """Return the number in its smallest unit; infinite if the text is none."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        text = repr(text)
    match = _AMOUNT.fullmatch(text) if isinstance(text, str) else None
    unit = match["unit"].lower() if match else ""
    return float(match["number"]) * units[unit] if match and unit in units else math.inf
