"""Kinds of jobs that predictions are about, and the corrections that were fitted to what happened to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the column and make the table."""
    op.add_column("predictions", sa.Column("job_kind", sa.String(64), nullable=True))
    op.create_index("ix_predictions_job_kind_quantity", "predictions", ["job_kind", "quantity"])
    op.create_table(
        "estimator_refits",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("job_kind", sa.String(64), nullable=False),
        sa.Column("family", sa.String(200), nullable=False),
        sa.Column("place", sa.String(200), nullable=False),
        sa.Column("base_version", sa.String(100), nullable=False),
        sa.Column("trigger", sa.String(20), nullable=False),
        sa.Column("fitted_on", sa.Integer, nullable=False),
        sa.Column("held_out", sa.Integer, nullable=False),
        sa.Column("last_outcome", sa.Integer, nullable=False),
        sa.Column("log_factor", sa.Float, nullable=False),
        sa.Column("below", sa.Float, nullable=False),
        sa.Column("above", sa.Float, nullable=False),
        sa.Column("loss_before", sa.Float, nullable=False),
        sa.Column("loss_after", sa.Float, nullable=False),
        sa.Column("parent", sa.Integer, nullable=True),
        sa.Column("took_over", sa.Boolean, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("fitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_estimator_refits"),
    )
    op.create_index("ix_estimator_refits_name_job_kind", "estimator_refits", ["name", "job_kind"])
