"""The models of one cluster over time: which one is in use, which were tried, and the way back."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from presage.errors import InputError, UsageError
from presage.foundation.model import Model
from presage.traces.files import replacing

SHIPPED = "shipped"
"""The version before the first: the model that comes with Presage."""


@dataclass(frozen=True)
class Attempt:
    """One try to replace the model in use: what was measured on the latest jobs, and what came of it."""

    version: str
    replaces: str
    made: str
    """When, as ISO 8601."""
    took_over: bool
    reason: str
    jobs: int
    figures: dict[str, dict[str, float | None]] = field(default_factory=dict)
    """By task: errors before and after, coverage, and how the model in use has drifted."""


class ModelStore:
    """A folder of models. Every change replaces one small file at once, so that a reader never sees half of it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._state = self.folder / "store.json"

    def current_version(self) -> str:
        """Return the name of the model in use."""
        return str(self._read()["current"])

    def current(self) -> Model:
        """Return the model in use; the shipped one until another took over."""
        version = self.current_version()
        return Model.load() if version == SHIPPED else Model.load(self._path(version))

    def attempts(self) -> list[Attempt]:
        """Return all tries, the oldest first."""
        return [Attempt(**each) for each in self._read()["attempts"]]

    def next_version(self) -> str:
        """Return the name that the next model gets."""
        return f"{len(self._read()['attempts']) + 1:04d}"

    def record(self, attempt: Attempt, model: Model | None) -> None:
        """Remember a try; its model is kept, and used from now on, only if it took over."""
        state = self._read()
        if attempt.took_over:
            if model is None:
                raise ValueError("a model that takes over must be given")
            self.folder.mkdir(parents=True, exist_ok=True)
            model.save(self._path(attempt.version))
            state["current"] = attempt.version
        state["attempts"].append(asdict(attempt))
        self._write(state)

    def roll_back(self) -> str:
        """Go back to the model before the one in use, and return its name. Raises UsageError if there is none."""
        state = self._read()
        for attempt in reversed(state["attempts"]):
            if attempt["version"] == state["current"]:
                state["current"] = attempt["replaces"]
                self._write(state)
                return str(state["current"])
        raise UsageError("There is no earlier model to go back to", expected="a model that took over before")

    def _path(self, version: str) -> Path:
        return self.folder / f"{version}.safetensors"

    def _read(self) -> dict[str, Any]:
        if not self._state.is_file():
            return {"current": SHIPPED, "attempts": []}
        try:
            state = json.loads(self._state.read_text())
            return {"current": str(state["current"]), "attempts": list(state["attempts"])}
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{self._state} is damaged",
                expected="what `presage model update` wrote",
                remedy="Remove it to begin anew",
            ) from None

    def _write(self, state: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self._state) as partial:
            partial.write_text(json.dumps(state, indent=1) + "\n")
