"""How tables came to be as they are: one file per step, numbered, applied in order.

Alembic runs them; the numbers are read without it, because a database that is up to date is the usual case.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from presage.errors import ConfigError

if TYPE_CHECKING:
    from alembic.config import Config

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parent / "alembic_environment"
"""Apart from the migrations, as alembic takes every file beside these for one of them."""
_STEP = re.compile(r"(\d{4})_\w+\.py")
_VERSION_TABLE = "alembic_version"


def known_revisions() -> list[str]:
    """Return the numbers of the migrations that this version of Presage has, in order."""
    return sorted(match[1] for path in HERE.iterdir() if (match := _STEP.fullmatch(path.name)))


def is_current(connection: Connection, name: str) -> bool:
    """Tell whether a database has had all migrations. Raises ConfigError if it has had more than are known."""
    known = known_revisions()
    revision = _revision_of(connection)
    if revision is not None and revision not in known:
        raise ConfigError(
            f"The database {name!r} was written by a newer Presage: it is at revision {revision}",
            expected=f"a revision up to {known[-1]}",
            remedy="Upgrade Presage, or name another database with the setting state.database",
        )
    return revision == known[-1]


def upgrade(connection: Connection) -> None:
    """Apply the migrations that a database has not had, in the transaction of the connection."""
    from alembic import command

    command.upgrade(configuration(connection), "head")


def configuration(connection: Connection) -> Config:
    """Return what alembic needs to know to work on a connection."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _escaped(ENVIRONMENT))
    config.set_main_option("version_locations", _escaped(HERE))
    config.set_main_option("path_separator", "newline")
    config.attributes["connection"] = connection
    return config


def _escaped(path: Path) -> str:
    return str(path).replace("%", "%%")


def _revision_of(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalars().first()  # noqa: S608  (a constant)
    return None if found is None else str(found)
