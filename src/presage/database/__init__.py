"""The database of Presage: SQLite by default, PostgreSQL at a site.

To add a table:

1. Describe it in the room that it belongs to, as a class on `Base`. Times are `UtcTime`, documents are
   `sqlalchemy.JSON`.
2. Add the next file to `migrations/`, named `NNNN_words.py`. It says `revision = "NNNN"`, `down_revision` (the
   number before it), and `upgrade()` makes the table with `alembic.op`. Files that were released never change.
3. Run `pytest tests/database`: a test compares the tables that migrations make with the classes on `Base`,
   wherever these are.

Whoever opens a database brings it up to date; nobody has to run migrations by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.database.places import database_url, has_no_database, state_home

if TYPE_CHECKING:
    from presage.database.connection import Database
    from presage.database.tables import Base, UtcTime

__all__ = ["Base", "Database", "UtcTime", "database_url", "has_no_database", "state_home"]


def __getattr__(name: str) -> object:
    """Load SQLAlchemy only when somebody asks for what needs it."""
    if name == "Database":
        from presage.database.connection import Database

        return Database
    if name in {"Base", "UtcTime"}:
        from presage.database import tables

        return getattr(tables, name)
    raise AttributeError(f"module 'presage.database' has no attribute {name!r}")
