"""What the callbacks of all frameworks do: begin a tracked run, and count its epochs as they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from presage.client.run import Run, track

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from presage.client.run import HasState


class TrackedEpochs:
    """A run whose loop is a framework's; before `begin` there is none, and nothing is counted."""

    def __init__(self, folder: str | Path | None, every_s: float) -> None:
        self._folder = folder
        self._every_s = every_s
        self._left: Iterator[int] = iter(())
        self.run: Run | None = None

    def begin(self, epochs: int, **states: HasState) -> Run:
        """Resume the states and return the run, which knows the epoch that comes next."""
        self.run = track(epochs, folder=self._folder, every_s=self._every_s, **states)
        self._left = iter(self.run)
        next(self._left, None)
        return self.run

    def end_epoch(self, metrics: dict[str, Any]) -> None:
        """Count an epoch, tell of it, and save if it is time."""
        if self.run is not None:
            self.run.report(**metrics)
            next(self._left, None)
