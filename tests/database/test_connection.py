from __future__ import annotations

import contextlib
import importlib
import re
import sqlite3
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, select, text

import presage
from presage.config import load_settings
from presage.database import Base, Database, UtcTime, migrations, places, state_home
from presage.database._file_systems import is_on_a_network
from presage.errors import ConfigError, MissingDependencyError, OutputError
from tests.database.workers import open_and_close, run_at_once

PACKAGE = Path(presage.__file__).parent
INSERT = text(
    "INSERT INTO system_versions (name, version, document, valid_from, source, note)"
    " VALUES ('x', 1, '{}', '2026-01-05 00:00:00', 'edited', '')"
)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


def import_all_tables() -> None:
    """Import every module that describes a table, wherever it is."""
    for path in PACKAGE.rglob("*.py"):
        if "__tablename__" in path.read_text() and "database" not in path.relative_to(PACKAGE).parts[:1]:
            importlib.import_module(".".join(("presage", *path.relative_to(PACKAGE).with_suffix("").parts)))


def test_migrations_make_the_tables_that_the_rooms_describe(database: Database) -> None:
    import_all_tables()
    with database.reading() as session:
        context = MigrationContext.configure(session.connection(), opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_migrations_are_numbered_without_gaps() -> None:
    numbers = migrations.known_revisions()
    assert numbers == [f"{number:04d}" for number in range(1, len(numbers) + 1)]
    for path in migrations.HERE.glob("0*.py"):
        content = path.read_text()
        number = path.name[:4]
        before = "None" if number == "0001" else f'"{int(number) - 1:04d}"'
        assert f'revision = "{number}"' in content
        assert re.search(rf"^down_revision(: [^=]+)? = {before}$", content, re.MULTILINE)


def test_an_older_database_is_upgraded_and_keeps_its_rows(database_url: str) -> None:
    engine = create_engine(database_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        command.upgrade(migrations.configuration(connection), "0001")
        connection.execute(INSERT)
    engine.dispose()
    database = Database(database_url)
    with database.reading() as session:
        assert session.execute(text("SELECT name FROM system_versions")).scalars().all() == ["x"]
        found = session.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    database.close()
    assert found == migrations.known_revisions()[-1:]


def test_a_newer_database_is_refused(database: Database, database_url: str) -> None:
    with database.writing("test") as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with (
        pytest.raises(ConfigError, match=r"newer Presage: it is at revision 9999.*Upgrade Presage"),
        Database(database_url).reading(),
    ):
        pass


def test_many_may_open_a_new_database_at_once(database_url: str) -> None:
    run_at_once(open_and_close, database_url)


def test_threads_share_one_database(database: Database) -> None:
    def count(_: int) -> int:
        with database.writing("test") as session:
            session.execute(text("UPDATE system_versions SET note = ''"))
        with database.reading() as session:
            return len(session.execute(text("SELECT name FROM system_versions")).all())

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(count, range(12))) == {0}


def test_a_reader_sees_one_state(database: Database) -> None:
    count = text("SELECT count(*) FROM system_versions")
    with database.reading() as reader:
        assert reader.execute(count).scalar() == 0
        with database.writing("test") as session:
            session.execute(INSERT)
        assert reader.execute(count).scalar() == 0
    with database.reading() as reader:
        assert reader.execute(count).scalar() == 1


def test_a_block_that_fails_leaves_nothing(database: Database) -> None:
    with contextlib.suppress(RuntimeError), database.writing("test") as session:
        session.execute(INSERT)
        raise RuntimeError
    with database.reading() as session:
        assert session.execute(text("SELECT count(*) FROM system_versions")).scalar() == 0


def test_times_come_back_in_utc(database: Database) -> None:
    table = Table("moments", MetaData(), Column("id", Integer, primary_key=True), Column("at", UtcTime))
    there = datetime(2026, 7, 1, 12, 0, 0, 250, tzinfo=timezone(timedelta(hours=2)))
    with database.writing("test") as session:
        table.create(session.connection())
        session.execute(table.insert().values(id=1, at=there))
        session.execute(table.insert().values(id=2, at=None))
    with database.reading() as session:
        found = session.execute(select(table.c.at).order_by(table.c.id)).scalars().all()
    assert found == [there, None]
    assert found[0].tzinfo is UTC


def test_a_file_of_ours_is_nobody_else_s_to_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    database = Database(f"sqlite:///{tmp_path / 'own.sqlite'}")
    with database.writing("test"):
        modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    database.close()
    assert set(modes.values()) == {0o600}, modes


def test_sqlite_waits_checks_keys_and_lets_readers_read(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'a' / 'b.sqlite'}")
    with database.reading() as session:
        pragmas = [
            session.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "foreign_keys", "busy_timeout")
        ]
    assert pragmas == ["wal", 1, 30_000]
    with database.writing("test"), database.reading() as session:
        assert session.execute(text("SELECT count(*) FROM system_versions")).scalar() == 0
    database.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "no URL"),
        ("", "no URL"),
        ("mysql://host/db", "names 'mysql'. Expected sqlite or postgresql"),
        ("sqlite:////proc/nothing/presage.sqlite", "cannot be made"),
        ("postgresql://nobody:secret@127.0.0.1:1/none", "cannot be opened"),
    ],
)
def test_a_database_that_cannot_be_used_is_a_clear_error(url: str, message: str) -> None:
    if url.startswith("postgresql"):
        pytest.importorskip("psycopg")
    with pytest.raises(ConfigError, match=message) as caught, Database(url).reading():
        pass
    assert "secret" not in str(caught.value)


def test_a_file_that_is_no_database_is_a_clear_error(tmp_path: Path) -> None:
    file = tmp_path / "presage.sqlite"
    file.write_text("not a database, but long enough to be taken for one " * 20)
    with pytest.raises(ConfigError, match="cannot be opened: file is not a database"):
        Database(f"sqlite:///{file}").reading().__enter__()


def test_a_database_that_another_holds_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("presage.database.connection.BUSY_TIMEOUT_S", 0)
    database = Database(f"sqlite:///{tmp_path / 'presage.sqlite'}")
    with database.reading():
        pass
    other = sqlite3.connect(tmp_path / "presage.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OutputError, match="cannot be written: database is locked"), database.writing("test"):
        pass
    other.close()
    database.close()


def test_postgresql_without_its_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingDependencyError, match=r"presage\[postgres\]"):
        Database("postgresql://127.0.0.1/none").reading().__enter__()


def test_the_state_has_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("PRESAGE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert state_home() == tmp_path / ".local" / "share" / "presage"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert state_home() == tmp_path / "data" / "presage"
    Path("presage.toml").write_text('[state]\nhome = "~/kept"\n')
    assert state_home() == tmp_path / "kept"
    monkeypatch.setenv("PRESAGE_HOME", str(tmp_path / "here"))
    assert places.database_url() == f"sqlite:///{tmp_path}/here/presage.sqlite"
    monkeypatch.setenv("PRESAGE_STATE__DATABASE", "postgresql://me:secret@host/presage")
    assert places.database_url() == "postgresql://me:secret@host/presage"
    assert "secret" not in str(load_settings().model_dump(mode="json"))
    assert "secret" not in Database().name


@pytest.mark.parametrize(
    ("path", "shared"),
    [
        ("/home/me/presage.sqlite", True),
        ("/scratch/x", True),
        ("/home2/x", False),
        ("/my disk/x", True),
        ("/x", False),
    ],
)
def test_file_systems_of_several_hosts_are_told(path: str, shared: bool, tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "rootfs / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n"
        "disk /my\\040disk cifs rw 0 0\nmds /scratch lustre rw 0 0\nbroken\n"
    )
    assert is_on_a_network(Path(path), mounts) is shared
