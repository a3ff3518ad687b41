"""One database, opened when it is first used, up to date before anybody sees it."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session

from presage.database._file_systems import is_on_a_network
from presage.database.places import database_url
from presage.errors import ConfigError, MissingDependencyError, OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import URL

BUSY_TIMEOUT_S = 30
CONNECT_TIMEOUT_S = 10
_WRITES = "presage_writes"
_LOG_ATTEMPTS = 50
_LOG_PAUSE_S = 0.05
_REMEDY = (
    "Name another with the setting state.database (PRESAGE_STATE__DATABASE) or another folder with PRESAGE_HOME"
)


class Database:
    """A database by its URL: `sqlite:///file` or `postgresql://user@host/name`.

    Nothing is opened or made before the first use; then the tables are brought up to date, safely if several
    processes or threads do so at once. Raises ConfigError for a URL that cannot be used, for a database that
    cannot be opened and for one that a newer Presage has written.
    """

    def __init__(self, url: str | None = None) -> None:
        self._url = _checked_url(database_url() if url is None else url)
        self._opened: Engine | None = None
        self._opening = threading.Lock()

    @property
    def name(self) -> str:
        """What to call it in messages; without a password."""
        return self._url.render_as_string(hide_password=True)

    @property
    def file(self) -> Path | None:
        """The file of a SQLite database that has one."""
        name = self._url.database
        return Path(name) if self._is_sqlite and name and name != ":memory:" else None

    def exists(self) -> bool:
        """Tell whether there may be something to read; False only for a SQLite file that is not there."""
        return self.file is None or self.file.exists()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Give a session that sees one state of the database. Raises ConfigError if it cannot be read."""
        engine = self._engine()
        if not self._is_sqlite:  # where a transaction sees one state anyway
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        with self._explained("read"), Session(engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def writing(self, lock: str) -> Iterator[Session]:
        """Give a session whose changes are kept together at the end, or not at all if the block fails.

        Only one process at a time is inside a block of the same `lock`. Raises OutputError if nothing can be
        written.
        """
        with self._explained("written"), self._engine().connect() as connection:
            _begin_writing(connection, lock)
            with Session(connection, expire_on_commit=False) as session:
                yield session
                session.flush()
            connection.commit()

    def close(self) -> None:
        """Let go of all connections."""
        with self._opening:
            if self._opened is not None:
                self._opened.dispose()
                self._opened = None

    @property
    def _is_sqlite(self) -> bool:
        return self._url.get_backend_name() == "sqlite"

    def _engine(self) -> Engine:
        with self._opening:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _open(self) -> Engine:
        engine = _sqlite_engine(self._url, self.file) if self._is_sqlite else _server_engine(self._url)
        try:
            self._bring_up_to_date(engine)
        except BaseException:
            engine.dispose()
            raise
        return engine

    def _bring_up_to_date(self, engine: Engine) -> None:
        from presage.database import migrations

        try:
            with engine.connect() as connection:
                if migrations.is_current(connection, self.name):
                    return
            with engine.connect() as connection:
                _begin_writing(connection, "migrations")
                # Asked again: another process may have been here since.
                if not migrations.is_current(connection, self.name):
                    migrations.upgrade(connection)
                connection.commit()
        except SQLAlchemyError as error:
            raise ConfigError(
                f"The database {self.name!r} cannot be opened: {_reason(error)}", remedy=_REMEDY
            ) from None

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise  # about what was written, which the caller knows more of
        except DBAPIError as error:
            kind = ConfigError if verb == "read" else OutputError
            problem = f"The database {self.name!r} cannot be {verb}: {_reason(error)}"
            raise kind(
                problem, remedy="Try again when nobody else uses it, or check the space and rights"
            ) from None


def _checked_url(text_of_url: str) -> URL:
    try:
        url = make_url(text_of_url)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError):
        raise ConfigError(
            "The setting state.database is no URL",
            expected="one like sqlite:////var/lib/presage.sqlite or postgresql://user@host/presage",
        ) from None
    if backend == "postgres":
        url = url.set(drivername="postgresql")
        backend = "postgresql"
    if backend not in ("sqlite", "postgresql"):
        raise ConfigError(f"The setting state.database names {backend!r}", expected="sqlite or postgresql")
    return url.set(drivername="postgresql+psycopg") if backend == "postgresql" else url


def _sqlite_engine(url: URL, file: Path | None) -> Engine:
    if file is not None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise ConfigError(
                f"The folder {str(file.parent)!r} of the database cannot be made: {error.strerror}", remedy=_REMEDY
            ) from None
        # Nobody else's to read, in whatever folder. What keeps it from being made, the driver says by itself.
        with suppress(OSError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S})
    shared_by_hosts = file is not None and is_on_a_network(file)

    def prepare(connection: Any, _record: Any) -> None:
        # The driver would begin transactions of its own, and not for every statement.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}")
        if not shared_by_hosts:
            _use_write_ahead_log(connection)

    def begin(connection: Connection) -> None:
        # A reader that becomes a writer would fail at once where another writer was faster; this one waits.
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", begin)
    return engine


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Let readers and a writer work at the same time; where that cannot be had, they wait for each other."""
    for _attempt in range(_LOG_ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.OperationalError as error:
            # The change of the journal does not wait for the busy timeout as everything else does.
            if "locked" not in str(error):
                return
            time.sleep(_LOG_PAUSE_S)
        else:
            return


def _server_engine(url: URL) -> Engine:
    try:
        return create_engine(url, connect_args={"connect_timeout": CONNECT_TIMEOUT_S}, pool_pre_ping=True)
    except ImportError:
        raise MissingDependencyError("psycopg", extra="postgres", purpose="A PostgreSQL database") from None


def _begin_writing(connection: Connection, lock: str) -> None:
    connection.execution_options(**{_WRITES: True})
    connection.begin()
    if connection.dialect.name == "postgresql":
        connection.execute(
            text("SELECT pg_advisory_xact_lock(:key)"), {"key": zlib.crc32(f"presage {lock}".encode())}
        )


def _reason(error: SQLAlchemyError) -> str:
    original = error.orig if isinstance(error, DBAPIError) else error
    lines = str(original).strip().splitlines()
    return lines[0] if lines else type(original).__name__
