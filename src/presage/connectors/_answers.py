"""Answers of HTTP servers, read within bounds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterable


def read_bounded(chunks: Iterable[bytes], deadline_s: float, most_bytes: int) -> bytes:
    """Return all of an answer, which must have come by this instant of time.monotonic().

    Each part may come in time while all of them together never end: the limits are for the whole. Raises
    httpx.ReadTimeout, httpx.DecodingError.
    """
    content = bytearray()
    for chunk in chunks:
        content += chunk
        if time.monotonic() > deadline_s:
            raise httpx.ReadTimeout("the answer does not end")
        if len(content) > most_bytes:
            raise httpx.DecodingError(f"an answer of more than {most_bytes:,} bytes")
    return bytes(content)
