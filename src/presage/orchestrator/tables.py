"""The tables of the plane. What is searched for has a column; everything else is in documents."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from presage.database.tables import Base, UtcTime


class JobRow(Base):
    """A managed job. Whoever holds its claim, and only as long as that lasts, may change it."""

    __tablename__ = "managed_jobs"
    __table_args__ = (Index("ix_managed_jobs_phase_due_at", "phase", "due_at"),)

    job_id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(index=True)
    name: Mapped[str]
    order: Mapped[dict[str, Any]] = mapped_column(JSON)
    phase: Mapped[str]
    reason: Mapped[str] = mapped_column(default="")
    progress: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    due_at: Mapped[datetime] = mapped_column(UtcTime)
    """When somebody should look at it next."""
    claim_token: Mapped[str | None]
    claimed_by: Mapped[str | None]
    claimed_until: Mapped[datetime | None] = mapped_column(UtcTime)


class SubJobRow(Base):
    """A job of a cluster."""

    __tablename__ = "sub_jobs"
    __table_args__ = (
        UniqueConstraint("key"),
        Index("ix_sub_jobs_cluster_is_live", "cluster", "is_live"),
    )

    job_id: Mapped[str] = mapped_column(ForeignKey("managed_jobs.job_id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str]
    cluster: Mapped[str]
    cluster_job_id: Mapped[str | None]
    is_live: Mapped[bool]
    """Not known to have ended."""
    document: Mapped[dict[str, Any]] = mapped_column(JSON)
    """Written by whoever holds the claim of the job."""
    status: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    """What the cluster said last; written by whoever asked it."""
    misses: Mapped[int] = mapped_column(default=0)
    """How often in a row the cluster did not know it."""


class DecisionRow(Base):
    """What was decided about a job, and why."""

    __tablename__ = "decisions"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("managed_jobs.job_id"), index=True)
    at: Mapped[datetime] = mapped_column(UtcTime)
    rule: Mapped[str]
    action: Mapped[str]
    reason: Mapped[str]
    facts: Mapped[dict[str, Any]] = mapped_column(JSON)


class EventRow(Base):
    """What happened to a job, in the order in which it became known; also the embedded event bus."""

    __tablename__ = "job_events"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("managed_jobs.job_id"), index=True)
    at: Mapped[datetime] = mapped_column(UtcTime)
    kind: Mapped[str]
    values: Mapped[dict[str, Any]] = mapped_column("event_values", JSON)


class MessageRow(Base):
    """What a job told over the network, until it has been read."""

    __tablename__ = "job_messages"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("managed_jobs.job_id"), index=True)
    document: Mapped[dict[str, Any]] = mapped_column(JSON)
    """As a line of the file of events has it."""


class ClusterRow(Base):
    """When a cluster is to be asked next, and who is asking."""

    __tablename__ = "watched_clusters"

    name: Mapped[str] = mapped_column(primary_key=True)
    due_at: Mapped[datetime] = mapped_column(UtcTime)
    pause_s: Mapped[float]
    claim_token: Mapped[str | None]
    claimed_by: Mapped[str | None]
    claimed_until: Mapped[datetime | None] = mapped_column(UtcTime)
