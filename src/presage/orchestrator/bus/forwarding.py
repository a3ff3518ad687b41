"""Events on their way from the database to another bus.

The event table is the outbox: what the other bus does not take stays there and is sent later. A process that dies
between sending and remembering sends again, under the same numbers.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from presage.orchestrator.bus._base import persist
from presage.orchestrator.bus.embedded import EmbeddedBus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from presage.database import Database
    from presage.orchestrator.bus._base import Bus

_PAUSES_S = (1.0, 60.0)
_STOP_S = 10.0


class Forwarder:
    """Passes on all that `source` gives to `target`, in order and without gaps, whatever fails meanwhile."""

    def __init__(self, source: Bus, target: Bus, pauses_s: tuple[float, float] = _PAUSES_S) -> None:
        self._source = source
        self._target = target
        self._pauses_s = pauses_s

    def run(self, stop: threading.Event) -> None:
        """Work until `stop`."""
        persist(self._pass_on, stop, self._pauses_s, "Events stay in the database")

    def _pass_on(self, stop: threading.Event) -> None:
        self._source.consume(self._target.publish, stop)


class Background:
    """Something that works in a thread until it is stopped; `interrupt` ends what it waits for."""

    def __init__(self, run: Callable[[threading.Event], None], name: str, interrupt: Callable[[], None]) -> None:
        self._stop = threading.Event()
        self._interrupt = interrupt
        # A daemon: what it leaves undone is done by the next one.
        self._thread = threading.Thread(target=run, args=(self._stop,), name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it soon, in the middle of its work if that takes long."""
        self._stop.set()
        self._interrupt()
        self._thread.join(_STOP_S)


def start_forwarder(
    database: Database, servers: str, *, prefix: str = "presage", settings: Mapping[str, str] | None = None
) -> Background:
    """Send the events of a database to Kafka from now on, those first that were not sent yet.

    Two that run on one database send some events twice. Raises MissingDependencyError and ConfigError; a broker
    that does not answer is waited for.
    """
    from presage.orchestrator.bus.kafka import KafkaBus

    kafka = KafkaBus(servers, prefix=prefix, settings=settings)
    forwarder = Forwarder(EmbeddedBus(database, f"kafka:{prefix}"), kafka)
    return Background(forwarder.run, "kafka", kafka.close)
