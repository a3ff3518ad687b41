"""Who may call: random tokens, kept as digests, with a scope, an end, and a way to take them back."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeGuard

from sqlalchemy import delete, func, select

from presage.errors import UnknownNameError, UsageError
from presage.orchestrator.rows import plain_text
from presage.orchestrator.store import utc_now
from presage.service.tables import AuditRow, TokenRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.database import Database

_LOCK = "tokens"
_PREFIX = "presage"
USER_PATTERN = "^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$"
_SECRET_BYTES = 32
_LONGEST_SECRET = 200
_MOST_RECORDED = 1_000_000
"""Calls; the oldest are forgotten."""


class Scope(StrEnum):
    """What a token is good for; each can do what those before it can."""

    USER = "user"
    """Jobs of one's own, estimates, plans."""
    OPERATOR = "operator"
    """Everybody's jobs, systems."""
    ADMIN = "admin"
    """Tokens."""

    def includes(self, other: Scope) -> bool:
        """Return whether it can do what `other` can."""
        order = list(Scope)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True)
class Caller:
    """Who calls."""

    user: str
    scope: Scope
    token_id: str


class Tokens:
    """The tokens in a database, and the record of calls."""

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._now = now

    def create(self, user: str, scope: Scope = Scope.USER, label: str = "", days: float | None = None) -> str:
        """Return the secret of a new token, which nobody can read again. Raises UsageError."""
        if not re.fullmatch(USER_PATTERN, user) or user.endswith("\n"):
            raise UsageError(f"{user[:40]!r} is no name of a user", expected="letters, digits, dots, dashes and @")
        if days is not None and not 0 < days < 36_500:
            raise UsageError(f"A token cannot last {days:g} days", expected="a number above 0")
        token_id = secrets.token_hex(6)
        secret = f"{_PREFIX}_{token_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
        now = self._now()
        with self._database.writing(_LOCK) as session:
            session.add(
                TokenRow(
                    token_id=token_id,
                    digest=_digest(secret),
                    user=user,
                    scope=scope.value,
                    label=plain_text(label[:100]),
                    created_at=now,
                    expires_at=None if days is None else now + timedelta(days=days),
                )
            )
        return secret

    def check(self, secret: str) -> Caller | None:
        """Return whose token this is; None if it is none, has ended or was taken back."""
        if len(secret) > _LONGEST_SECRET:
            return None
        with self._database.reading() as session:
            # By digest: how long a lookup takes tells nothing about the secret.
            row = session.scalar(select(TokenRow).where(TokenRow.digest == _digest(secret)))
        return Caller(row.user, Scope(row.scope), row.token_id) if self._holds(row) else None

    def is_good(self, token_id: str) -> bool:
        """Return whether a token still holds: for calls that go on after they were let in."""
        with self._database.reading() as session:
            return self._holds(session.get(TokenRow, token_id))

    def revoke(self, token_id: str) -> None:
        """Take a token back, at once. Raises UnknownNameError."""
        with self._database.writing(_LOCK) as session:
            row = session.get(TokenRow, token_id)
            if row is None:
                raise UnknownNameError("token", token_id, [])
            row.revoked_at = row.revoked_at or self._now()

    def all(self) -> list[dict[str, Any]]:
        """Return what there is to know of every token; not its secret."""
        with self._database.reading() as session:
            rows = session.scalars(select(TokenRow).order_by(TokenRow.created_at))
            return [
                {
                    "token_id": row.token_id,
                    "user": row.user,
                    "scope": row.scope,
                    "label": row.label,
                    "created_at": row.created_at.isoformat(),
                    "expires_at": row.expires_at.isoformat() if row.expires_at else None,
                    "revoked_at": row.revoked_at.isoformat() if row.revoked_at else None,
                }
                for row in rows
            ]

    def _holds(self, row: TokenRow | None) -> TypeGuard[TokenRow]:
        if row is None or row.revoked_at is not None:
            return False
        return row.expires_at is None or row.expires_at > self._now()

    def record(self, caller: Caller | None, call: str, status: int) -> None:
        """Write down a call that changed something or was refused."""
        with self._database.writing("audit") as session:
            session.add(
                AuditRow(
                    at=self._now(),
                    user=caller.user if caller else None,
                    token_id=caller.token_id if caller else None,
                    call=call[:300],
                    status=status,
                )
            )
            last = session.scalar(select(func.max(AuditRow.number))) or 0
            session.execute(delete(AuditRow).where(AuditRow.number <= last - _MOST_RECORDED))

    def recorded(self, most: int = 1000) -> list[dict[str, Any]]:
        """Return the latest calls, the newest first."""
        with self._database.reading() as session:
            rows = session.scalars(select(AuditRow).order_by(AuditRow.number.desc()).limit(most))
            return [
                {"at": row.at.isoformat(), "user": row.user, "call": row.call, "status": row.status}
                for row in rows
            ]


def _digest(secret: str) -> str:
    # A plain hash is right for secrets of 256 random bits; a slow one is for passwords that people choose.
    return hashlib.sha256(secret.encode()).hexdigest()
