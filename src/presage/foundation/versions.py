"""A folder of versions of one thing over time: which one is in use, which were tried, and the way back."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from presage.errors import InputError, UsageError
from presage.traces.files import replacing

if TYPE_CHECKING:
    from collections.abc import Sequence


SHIPPED = "shipped"
"""The version before the first: the one that comes with Presage."""


@dataclass(frozen=True)
class Attempt:
    """One try to replace the version in use: what was measured on the latest jobs, and what came of it."""

    version: str
    replaces: str
    made: str
    """When, as ISO 8601."""
    took_over: bool
    reason: str
    jobs: int
    figures: dict[str, dict[str, float | None]] = field(default_factory=dict)
    """By task or period: what was measured, before and after."""


class Savable(Protocol):
    """What can be kept in one file."""

    def save(self, path: Path, /) -> None:
        """Write it."""


Kept = TypeVar("Kept", bound=Savable)


class VersionStore(ABC, Generic[Kept]):
    """A folder. Every change replaces one small file at once, so that a reader never sees half of it."""

    noun: ClassVar[str]
    """What is kept, for messages."""
    writer: ClassVar[str]
    """The command that fills the folder, for messages."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._state = self.folder / "store.json"

    @abstractmethod
    def _load(self, path: Path | None) -> Kept:
        """Read a version; without a path, the one that comes with Presage."""

    def current_version(self) -> str:
        """Return the name of the version in use."""
        return self._read()[0]

    def current(self) -> Kept:
        """Return the version in use; the shipped one until another took over."""
        version = self.current_version()
        return self._load(None if version == SHIPPED else self._path(version))

    def attempts(self) -> list[Attempt]:
        """Return all tries, the oldest first."""
        return self._read()[1]

    def next_version(self) -> str:
        """Return the name that the next version gets."""
        return f"{len(self.attempts()) + 1:04d}"

    def record(self, attempt: Attempt, kept: Kept | None) -> None:
        """Remember a try; what was tried is kept, and used from now on, only if it took over."""
        current, attempts = self._read()
        if attempt.took_over:
            if kept is None:
                raise ValueError(f"a {self.noun} that takes over must be given")
            self.folder.mkdir(parents=True, exist_ok=True)
            kept.save(self._path(attempt.version))
            current = attempt.version
        self._write(current, [*attempts, attempt])

    def roll_back(self) -> str:
        """Go back to the version before the one in use, and return its name. Raises UsageError without one."""
        current, attempts = self._read()
        for attempt in reversed(attempts):
            if attempt.version == current:
                self._write(attempt.replaces, attempts)
                return attempt.replaces
        raise UsageError(
            f"There is no earlier {self.noun} to go back to", expected=f"a {self.noun} that took over before"
        )

    def _path(self, version: str) -> Path:
        return self.folder / f"{version}.safetensors"

    def _read(self) -> tuple[str, list[Attempt]]:
        """Return the version in use, and all tries."""
        if not self._state.is_file():
            return SHIPPED, []
        try:
            state = json.loads(self._state.read_text())
            return str(state["current"]), [Attempt(**each) for each in state["attempts"]]
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{self._state} is damaged",
                expected=f"what `{self.writer}` wrote",
                remedy="Remove it to begin anew",
            ) from None

    def _write(self, current: str, attempts: Sequence[Attempt]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        state = {"current": current, "attempts": [asdict(attempt) for attempt in attempts]}
        with replacing(self._state) as partial:
            partial.write_text(json.dumps(state, indent=1) + "\n")
