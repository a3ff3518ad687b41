"""Events and callbacks on their way over a Kafka that is killed and started again, and an account of them."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from presage.database import Database
from presage.orchestrator.bus import BusError, EmbeddedBus, Forwarder
from presage.orchestrator.bus.callbacks import Callback, Listener
from presage.orchestrator.bus.kafka import KafkaBus
from presage.orchestrator.store import Happened, Store
from tests.orchestrator.bus.brokers import LastingBroker

PREFIX = "traffic"
PAUSES_S = (0.1, 1.0)
BETWEEN_CALLBACKS_S = 0.05


class Traffic:
    """Forwards the events of a database, reads them, sends callbacks and listens for them; a context manager."""

    def __init__(self, database: Database, broker: LastingBroker) -> None:
        self._store = Store(database)
        self._broker = broker
        self._source = EmbeddedBus(database, "kafka", pause_s=0.05)
        self._stop, self._silence = threading.Event(), threading.Event()
        self.events: Counter[int] = Counter()
        """How often each event has reached the reader."""
        self.callbacks: Counter[int] = Counter()
        """How often each callback was taken."""
        self.sent: set[int] = set()
        """Callbacks that the broker has confirmed."""
        self._forgotten: set[int] = set()
        self._unheard: set[int] = set()
        forwarder = Forwarder(self._source, self._bus("writer", timeout_s=3.0), PAUSES_S)
        listener = Listener(self._bus("listener"), lambda *_: True, self._take, PAUSES_S)
        runs = (lambda: forwarder.run(self._stop), lambda: listener.run(self._stop), self._read, self._tell)
        self._threads = [threading.Thread(target=run, daemon=True) for run in runs]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._silence.set()
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def restart(self, away_s: float) -> None:
        """Kill the broker and start it again; what it had confirmed and nobody had read is noted if it forgets."""
        self._broker.restart(away_s, self._note_forgotten if self._broker.forgets else lambda: None)

    def missing_events(self) -> set[int]:
        """Return the events that did not come and were not forgotten by the broker."""
        return self._stored() - set(self.events) - self._forgotten

    def missing_callbacks(self) -> set[int]:
        """Return the callbacks that did not come though the broker has taken them and not forgotten."""
        return self.sent - set(self.callbacks) - self._unheard

    @property
    def forgotten(self) -> tuple[int, int]:
        """How many events and callbacks the broker forgot before anybody had read them."""
        return len(self._forgotten - set(self.events)), len(self._unheard - set(self.callbacks))

    def settle(self, most_s: float) -> None:
        """Send no callbacks any more, and return when all that is there has come, or after some time."""
        self._silence.set()
        self.wait_until(lambda: not self.missing_events() and not self.missing_callbacks(), most_s)

    def wait_until(self, is_so: Callable[[], bool], most_s: float) -> None:
        """Return when something is so, or after some time."""
        until_s = time.monotonic() + most_s
        while not is_so() and time.monotonic() < until_s:
            time.sleep(0.2)

    def _bus(self, group: str, timeout_s: float = 20.0) -> KafkaBus:
        settings = self._broker.settings
        return KafkaBus(self._broker.servers, group=group, prefix=PREFIX, settings=settings, timeout_s=timeout_s)

    def _stored(self) -> set[int]:
        return {event.number for event in self._store.events(most=1_000_000)}

    def _note_forgotten(self) -> None:
        """While the broker is dead: what counts as sent was confirmed by the one that died."""
        time.sleep(0.1)
        position = self._source.position()
        self._forgotten |= set(range(1, position + 1)) - set(self.events)
        self._unheard |= self.sent - set(self.callbacks)

    def _read(self) -> None:
        while not self._stop.is_set():
            try:
                self._bus("reader").consume(self._got, self._stop)
            except BusError:
                self._stop.wait(PAUSES_S[0])

    def _got(self, events: Sequence[Happened]) -> None:
        self.events.update(event.number for event in events)

    def _take(self, callback: Callback) -> bool:
        self.callbacks[callback.body["sequence"]] += 1
        return True

    def _tell(self) -> None:
        """Send a callback every moment, as jobs do; librdkafka repeats what a broker does not confirm."""
        producer = Producer({"bootstrap.servers": self._broker.servers, "log_level": 0, "linger.ms": 0})
        for number in itertools.count(1):
            if self._silence.wait(BETWEEN_CALLBACKS_S):
                break
            told = {"job_id": f"j{number % 7}", "token": "t", "kind": "progress", "sequence": number}
            producer.produce(f"{PREFIX}.callbacks", json.dumps(told), on_delivery=self._confirm)
            producer.poll(0)
        producer.flush(10)

    def _confirm(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.sent.add(json.loads(message.value() or b"{}")["sequence"])
