"""Tokens, and the record of calls."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "access_tokens",
        sa.Column("token_id", sa.String, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("scope", sa.String, nullable=False),
        sa.Column("label", sa.String, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("token_id", name="pk_access_tokens"),
        sa.UniqueConstraint("digest", name="uq_access_tokens_digest"),
    )
    op.create_table(
        "audit",
        sa.Column("number", sa.Integer, nullable=False, autoincrement=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("user", sa.String, nullable=True),
        sa.Column("token_id", sa.String, nullable=True),
        sa.Column("call", sa.String, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_audit"),
    )
