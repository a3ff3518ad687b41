"""The tables of the service: who may call it, and what was called."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from presage.database.tables import Base, UtcTime


class TokenRow(Base):
    """A token; of its secret only a digest is kept."""

    __tablename__ = "access_tokens"
    __table_args__ = (UniqueConstraint("digest"),)

    token_id: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str]
    user: Mapped[str]
    scope: Mapped[str]
    label: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcTime)


class AuditRow(Base):
    """A call that changed something, or was refused."""

    __tablename__ = "audit"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    at: Mapped[datetime] = mapped_column(UtcTime)
    user: Mapped[str | None]
    token_id: Mapped[str | None]
    call: Mapped[str]
    status: Mapped[int]


class CallbackRow(Base):
    """With what secret a job may tell of itself, and the number of what it told last."""

    __tablename__ = "job_callbacks"

    job_id: Mapped[str] = mapped_column(ForeignKey("managed_jobs.job_id"), primary_key=True)
    digest: Mapped[str]
    sub_job: Mapped[int]
    sequence: Mapped[int] = mapped_column(BigInteger)
