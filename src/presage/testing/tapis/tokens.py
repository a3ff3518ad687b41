"""Tokens of the fake: signed by itself, with an end."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
import uuid
from typing import Any


class Signer:
    """Makes tokens and reads those that it has made."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def sign(self, claims: dict[str, Any], lifetime_s: float) -> str:
        """Return a token that ends after so many seconds."""
        full = {**claims, "exp": int(time.time() + lifetime_s), "jti": str(uuid.uuid4())}
        text = f"{_encode({'alg': 'HS256', 'typ': 'JWT'})}.{_encode(full)}"
        return f"{text}.{self._signature(text)}"

    def read(self, token: str) -> dict[str, Any] | None:
        """Return what a token says; None if it is none of ours or has ended."""
        text, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(text).encode()):
            return None
        body = text.partition(".")[2]
        claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return claims if claims["exp"] > time.time() else None

    def _signature(self, text: str) -> str:
        digest = hmac.new(self._secret, text.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _encode(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
