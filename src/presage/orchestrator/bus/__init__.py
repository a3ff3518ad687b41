"""The event bus: what happened to jobs, for programs that want to know.

`embedded` is the event table of the database and always there; `kafka` gives the same events to programs
elsewhere, by way of a `Forwarder`, and takes what jobs tell over Kafka.
"""

from __future__ import annotations

from presage.orchestrator.bus._base import Bus, BusError, Handler, drop_repeats
from presage.orchestrator.bus.embedded import EmbeddedBus
from presage.orchestrator.bus.forwarding import Background, Forwarder, start_forwarder

__all__ = [
    "Background",
    "Bus",
    "BusError",
    "EmbeddedBus",
    "Forwarder",
    "Handler",
    "drop_repeats",
    "start_forwarder",
]
