"""A plane in the background of this process, and the clusters of this machine."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from presage.orchestrator.histories import managed_history
from presage.orchestrator.plane import Pace, Plane
from presage.orchestrator.waits import Waits

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from presage.connectors._base import Connector
    from presage.orchestrator.store import Store

QUICK = Pace(least_pause_s=1.0, most_pause_s=3.0, visit_s=2.0)
"""For clusters that are on this machine, which may be asked often and have few jobs that run."""
_STOP_S = 30.0


@dataclass(frozen=True)
class Clusters:
    """Which clusters a plane of this machine knows."""

    slurm: bool = False
    slurm_rest: str | None = None
    """The address of a slurmrestd."""
    tapis: bool = False
    """The one of the settings `[tapis]`."""
    simulated_rate: float = 60.0

    @property
    def pace(self) -> Pace:
        """How often they are asked."""
        return Pace() if self.slurm or self.slurm_rest or self.tapis else QUICK

    def connect(self, home: Path) -> dict[str, Connector]:
        """Return the connectors by the names that places use. Raises ConfigError for settings that are missing."""
        from presage.connectors.local import LocalConnector
        from presage.connectors.simulated import SimulatedConnector, SimulatedPartition

        partitions = {
            "batch": SimulatedPartition(nodes=4, limit_s=4 * 3600.0),
            "fast": SimulatedPartition(nodes=1, limit_s=3600.0, speed=4.0),
        }
        simulated = SimulatedConnector(home / "simulated.sqlite", partitions=partitions, rate=self.simulated_rate)
        connectors: dict[str, Connector] = {"local": LocalConnector(home / "local"), "simulated": simulated}
        if self.slurm:
            from presage.connectors.slurm import SlurmConnector

            connectors["slurm"] = SlurmConnector()
        if self.slurm_rest is not None:
            from presage.connectors.slurm.rest import SlurmRestConnector

            connectors["slurm-rest"] = SlurmRestConnector(self.slurm_rest)
        if self.tapis:
            from presage.connectors.tapis import TapisConnector

            connectors["tapis"] = TapisConnector()
        return connectors


class EmbeddedPlane:
    """A plane that works in a thread until it is stopped."""

    def __init__(self, plane: Plane, waits: Waits) -> None:
        self._waits = waits
        self._stop = threading.Event()
        # A daemon: a notebook that is closed must not wait for it. What it leaves is taken up by the next plane.
        self._thread = threading.Thread(target=plane.run, args=(self._stop,), name="plane", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it after what it is doing now."""
        self._stop.set()
        self._waits.close()
        self._thread.join(_STOP_S)


def start_plane(
    store: Store, connectors: Mapping[str, Connector], *, name: str, pace: Pace | None = None
) -> EmbeddedPlane:
    """Start a plane. Its `name` is its own: what another of this name held is taken to be left behind."""
    waits = Waits(connectors, lambda cluster: managed_history(store, cluster=cluster))
    return EmbeddedPlane(Plane(store, connectors, name=name, pace=pace, waits=waits), waits)
