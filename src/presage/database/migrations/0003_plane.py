"""Managed jobs, their jobs on clusters, what was decided, what happened, and when clusters are asked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "managed_jobs",
        sa.Column("job_id", sa.String, nullable=False),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("order", sa.JSON, nullable=False),
        sa.Column("phase", sa.String, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("progress", sa.JSON, nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        *_claim(),
        sa.PrimaryKeyConstraint("job_id", name="pk_managed_jobs"),
    )
    op.create_index("ix_managed_jobs_owner", "managed_jobs", ["owner"])
    op.create_index("ix_managed_jobs_phase_due_at", "managed_jobs", ["phase", "due_at"])
    op.create_table(
        "sub_jobs",
        sa.Column("job_id", sa.String, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("key", sa.String, nullable=False),
        sa.Column("cluster", sa.String, nullable=False),
        sa.Column("cluster_job_id", sa.String, nullable=True),
        sa.Column("is_live", sa.Boolean, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sa.Column("status", sa.JSON, nullable=True),
        sa.Column("misses", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "number", name="pk_sub_jobs"),
        sa.UniqueConstraint("key", name="uq_sub_jobs_key"),
        _of_job("sub_jobs"),
    )
    op.create_index("ix_sub_jobs_cluster_is_live", "sub_jobs", ["cluster", "is_live"])
    op.create_table(
        "decisions",
        *_numbered(),
        sa.Column("rule", sa.String, nullable=False),
        sa.Column("action", sa.String, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("facts", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_decisions"),
        _of_job("decisions"),
    )
    op.create_index("ix_decisions_job_id", "decisions", ["job_id"])
    op.create_table(
        "job_events",
        *_numbered(),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("event_values", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_job_events"),
        _of_job("job_events"),
    )
    op.create_index("ix_job_events_job_id", "job_events", ["job_id"])
    op.create_table(
        "watched_clusters",
        sa.Column("name", sa.String, nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("pause_s", sa.Float, nullable=False),
        *_claim(),
        sa.PrimaryKeyConstraint("name", name="pk_watched_clusters"),
    )


def _claim() -> list[sa.Column[object]]:
    return [
        sa.Column("claim_token", sa.String, nullable=True),
        sa.Column("claimed_by", sa.String, nullable=True),
        sa.Column("claimed_until", sa.DateTime(timezone=True), nullable=True),
    ]


def _numbered() -> list[sa.Column[object]]:
    return [
        sa.Column("number", sa.Integer, nullable=False, autoincrement=True),
        sa.Column("job_id", sa.String, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    ]


def _of_job(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["job_id"], ["managed_jobs.job_id"], name=f"fk_{table}_job_id")
