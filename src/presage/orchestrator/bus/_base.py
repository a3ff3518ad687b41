"""What every event bus promises, and what its users share."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from presage.errors import PresageError
from presage.orchestrator.store import Happened

if TYPE_CHECKING:
    import threading

Handler = Callable[[Sequence[Happened]], None]

log = logging.getLogger(__name__)

_REMEMBERED = 100_000


class BusError(PresageError):
    """Events could not be passed on."""

    code = "bus"


class Bus(Protocol):
    """Carries numbered events: each at least once, those of one job and one topic in order.

    A topic is lifecycle, progress, performance or utilization. An event that comes again has the number that it
    had before; `drop_repeats` uses this.
    """

    def publish(self, events: Sequence[Happened]) -> None:
        """Return when all events are safe; doing it again does no harm. Raises BusError: some may be, some not."""

    def consume(self, handler: Handler, stop: threading.Event) -> None:
        """Give events to the handler, several at once, until `stop`; first those it was not given yet.

        Events count as given when the handler returns: what it raises is passed on, and the next call begins with
        these events again. Raises BusError.
        """


def drop_repeats(handler: Handler, remembered: int = _REMEMBERED) -> Handler:
    """Return a handler that passes over events among the last `remembered` that were handled before."""
    seen: OrderedDict[tuple[str, int], None] = OrderedDict()

    def handle_new(events: Sequence[Happened]) -> None:
        new = {key: event for event in events if (key := (event.job_id, event.number)) not in seen}
        if new:
            handler(list(new.values()))
        for event in events:
            seen[event.job_id, event.number] = None
            seen.move_to_end((event.job_id, event.number))
        while len(seen) > remembered:
            seen.popitem(last=False)

    return handle_new


def persist(
    work: Callable[[threading.Event], None], stop: threading.Event, pauses_s: tuple[float, float], what: str
) -> None:
    """Do `work` again whenever it fails, after a pause that doubles between two bounds, until `stop`."""
    least_s, most_s = pauses_s
    pause_s = least_s
    while not stop.is_set():
        began_s = time.monotonic()
        try:
            work(stop)
        except PresageError as error:
            if time.monotonic() - began_s > most_s:
                pause_s = least_s  # it did its work for a while
            if not stop.is_set():
                level = logging.WARNING if pause_s == least_s else logging.INFO
                log.log(level, "%s: %s Trying again in %g s", what, error, pause_s)
            stop.wait(pause_s)
            pause_s = min(most_s, 2 * pause_s)
