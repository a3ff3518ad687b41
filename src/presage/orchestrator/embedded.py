"""A plane in the background of this process, and the clusters of this machine."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from presage.orchestrator.plane import Plane

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from presage.connectors._base import Connector
    from presage.orchestrator.store import Store

SIMULATED_NODES = 4
SIMULATED_LIMIT_S = 4 * 3600.0
_STOP_S = 30.0


@dataclass(frozen=True)
class Clusters:
    """Which clusters a plane of this machine knows."""

    slurm: bool = False
    simulated_rate: float = 60.0

    def connect(self, home: Path) -> dict[str, Connector]:
        """Return the connectors by the names that places use."""
        from presage.connectors.local import LocalConnector
        from presage.connectors.simulated import SimulatedConnector

        simulated = SimulatedConnector(
            home / "simulated.sqlite", nodes=SIMULATED_NODES, rate=self.simulated_rate, limit_s=SIMULATED_LIMIT_S
        )
        connectors: dict[str, Connector] = {"local": LocalConnector(home / "local"), "simulated": simulated}
        if self.slurm:
            from presage.connectors.slurm import SlurmConnector

            connectors["slurm"] = SlurmConnector()
        return connectors


class EmbeddedPlane:
    """A plane that works in a thread until it is stopped."""

    def __init__(self, plane: Plane) -> None:
        self._stop = threading.Event()
        # A daemon: a notebook that is closed must not wait for it. What it leaves is taken up by the next plane.
        self._thread = threading.Thread(target=plane.run, args=(self._stop,), name="plane", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it after what it is doing now."""
        self._stop.set()
        self._thread.join(_STOP_S)


def start_plane(store: Store, connectors: Mapping[str, Connector], *, name: str) -> EmbeddedPlane:
    """Start a plane. Its `name` is its own: what another of this name held is taken to be left behind."""
    return EmbeddedPlane(Plane(store, connectors, name=name))
