"""Kafka beyond what every bus promises: what is on the wire, brokers that are away, death, strangers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from presage.database import Database
from presage.errors import ConfigError, MissingDependencyError, OutputError
from presage.orchestrator.bus import BusError, EmbeddedBus, Forwarder, start_forwarder
from presage.orchestrator.store import Happened
from tests.orchestrator.bus.brokers import Broker, free_port
from tests.orchestrator.bus.conftest import BEGIN, PATIENCE_S, add_events

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

from presage.orchestrator.bus.callbacks import Callback, Listener  # noqa: E402  (needs what may not be installed)
from presage.orchestrator.bus.kafka import KafkaBus  # noqa: E402  (as above)

BRIEF_S = 3.0
"""What a bus waits here for a broker that is away, and a busy machine needs for one that is there."""
FORWARD_AND_DIE = """
import os, signal, sys, threading
from presage.database import Database
from presage.orchestrator.bus import EmbeddedBus, Forwarder
from presage.orchestrator.bus.kafka import KafkaBus

url, servers, prefix = sys.argv[1:]

class Deadly(KafkaBus):
    def publish(self, events):
        super().publish(events[:7])
        os.kill(os.getpid(), signal.SIGKILL)

Forwarder(EmbeddedBus(Database(url), "kafka"), Deadly(servers, prefix=prefix)).run(threading.Event())
"""


@pytest.fixture
def kafka(broker: Broker, prefix: str) -> KafkaBus:
    return KafkaBus(broker.servers, group=prefix, prefix=prefix, settings=broker.settings, timeout_s=10)


def read_all(broker: Broker, topics: list[str], is_enough: Callable[[list[Any]], bool]) -> list[Any]:
    """Return the messages of topics from their beginning, without a group, as soon as they are enough."""
    settings = {"bootstrap.servers": broker.servers, "group.id": "unused", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings)
    found: list[Any] = []
    try:
        consumer.assign(
            [
                confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)
                for topic in topics
                for partition in partitions_of(consumer, topic)
            ]
        )
        until_s = time.monotonic() + PATIENCE_S
        while not is_enough(found):
            assert time.monotonic() < until_s, f"{len(found)} messages came"
            found += [message for message in consumer.consume(500, 0.1) if message.error() is None]
    finally:
        consumer.close()
    return found


def partitions_of(consumer: Any, topic: str) -> list[int]:
    """Return the partitions of a topic as soon as somebody has written to it."""
    until_s = time.monotonic() + PATIENCE_S
    while not (found := list(consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)):
        assert time.monotonic() < until_s, f"there is no topic {topic}"
        time.sleep(0.05)
    return found


def numbers_by_job(messages: list[Any]) -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    for message in messages:
        found.setdefault((message.key().decode(), message.topic()), []).append(
            json.loads(message.value())["number"]
        )
    return found


def holds_all(events: list[Happened]) -> Callable[[list[Any]], bool]:
    wanted = {event.number for event in events}
    return lambda messages: wanted <= {json.loads(message.value())["number"] for message in messages}


def test_messages_are_as_documented(broker: Broker, kafka: KafkaBus, prefix: str) -> None:
    events = [
        Happened(1, "j1", BEGIN, "submitted", {"cluster": "sim"}),
        Happened(2, "j1", BEGIN, "progress", {"done": 3, "total": 50, "left_s": 94.0}),
        Happened(3, "j2", BEGIN, "performance", {"metrics": {"accuracy": 0.5}}),
        Happened(4, "j1", BEGIN, "utilization", {"cpu": 0.9, "memory_bytes": 2**30, "swap_bytes": None}),
        Happened(5, "j2", BEGIN, "finished", {"log": "x" * 2_000_000}),
    ]
    kafka.publish(events)
    messages = read_all(broker, kafka.topics(), holds_all(events))
    found = {json.loads(message.value())["number"]: message for message in messages}
    assert [found[number].topic().removeprefix(f"{prefix}.") for number in range(1, 6)] == [
        "jobs", "progress", "performance", "utilization", "jobs"
    ]  # fmt: skip
    assert [found[number].key() for number in range(1, 6)] == [b"j1", b"j1", b"j2", b"j1", b"j2"]
    assert json.loads(found[2].value()) == {
        "number": 2,
        "job_id": "j1",
        "at": "2026-03-01T00:00:00Z",
        "kind": "progress",
        "values": {"done": 3, "total": 50, "left_s": 94.0},
    }
    assert json.loads(found[5].value())["values"] == {"too_long_bytes": 2_000_011}


def test_events_wait_in_the_table_while_the_broker_is_away(
    broker: Broker, database: Database, kafka: KafkaBus, prefix: str
) -> None:
    source = EmbeddedBus(database, "kafka", pause_s=0.05)
    events = add_events(database, jobs=3, each=20)
    kafka.publish(events[:10])  # while all is well; a first connection may take its time
    target = KafkaBus(broker.servers, prefix=prefix, settings=broker.settings, timeout_s=BRIEF_S)
    stop = threading.Event()
    forwarding = threading.Thread(target=Forwarder(source, target, (0.1, 0.5)).run, args=(stop,))
    broker.hold()
    try:
        with pytest.raises(BusError, match="no answer in time"):
            target.publish(events)
        forwarding.start()
        events += add_events(database, jobs=2, each=10)
        time.sleep(1.2 * BRIEF_S)  # long enough for the forwarder to give up once
        assert source.position() == 0
    finally:
        broker.go_on()
    messages = read_all(broker, target.topics(), holds_all(events))
    stop.set()
    forwarding.join(PATIENCE_S)
    assert source.position() == events[-1].number
    for numbers in numbers_by_job(messages).values():
        first_time = list(dict.fromkeys(numbers))
        assert first_time == sorted(first_time)


def test_a_forwarder_killed_before_it_remembers_leaves_no_gap(
    broker: Broker, database: Database, kafka: KafkaBus, prefix: str, tmp_path: Any
) -> None:
    events = add_events(database, jobs=2, each=10)
    url = f"sqlite:///{tmp_path / 'presage.sqlite'}"
    arguments = [sys.executable, "-c", FORWARD_AND_DIE, url, broker.servers, prefix]
    assert subprocess.run(arguments, timeout=PATIENCE_S, check=False).returncode == -signal.SIGKILL
    source, stop = EmbeddedBus(database, "kafka", pause_s=0.05), threading.Event()
    assert source.position() == 0
    forwarding = threading.Thread(target=Forwarder(source, kafka).run, args=(stop,))
    forwarding.start()
    # The seven that were sent before the kill, and all of them again.
    messages = read_all(broker, kafka.topics(), lambda found: len(found) >= len(events) + 7)
    stop.set()
    forwarding.join(PATIENCE_S)
    numbers = sorted(json.loads(message.value())["number"] for message in messages)
    assert numbers == sorted([each.number for each in [*events, *events[:7]]])


def test_stopping_does_not_wait_for_a_broker_that_is_away(database: Database) -> None:
    add_events(database, jobs=1, each=5)
    forwarder = start_forwarder(database, f"127.0.0.1:{free_port()}")
    time.sleep(0.5)
    began_s = time.monotonic()
    forwarder.stop()
    assert time.monotonic() - began_s < 5
    assert EmbeddedBus(database, "kafka:presage").position() == 0


def test_only_what_jobs_say_with_their_token_is_taken(broker: Broker, kafka: KafkaBus, caplog: Any) -> None:
    good: dict[str, Any] = {"job_id": "j1", "token": "secret-1", "kind": "progress", "done": 1, "total": 5}
    last = {**good, "done": 2, "note": "é"}
    strange = [
        {"token": "secret-2"}, {"job_id": "j2"}, {"token": None}, {"kind": "finished"}, {"kind": ["progress"]},
        {"done": float("nan")}, {"job_id": "\ud800"}, {"note": "\ud800"}, {"x": "y" * 70_000},
    ]  # fmt: skip
    contents = [
        *(b"", b"\xff\xfe", b"null", b"[]", b"[" * 30_000, b'{"job_id": "j1"', b'{"a": 1' + b"0" * 5000 + b"}"),
        *(json.dumps({**good, **change}) for change in strange),
        *(json.dumps({**good, **change}) for change in ({}, {"refuse": True}, {"surprise": True}, last)),
    ]
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.servers})
    for content in contents:
        producer.produce(kafka.topic("callbacks"), content, key=b"j1")
    assert producer.flush(PATIENCE_S) == 0
    taken: list[Callback] = []
    stop, is_away = threading.Event(), [True]

    def take(callback: Callback) -> bool:
        if is_away.pop() if is_away else False:
            raise OutputError("The database is away")
        if "surprise" in callback.body:
            raise RuntimeError("a mistake")
        taken.append(callback)
        if callback.body == {key: last[key] for key in ("kind", "done", "total", "note")}:
            stop.set()
        return "refuse" not in callback.body

    def accept(job_id: str, token: str) -> bool:
        return (job_id, token) == ("j1", "secret-1")

    listening = threading.Thread(target=Listener(kafka, accept, take, (0.1, 0.5)).run, args=(stop,))
    listening.start()
    listening.join(PATIENCE_S)
    assert stop.is_set()
    assert [each.body.get("done") for each in taken] == [1, 1, 2]
    assert all(each.job_id == "j1" and "token" not in each.body for each in taken)
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "servers", ["", "broker", "broker:", ":9092", "broker:x", "broker:99999", "a:9092,,b:9092"]
)
def test_addresses_that_are_none_are_refused(servers: str) -> None:
    with pytest.raises(ConfigError, match="Kafka cannot be at"):
        KafkaBus(servers)


def test_settings_that_kafka_does_not_know_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"no\.such\.setting"):
        KafkaBus("127.0.0.1:9092", settings={"no.such.setting": "1"})


def test_an_event_without_a_number_is_not_sent(kafka: KafkaBus) -> None:
    with pytest.raises(ValueError, match="number"):
        kafka.publish([replace(Happened(1, "j1", BEGIN, "progress", {}), number=0)])


def test_without_the_package_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(MissingDependencyError, match=r"presage\[kafka\]"):
        KafkaBus("127.0.0.1:9092")
