"""The model repository: versions of estimators, who was in charge, predictions and what then happened."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the tables."""
    _make_versions()
    _make_predictions()


def _make_versions() -> None:
    op.create_table(
        "estimator_versions",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("version", sa.String(100), nullable=False),
        sa.Column("quantity", sa.String(20), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("manifest", sa.JSON, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("digest", sa.String(100), nullable=False),
        sa.Column("runner", sa.String(20), nullable=True),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("pinned", sa.Boolean, nullable=False),
        sa.Column("added_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_estimator_versions"),
        sa.UniqueConstraint("name", "version", name="uq_estimator_versions_name_version"),
    )
    op.create_table(
        "estimator_changes",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("version", sa.String(100), nullable=True),
        sa.Column("before", sa.String(100), nullable=True),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_estimator_changes"),
    )
    op.create_index("ix_estimator_changes_name", "estimator_changes", ["name"])


def _make_predictions() -> None:
    op.create_table(
        "predictions",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("quantity", sa.String(20), nullable=False),
        sa.Column("estimator", sa.String(100), nullable=False),
        sa.Column("version", sa.String(100), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("job_key", sa.String(200), nullable=True),
        sa.Column("question", sa.String(64), nullable=False),
        sa.Column("request", sa.JSON, nullable=False),
        sa.Column("p10", sa.Float, nullable=False),
        sa.Column("p50", sa.Float, nullable=False),
        sa.Column("p90", sa.Float, nullable=False),
        sa.Column("answer", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_predictions"),
    )
    op.create_index("ix_predictions_estimator_version", "predictions", ["estimator", "version"])
    op.create_index("ix_predictions_job_key_quantity", "predictions", ["job_key", "quantity"])
    op.create_table(
        "prediction_outcomes",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("job_key", sa.String(200), nullable=False),
        sa.Column("quantity", sa.String(20), nullable=False),
        sa.Column("actual", sa.Float, nullable=False),
        sa.Column("happened_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_prediction_outcomes"),
        sa.UniqueConstraint("job_key", "quantity", name="uq_prediction_outcomes_job_key_quantity"),
    )
