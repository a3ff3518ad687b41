"""Events over Kafka: one JSON document per message, keyed by the job, in a topic for each sort of event."""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from presage.errors import ConfigError, MissingDependencyError
from presage.orchestrator.bus._base import Bus, BusError
from presage.orchestrator.store import Happened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

    from confluent_kafka import Consumer, KafkaError, Message, Producer

    from presage.orchestrator.bus._base import Handler

log = logging.getLogger(__name__)

LIFECYCLE = "jobs"
OF_KINDS = ("progress", "performance", "utilization")
"""Kinds of events that have a topic of their own."""
CALLBACKS = "callbacks"

_EVENT: TypeAdapter[Happened] = TypeAdapter(Happened)
_QUEUED = 10_000
_MOST_AT_ONCE = 500
_MOST_VALUE_BYTES = 256 * 1024
"""Below what brokers take by default, 1 MB; an event that they refuse would hold up all others."""
_POLL_S = 0.2
_NO_ANSWER = "no answer in time"
_SERVERS_EXAMPLE = "one like kafka1.example.org:9092,kafka2.example.org:9092"


class KafkaBus(Bus):
    """Topics of a Kafka cluster, all beginning with `prefix`; readers of one `group` share the events.

    `settings` are librdkafka's, for encryption and passwords. Nothing is connected before the first use. Raises
    MissingDependencyError without confluent-kafka, ConfigError for settings that cannot be used.
    """

    def __init__(
        self,
        servers: str,
        *,
        group: str = "presage",
        prefix: str = "presage",
        settings: Mapping[str, str] | None = None,
        timeout_s: float = 20.0,
    ) -> None:
        self._kafka = _import_kafka()
        self._prefix = prefix
        self._group = group
        self._timeout_s = timeout_s
        self._common = {
            "reconnect.backoff.ms": 200,
            "reconnect.backoff.max.ms": 5000,
            **(settings or {}),
            "bootstrap.servers": _checked_servers(servers),
            "client.id": "presage",
            "log_level": 2,  # what matters comes by error_cb; the rest would be written to stderr
            "error_cb": _note,
        }
        self._producing = threading.Lock()
        self._closing = threading.Event()
        self._producer: Producer | None = self._make_producer()

    def topic(self, name: str) -> str:
        """Return the full name of a topic."""
        return f"{self._prefix}.{name}"

    def topics(self) -> list[str]:
        """Return the topics that events are in."""
        return [self.topic(name) for name in (LIFECYCLE, *OF_KINDS)]

    def publish(self, events: Sequence[Happened]) -> None:
        """Return when the cluster has confirmed all events. Raises BusError if it has not in time."""
        if any(event.number <= 0 for event in events):
            raise ValueError("an event without a number cannot be told from its repetition")
        with self._producing:
            producer = self._producer = self._producer or self._make_producer()
            problem = "it was interrupted"
            try:
                problem = self._deliver(producer, events)
            finally:
                if problem:
                    # Nothing of this attempt may reach the cluster among the events of the next one.
                    producer.purge()
                    self._producer = None
        if problem:
            raise BusError(f"Kafka did not take all events: {problem}")

    def consume(self, handler: Handler, stop: threading.Event) -> None:
        """Give events to the handler until `stop`; what is no event of Presage is logged and passed over."""

        def take(messages: Sequence[Message]) -> None:
            events = list(_events_of(messages))
            if events:
                handler(events)

        self.read(self.topics(), take, stop)

    def read(self, topics: list[str], take: Callable[[Sequence[Message]], None], stop: threading.Event) -> None:
        """Give messages to `take`, several at once, until `stop`; they count as read when it returns."""
        while not stop.is_set():
            self._read_until_away(topics, take, stop)

    def _read_until_away(
        self, topics: list[str], take: Callable[[Sequence[Message]], None], stop: threading.Event
    ) -> None:
        """Read until the whole cluster has gone away, or `stop`.

        A reader that went on where it was would pass over messages if the cluster had lost what it had: the next
        one asks the cluster where to begin.
        """
        is_reading, is_away = threading.Event(), threading.Event()

        def note(error: KafkaError) -> None:
            _note(error)
            # Not before it has read anything: who waits for a cluster need not begin anew all the time.
            if error.code() == self._kafka.KafkaError._ALL_BROKERS_DOWN and is_reading.is_set():
                is_away.set()

        consumer: Consumer = self._make(
            self._kafka.Consumer,
            {
                "group.id": self._group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "allow.auto.create.topics": True,
                "topic.metadata.refresh.interval.ms": 10_000,
                "error_cb": note,
            },
        )
        try:
            consumer.subscribe(topics, on_assign=lambda *_: is_reading.set())
            while not stop.is_set() and not is_away.is_set():
                messages = consumer.consume(_MOST_AT_ONCE, _POLL_S)
                sound = [message for message in messages if not _has_failed(message)]
                if sound:
                    take(sound)
                    self._commit(consumer)
        except self._kafka.KafkaException as error:
            raise BusError(f"Kafka cannot be read: {error.args[0]}") from None
        finally:
            consumer.close()

    def close(self) -> None:
        """Make a publication that waits give up, and all later ones."""
        self._closing.set()

    def _deliver(self, producer: Producer, events: Sequence[Happened]) -> str:
        """Send events and wait until they are confirmed; returns what went wrong, if anything did."""
        delivery = _Delivery(len(events))
        until_s = time.monotonic() + self._timeout_s
        for event in events:
            problem = self._send(producer, event, delivery, until_s) or delivery.problem
            if problem:
                return problem
        while delivery.is_open and self._may_wait(until_s):
            producer.poll(_POLL_S)
        return delivery.problem or (_NO_ANSWER if delivery.is_open else "")

    def _send(self, producer: Producer, event: Happened, delivery: _Delivery, until_s: float) -> str:
        name = event.kind if event.kind in OF_KINDS else LIFECYCLE
        key, value = event.job_id.encode(), _document(event)
        while True:
            try:
                producer.produce(self.topic(name), value, key, on_delivery=delivery.report)
            except BufferError:  # as many as may wait do
                if not self._may_wait(until_s):
                    return _NO_ANSWER
                producer.poll(_POLL_S)
            except self._kafka.KafkaException as error:
                return str(error.args[0])
            else:
                producer.poll(0)
                return ""

    def _may_wait(self, until_s: float) -> bool:
        return time.monotonic() < until_s and not self._closing.is_set()

    def _make_producer(self) -> Producer:
        producer: Producer = self._make(
            self._kafka.Producer,
            {
                "enable.idempotence": True,
                # An event that is given up takes those behind it along; so none is ever before its predecessor.
                "enable.gapless.guarantee": True,
                "queue.buffering.max.messages": _QUEUED,
                "partitioner": "murmur2_random",  # as Java's clients choose partitions
                # Longer than is waited here: who waits decides when to give up, on all events together.
                "message.timeout.ms": int(self._timeout_s * 2000),
            },
        )
        return producer

    def _make(self, kind: Callable[..., Any], settings: dict[str, Any]) -> Any:
        try:
            return kind({**self._common, **settings})
        except (self._kafka.KafkaException, ValueError, TypeError) as error:
            raise ConfigError(f"Kafka cannot be used with these settings: {error}") from None

    def _commit(self, consumer: Consumer) -> None:
        try:
            consumer.commit(asynchronous=False)
        except self._kafka.KafkaException as error:
            log.info("What was read from Kafka may be read again: %s", error)


class _Delivery:
    """What became of the events of one publication."""

    def __init__(self, expected: int) -> None:
        self._unconfirmed = expected
        self.problem = ""

    @property
    def is_open(self) -> bool:
        return self._unconfirmed > 0 and not self.problem

    def report(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self._unconfirmed -= 1
        else:
            self.problem = self.problem or error.str()


def _import_kafka() -> ModuleType:
    try:
        import confluent_kafka
    except ImportError:
        raise MissingDependencyError("confluent-kafka", extra="kafka", purpose="Events over Kafka") from None
    return confluent_kafka


def _checked_servers(servers: str) -> str:
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 2**16:
            raise ConfigError(f"Kafka cannot be at {servers[:200]!r}", expected=_SERVERS_EXAMPLE)
    return servers


def _document(event: Happened) -> bytes:
    text = _EVENT.dump_json(event)
    if len(text) > _MOST_VALUE_BYTES:
        text = _EVENT.dump_json(replace(event, values={"too_long_bytes": len(json.dumps(event.values))}))
    return text


def _events_of(messages: Sequence[Message]) -> Iterator[Happened]:
    for message in messages:
        try:
            yield _EVENT.validate_json(message.value() or b"")
        except ValidationError as error:
            place = f"{message.topic()}, partition {message.partition()}, offset {message.offset()}"
            log.warning("No event of Presage, passed over: %s: %s", place, error.errors()[0]["msg"])


def _has_failed(message: Message) -> bool:
    """Tell whether this is a report of trouble, none of which lasts, and no message."""
    error = message.error()
    if error is None:
        return False
    if error.fatal():
        raise BusError(f"Kafka cannot be read: {error.str()}")
    _note(error)
    return True


def _note(error: KafkaError) -> None:
    log.info("Kafka: %s", error.str())
