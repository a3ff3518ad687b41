"""Words that messages share."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return how many there are of what, with the noun in its number: `1 row`, `2,000 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
