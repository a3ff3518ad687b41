"""Versions of estimators: what was added, which one is in charge, and how that changed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from presage.errors import OutputError, UnknownNameError, UsageError
from presage.estimators.plugins._images import digest_of
from presage.estimators.plugins._runners import find_runner
from presage.estimators.plugins.manifest import Kind, Manifest, parse_manifest
from presage.estimators.repository.pulling import ARCHIVE, Pulled, Stated, pulled

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from presage.database import Database
    from presage.estimators.repository._tables import EstimatorVersion

LOCK = "estimators"


class State(StrEnum):
    """What a version does."""

    IN_CHARGE = "in-charge"
    """It answers."""
    SHADOW = "shadow"
    """It is asked along, and its answers are only noted."""
    RETIRED = "retired"
    """It was in charge, or may not be any more; nobody asks it."""


@dataclass(frozen=True)
class Entry:
    """One version of an estimator."""

    manifest: Manifest
    state: State
    pinned: bool
    """Nothing takes over from it."""
    source: str
    digest: str
    added_at: datetime
    runner: str | None = None
    """Of a container; None: the first that works."""

    @property
    def name(self) -> str:
        """Name of the estimator."""
        return self.manifest.name

    @property
    def version(self) -> str:
        """Version of the estimator."""
        return self.manifest.version

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        return {
            **self.manifest.as_dict(), "state": self.state.value, "pinned": self.pinned, "source": self.source,
            "digest": self.digest, "added_at": self.added_at.isoformat(), "runner": self.runner,
        }  # fmt: skip


@dataclass(frozen=True)
class Change:
    """A change of the version in charge; None is none of that name."""

    name: str
    version: str | None
    before: str | None
    reason: str
    changed_at: datetime


class Versions:
    """The versions in a database, and their files in a folder of the state.

    Reading makes no database where there is none. Raises ConfigError if the database cannot be opened,
    OutputError if nothing can be written, UnknownNameError with the closest match for a name it does not have.
    """

    def __init__(self, database: Database, home: Path) -> None:
        self.database = database
        self.home = home

    def all(self, name: str | None = None) -> list[Entry]:
        """Return all versions, or those of one estimator, in the order in which they were added."""
        if not self.database.exists():
            return []
        with self.database.reading() as session:
            return self.listed(session, name)

    def listed(self, session: Session, name: str | None = None) -> list[Entry]:
        """Return what `all` does, within the caller's transaction."""
        return [_entry_of(row) for row in _rows(session, name)]

    def get(self, name: str, version: str | None = None) -> Entry:
        """Return a version; by default the one in charge, or else the latest."""
        known = self.all()
        mine = [entry for entry in known if entry.name == name]
        if not mine:
            remedy = "`presage estimators list` has them; add one with `presage estimators add`"
            raise UnknownNameError(
                "estimator in the repository", name, {each.name for each in known}, remedy=remedy
            )
        if version is None:
            return next((entry for entry in mine if entry.state is State.IN_CHARGE), mine[-1])
        for entry in mine:
            if entry.version == version:
                return entry
        raise UnknownNameError(f"version of {name}", version, [entry.version for entry in mine])

    def changes(self, name: str) -> list[Change]:
        """Return how the version in charge changed, the latest last."""
        from sqlalchemy import select

        from presage.estimators.repository._tables import EstimatorChange

        if not self.database.exists():
            return []
        with self.database.reading() as session:
            rows = session.scalars(select(EstimatorChange).filter_by(name=name).order_by(EstimatorChange.id))
            return [Change(row.name, row.version, row.before, row.reason, row.changed_at) for row in rows]

    def add(self, source: str, stated: Stated | None = None, *, runner: str | None = None) -> Entry:
        """Add the estimator that is at `source`, in the shadow of whatever is in charge; return its entry.

        What is there already, to the byte, is not added again. Raises UsageError for the same version with other
        content, and all that `pulled` raises.
        """
        if runner is not None:
            find_runner(runner)
        with pulled(source, stated or Stated(), self.home) as found:
            known = [entry for entry in self.all(found.manifest.name) if entry.version == found.manifest.version]
            if known and known[0].digest == found.digest and self.files_are_there(known[0]):
                return known[0]
            if known and known[0].digest != found.digest:
                raise UsageError(
                    f"{known[0].name} {known[0].version} is there already, with other content",
                    remedy="Give it another version, or remove the one that is there",
                )
            self._keep(found)
            if not known:
                self._insert(found, source, runner)
        return self.get(found.manifest.name, found.manifest.version)

    def put_in_charge(self, name: str, version: str, reason: str, *, pin: bool = False) -> Entry:
        """Let a version answer from now on; return its entry. The one before is retired, for a rollback."""
        self.get(name, version)
        with self.database.writing(LOCK) as session:
            self._switch(session, name, version, reason)
            for row in _rows(session, name):
                row.pinned = pin and row.version == version
        return self.get(name, version)

    def add_fitted(self, session: Session, manifest: Manifest, digest: str, reason: str) -> None:
        """Add what was fitted and let it answer, within the caller's transaction under LOCK."""
        session.add(_row(Pulled(manifest, digest, None), "feedback", None))
        session.flush()
        self._switch(session, manifest.name, manifest.version, reason)

    def unpin(self, name: str) -> None:
        """Let another version take over again."""
        self.get(name)
        with self.database.writing(LOCK) as session:
            for row in _rows(session, name):
                row.pinned = False

    def roll_back(self, name: str) -> str | None:
        """Put the version in charge that was before this one; return it, None if there was none of that name.

        The version that was in charge is retired. Rolled back again, the one before that comes back.
        Raises UsageError if no version of the name is in charge.
        """
        current = self.get(name)
        if current.state is not State.IN_CHARGE:
            raise UsageError(f"No version of {name} is in charge", remedy="There is nothing to roll back")
        with self.database.writing(LOCK) as session:
            before = _before(session, name, current.version)
            self._switch(session, name, before, f"rolled back from {current.version}", note_before=False)
            for row in _rows(session, name):
                row.pinned = False
        return before

    def remove(self, name: str, version: str) -> None:
        """Forget a version, with its files but not its predictions. Raises UsageError if it is in charge."""
        entry = self.get(name, version)
        if entry.state is State.IN_CHARGE:
            raise UsageError(
                f"{name} {version} is in charge", remedy="Roll it back or pin another version, then remove it"
            )
        with self.database.writing(LOCK) as session:
            for row in _rows(session, name):
                if row.version == version:
                    session.delete(row)
        shutil.rmtree(self.folder(name, version).parent, ignore_errors=True)

    def folder(self, name: str, version: str) -> Path:
        """Return where the files of a version are kept."""
        return self.home / name / version / "files"

    def files_are_there(self, entry: Entry) -> bool:
        """Return whether the files of a version are as they were when it was added."""
        if entry.manifest.kind in (Kind.PYTHON, Kind.HTTP, Kind.FITTED):  # which have none
            return True
        place = self.folder(entry.name, entry.version)
        if entry.manifest.kind is Kind.CONTAINER:
            place /= ARCHIVE
        return place.exists() and digest_of(place) == entry.digest

    def _keep(self, found: Pulled) -> None:
        if found.files is None:
            return
        place = self.folder(found.manifest.name, found.manifest.version)
        try:
            shutil.rmtree(place.parent, ignore_errors=True)
            place.parent.mkdir(parents=True)
            found.files.rename(place)
        except OSError as error:
            raise OutputError(f"The estimator cannot be kept in {str(place)!r}: {error.strerror}") from None

    def _insert(self, found: Pulled, source: str, runner: str | None) -> None:
        manifest = found.manifest
        with self.database.writing(LOCK) as session:
            if not any(each.version == manifest.version for each in _rows(session, manifest.name)):
                session.add(_row(found, source, runner))

    def _switch(
        self, session: Session, name: str, version: str | None, reason: str, *, note_before: bool = True
    ) -> None:
        from presage.estimators.repository._tables import EstimatorChange

        before = None
        for row in _rows(session, name):
            if row.role == State.IN_CHARGE.value:
                before = row.version
                row.role = State.RETIRED.value
            if row.version == version:
                row.role = State.IN_CHARGE.value
        if before == version:
            return
        if not note_before:
            before = None if version is None else _before(session, name, version)
        now = datetime.now(UTC)
        session.add(EstimatorChange(name=name, version=version, before=before, reason=reason, changed_at=now))


def _row(found: Pulled, source: str, runner: str | None) -> EstimatorVersion:
    from presage.estimators.repository._tables import EstimatorVersion

    manifest = found.manifest
    return EstimatorVersion(
        name=manifest.name, version=manifest.version, quantity=manifest.quantity.value,
        kind=manifest.kind.value, manifest=manifest.as_dict(), source=source, digest=found.digest,
        runner=runner, role=State.SHADOW.value, pinned=False, added_at=datetime.now(UTC),
    )  # fmt: skip


def _rows(session: Session, name: str | None) -> list[EstimatorVersion]:
    from sqlalchemy import select

    from presage.estimators.repository._tables import EstimatorVersion

    query = select(EstimatorVersion).order_by(EstimatorVersion.id)
    return list(session.scalars(query if name is None else query.filter_by(name=name)))


def _before(session: Session, name: str, version: str) -> str | None:
    """Return what was in charge before a version came to be, if that is still there."""
    from sqlalchemy import select

    from presage.estimators.repository._tables import EstimatorChange

    query = select(EstimatorChange).filter_by(name=name, version=version).order_by(EstimatorChange.id.desc())
    change = session.scalars(query).first()
    there = {row.version for row in _rows(session, name)}
    return change.before if change is not None and change.before in there else None


def _entry_of(row: EstimatorVersion) -> Entry:
    document = {**row.manifest, "api": 1}
    manifest = parse_manifest(document, place=f"The database, of {row.name} {row.version},")
    return Entry(manifest, State(row.role), row.pinned, row.source, row.digest, row.added_at, row.runner)
