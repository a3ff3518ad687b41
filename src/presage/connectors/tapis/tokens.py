"""Tokens of Tapis: where they come from and when they end."""

from __future__ import annotations

import base64
import json
import threading
import time
from typing import TYPE_CHECKING

from presage.errors import ClusterRefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

EARLY_S = 60.0
"""A token that ends sooner than this is replaced before it is used."""


class Tokens:
    """Gives a token that is still good, a new one when the last one ends.

    A token comes from `token`, a text or a function that gives one, or from `log_in`, which gets a new one for a
    name and a password. A text cannot be renewed.
    """

    def __init__(self, token: str | Callable[[], str] | None, log_in: Callable[[], str] | None) -> None:
        if (token is None) == (log_in is None):
            raise UsageError("Tapis needs either a token, or a username and a password")
        self._fixed = token if isinstance(token, str) else None
        self._source = token if callable(token) else log_in
        self._current: str | None = None
        self._lock = threading.Lock()

    def current(self) -> str:
        """Return a token. Raises ClusterRefusedError if the only one has ended."""
        if self._source is None:
            return self._check_fixed()
        with self._lock:
            if self._current is None or _ends_within(self._current, EARLY_S):
                self._current = _header(self._source())
            return self._current

    def renew(self, refused: str) -> bool:
        """Return whether another token can be had than the one that was refused, which is forgotten."""
        with self._lock:
            if self._current == refused:
                self._current = None
            return self._source is not None

    def _check_fixed(self) -> str:
        token = _header(self._fixed or "")
        if _ends_within(token, 0.0):
            raise ClusterRefusedError(
                "The token for Tapis has ended",
                remedy="Get a new one, or give username and password, with which it is renewed by itself",
            )
        return token


def expiry_s(token: str) -> float | None:
    """Return when a token ends, in seconds since 1970; None if it does not say."""
    try:
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return float(claims["exp"])
    except (IndexError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _ends_within(token: str, seconds: float) -> bool:
    end_s = expiry_s(token)
    return end_s is not None and end_s < time.time() + seconds


def _header(token: str) -> str:
    """Return a token that can stand in a header."""
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise UsageError(
            "The token for Tapis is not one", expected="letters, digits, dots, dashes and underscores"
        )
    return token
