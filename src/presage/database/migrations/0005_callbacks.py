"""What jobs may tell of themselves over the network, and what they told last."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "job_callbacks",
        sa.Column("job_id", sa.String, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("sub_job", sa.Integer, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_job_callbacks"),
        sa.ForeignKeyConstraint(["job_id"], ["managed_jobs.job_id"], name="fk_job_callbacks_job_id"),
    )
