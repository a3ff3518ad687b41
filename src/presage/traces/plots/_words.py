"""Numbers as people write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from presage.traces.statistics import Summary

_DURATIONS = ((31_557_600.0, "y"), (86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (0.001, "ms"))
_YEARS_FROM_S = 3 * 31_557_600.0
"""Up to three years are told in days, because spans of logs are."""


def duration(seconds: float) -> str:
    """Return a duration in its natural unit: `4.2 h`, `333 d`."""
    for unit_s, unit in _DURATIONS:
        if seconds >= (_YEARS_FROM_S if unit == "y" else unit_s):
            return f"{brief(seconds / unit_s)} {unit}"
    return "0 s"


def brief(value: float) -> str:
    """Return a number that is not negative with about two digits, and thousands apart: `0.03`, `4.2`, `1,024`."""
    if value >= 9.95:
        return f"{value:,.0f}"
    if value >= 0.95 or value == 0:
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:.2g}" if value >= 0.01 else "<0.01"


def count(value: float) -> str:
    """Return an amount of processors, GPUs or jobs: `1,024`, `0.5`."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """Return a share: `70%`, `1.7%`, `<0.1%`."""
    return "<0.1%" if 0 < share < 0.001 else f"{brief(share * 100)}%"


def shortened(text: str, most: int) -> str:
    """Return the text on one line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def headline(summary: Summary) -> str:
    """Return the line that stands under a title: jobs, span, machine, load."""
    parts = [f"{summary.jobs:,} job" + ("s" if summary.jobs != 1 else "")]
    if summary.span_s is not None:
        parts.append(duration(summary.span_s) + _dates(summary))
    if summary.users is not None:
        parts.append(f"{summary.users:,} user" + ("s" if summary.users != 1 else ""))
    if summary.processors is not None:
        parts.append(f"{count(summary.processors)} processors")
    if summary.gpus:
        parts.append(f"{count(summary.gpus)} GPUs")
    if summary.load is not None:
        parts.append(f"offered load {percent(summary.load)}")
    if summary.gpu_load is not None:
        parts.append(f"GPU load {percent(summary.gpu_load)}")
    if summary.synthetic:
        parts.append("synthetic")
    return "  ·  ".join(parts)


def _dates(summary: Summary) -> str:
    if summary.first_submit is None or summary.last_submit is None:
        return ""
    first, last = (text.partition("T")[0] for text in (summary.first_submit, summary.last_submit))
    return f" ({first})" if first == last else f" ({first} to {last})"
