"""A Kafka that is killed and started again while events and callbacks are on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from presage.database import Database
from tests.orchestrator.bus.brokers import LastingBroker
from tests.orchestrator.bus.conftest import PATIENCE_S, add_events

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

from tests.orchestrator.bus.traffic import Traffic


@pytest.fixture
def lasting_broker(tmp_path: Path, record_property: Callable[[str, object], None]) -> Iterator[LastingBroker]:
    broker = LastingBroker(tmp_path)
    record_property("kafka", broker.kind)
    yield broker
    broker.stop()


def test_a_broker_that_is_killed_and_comes_back_misses_nothing(
    lasting_broker: LastingBroker, database: Database
) -> None:
    add_events(database, jobs=3, each=20)
    with Traffic(database, lasting_broker) as traffic:
        traffic.wait_until(lambda: not traffic.missing_events(), PATIENCE_S)
        traffic.restart(away_s=0.3)
        later = {event.number for event in add_events(database, jobs=30, each=10)}  # more than it had before
        heard_before = max(traffic.callbacks, default=0)
        traffic.wait_until(lambda: max(traffic.callbacks, default=0) > heard_before, PATIENCE_S)
        traffic.settle(PATIENCE_S)
        assert not traffic.missing_events()
        assert not traffic.missing_callbacks()
        assert later <= set(traffic.events)
        assert max(traffic.callbacks, default=0) > heard_before
