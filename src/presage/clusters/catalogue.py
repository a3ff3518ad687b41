"""The catalogue: what systems there are, and what was known of them when.

A system is never overwritten. Whoever puts another description of it begins a new version; the one before keeps
its times of validity, so that an old estimate can be understood with the limits and prices of its day. Systems
that come with Presage are there without being put.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from presage.clusters.differences import differences
from presage.clusters.documents import document_of, recalled_system
from presage.clusters.shipped import shipped_systems
from presage.database import has_no_database
from presage.errors import PresageError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from presage.clusters._tables import SystemVersion
    from presage.clusters.systems import System
    from presage.database import Database

_LOCK = "systems"


class Source(StrEnum):
    """Who described a system."""

    SHIPPED = "shipped"
    EDITED = "edited"
    IMPORTED = "imported"
    DISCOVERED = "discovered"


class ConflictError(PresageError):
    """Somebody else changed a system at the same time."""

    code = "conflict"


@dataclass(frozen=True)
class Version:
    """A system as it was known for a while."""

    system: System
    number: int
    """Counts from 1; 0 is what came with Presage."""
    source: Source
    note: str = ""
    valid_from: datetime | None = None
    """None: since ever."""
    valid_to: datetime | None = None
    """None: still."""
    discovered: System | None = None
    """What the cluster itself said last, before anybody edited it."""


class Catalogue:
    """The systems in a database, and those that come with Presage.

    Reading makes no database where there is none. Times are aware datetimes. Raises UnknownNameError with the
    closest match for a name that it does not have, ConfigError if the database cannot be opened.
    """

    def __init__(self, database: Database | None = None) -> None:
        self._database = database

    @property
    def database(self) -> Database:
        """The database that was given, or the one that the settings name."""
        if self._database is None:
            from presage.database.connection import Database

            self._database = Database()
        return self._database

    def get(self, name: str, at: datetime | None = None) -> System:
        """Return a system as it is known now, or as it was at some time."""
        return self.version(name, at).system

    def all(self, at: datetime | None = None) -> dict[str, System]:
        """Return all systems by name, in alphabetical order."""
        return {name: version.system for name, version in self.versions(at).items()}

    def version(self, name: str, at: datetime | None = None) -> Version:
        """Return a system with its number, source and times."""
        known = self.versions(at)
        if name not in known:
            when = "" if at is None else f" at {at.isoformat()}"
            remedy = "`presage systems list` has them; add one with `presage systems add`"
            raise UnknownNameError(f"system{when}", name, known, remedy=remedy)
        return known[name]

    def versions(self, at: datetime | None = None) -> dict[str, Version]:
        """Return the valid version of every system by name, in alphabetical order."""
        found: dict[str, Version | None] = {
            name: Version(system, 0, Source.SHIPPED) for name, system in shipped_systems().items()
        }
        if self._has_database():
            with self.database.reading() as session:
                # A name that was ever put is no longer the shipped one, even after it was removed.
                for row in _rows(session):
                    if at is None or row.valid_from <= at:
                        found[row.name] = _version_of(row) if _is_valid(row, at) else None
        return {name: version for name, version in sorted(found.items()) if version is not None}

    def history(self, name: str) -> tuple[Version, ...]:
        """Return all versions of a system, the oldest first."""
        shipped = shipped_systems().get(name)
        versions: list[Version] = []
        if self._has_database():
            with self.database.reading() as session:
                versions = [_version_of(row) for row in _rows(session, name)]
        if shipped is not None:
            end = versions[0].valid_from if versions else None
            versions.insert(0, Version(shipped, 0, Source.SHIPPED, valid_to=end))
        if not versions:
            self.version(name)
        return tuple(versions)

    def put(
        self,
        system: System,
        source: Source,
        note: str = "",
        *,
        based_on: int | None = None,
        discovered: System | None = None,
    ) -> tuple[str, ...]:
        """Make a description the valid one and return how it differs from the one before; none if it does not.

        `based_on` is the number of the version that was edited: ConflictError if it is no longer the valid one.
        `discovered` is what the cluster itself said, if that is news. Raises InputError if the system contradicts
        itself.
        """
        _check_note(note)
        document = document_of(system)
        recalled_system(document, f"The system {system.name!r}")
        with self.database.writing(_LOCK) as session:
            last = _last_row(session, system.name)
            before = self._before(system.name, last)
            if based_on is not None and based_on != (before.number if before else 0):
                raise ConflictError(
                    f"The system {system.name!r} was changed by somebody else meanwhile",
                    remedy=f"Look at it (`presage systems history {system.name}`) and repeat your change",
                )
            said = document_of(discovered) if discovered is not None else last.discovered if last else None
            changes = ("system added",) if before is None else differences(before.system, system)
            if changes:
                _append(session, last, document, said, source, note)
            elif last is not None:
                last.discovered = said
            elif discovered is not None:
                _append(session, last, document, said, source, note)
        return changes

    def remove(self, name: str, note: str = "") -> None:
        """End the validity of a system; its history stays. Raises UnknownNameError if it is not valid now."""
        _check_note(note)
        self.version(name)
        with self.database.writing(_LOCK) as session:
            last = _last_row(session, name)
            if last is None:  # a shipped one: it has to be there before it can end
                document = document_of(shipped_systems()[name])
                last = _append(session, None, document, None, Source.SHIPPED, note)
            if last.valid_to is None:
                last.valid_to = _now_after(last.valid_from)
                last.note = note or last.note

    def _has_database(self) -> bool:
        if self._database is None and has_no_database():
            return False  # said without loading what databases need: most calls on a login node end here
        return self.database.exists()

    def _before(self, name: str, last: SystemVersion | None) -> Version | None:
        if last is not None:
            return _version_of(last) if last.valid_to is None else None
        shipped = shipped_systems().get(name)
        return None if shipped is None else Version(shipped, 0, Source.SHIPPED)


def _check_note(note: str) -> None:
    if "\0" in note or note != note.encode(errors="replace").decode():
        raise UsageError("The note has characters that are none", expected="text")


def _rows(session: Session, name: str | None = None) -> list[SystemVersion]:
    from sqlalchemy import select

    from presage.clusters._tables import SystemVersion

    query = select(SystemVersion).order_by(SystemVersion.name, SystemVersion.version)
    if name is not None:
        query = query.where(SystemVersion.name == name)
    return list(session.scalars(query))


def _last_row(session: Session, name: str) -> SystemVersion | None:
    rows = _rows(session, name)
    return rows[-1] if rows else None


def _append(
    session: Session,
    last: SystemVersion | None,
    document: dict[str, object],
    discovered: dict[str, object] | None,
    source: Source,
    note: str,
) -> SystemVersion:
    from presage.clusters._tables import SystemVersion

    now = _now_after(last.valid_to or last.valid_from if last else None)
    if last is not None and last.valid_to is None:
        last.valid_to = now
    row = SystemVersion(
        name=document["name"], version=last.version + 1 if last else 1, document=document, discovered=discovered,
        valid_from=now, valid_to=None, source=source.value, note=note,
    )  # fmt: skip
    session.add(row)
    return row


def _now_after(earlier: datetime | None) -> datetime:
    """Return the present, or the moment after `earlier` where clocks disagree, so that versions never overlap."""
    now = datetime.now(UTC)
    return now if earlier is None else max(now, earlier + timedelta(microseconds=1))


def _is_valid(row: SystemVersion, at: datetime | None) -> bool:
    if at is None:
        return row.valid_to is None
    return row.valid_from <= at and (row.valid_to is None or at < row.valid_to)


def _version_of(row: SystemVersion) -> Version:
    place = f"The catalogue, system {row.name!r} version {row.version}"
    return Version(
        system=recalled_system(row.document, place),
        number=row.version,
        source=Source(row.source),
        note=row.note,
        valid_from=row.valid_from,
        valid_to=row.valid_to,
        discovered=None if row.discovered is None else recalled_system(row.discovered, place),
    )
