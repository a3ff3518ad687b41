"""What jobs told over the network, until the plane has read it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "job_messages",
        sa.Column("number", sa.Integer, nullable=False, autoincrement=True),
        sa.Column("job_id", sa.String, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_job_messages"),
        sa.ForeignKeyConstraint(["job_id"], ["managed_jobs.job_id"], name="fk_job_messages_job_id"),
    )
    op.create_index("ix_job_messages_job_id", "job_messages", ["job_id"])
