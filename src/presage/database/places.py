"""Where Presage keeps what it must not forget."""

from __future__ import annotations

import os
from pathlib import Path

from presage.config import Settings, load_settings

DATABASE_FILE = "presage.sqlite"


def state_home(settings: Settings | None = None) -> Path:
    """Return the folder of Presage's state; it need not exist.

    That is PRESAGE_HOME, else the setting `state.home`, else `presage` in XDG_DATA_HOME or in ~/.local/share.
    """
    named = os.environ.get("PRESAGE_HOME")
    if named:
        return Path(named).expanduser()
    state = (settings or load_settings()).state
    if state.home is not None:
        return state.home.expanduser()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "presage"


def database_url(settings: Settings | None = None) -> str:
    """Return the URL of the database: the setting `state.database`, else a SQLite file in the state folder."""
    settings = settings or load_settings()
    if settings.state.database is not None:
        return settings.state.database.get_secret_value()
    return f"sqlite:///{_default_file(settings)}"


def has_no_database() -> bool:
    """Tell whether the settings name no database and the file that would be taken instead is not there."""
    settings = load_settings()
    return settings.state.database is None and not _default_file(settings).exists()


def _default_file(settings: Settings) -> Path:
    return (state_home(settings) / DATABASE_FILE).absolute()
