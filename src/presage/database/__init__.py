"""The database of Presage: SQLite by default, PostgreSQL at a site."""
