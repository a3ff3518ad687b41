"""What alembic runs: the migrations, on the connection that it was given, inside its transaction."""

from __future__ import annotations

from alembic import context

from presage.database.tables import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, transactional_ddl=True
)
context.run_migrations()
