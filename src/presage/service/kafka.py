"""Events of jobs to Kafka, and what jobs tell of themselves from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from presage.orchestrator.bus import start_forwarder
from presage.orchestrator.bus.callbacks import start_listener
from presage.orchestrator.bus.kafka import KafkaBus
from presage.service.answers import ConflictError, TooManyCallsError
from presage.service.callbacks import WrongSecretError
from presage.service.routers.callbacks import Message

if TYPE_CHECKING:
    from presage.database import Database
    from presage.orchestrator.bus.callbacks import Callback
    from presage.orchestrator.bus.forwarding import Background
    from presage.orchestrator.store import Store
    from presage.service.callbacks import Callbacks

_GROUP = "presage-plane"


def start_kafka(servers: str, database: Database, store: Store, callbacks: Callbacks) -> list[Background]:
    """Start to forward events and to listen for callbacks; each is to be stopped.

    Raises ConfigError for an address that is none, MissingDependencyError without confluent-kafka.
    """

    def accept(job_id: str, token: str) -> bool:
        try:
            callbacks.authenticate(job_id, token)
        except WrongSecretError:
            return False
        return True

    def take(told: Callback) -> bool:
        try:
            message = Message.model_validate(told.body)
            job = store.get(told.job_id)
            callbacks.take(job, message.sub_job, message.sequence, message.event())
        except (ValidationError, ConflictError, TooManyCallsError):
            return False
        return True

    listener = start_listener(KafkaBus(servers, group=_GROUP), accept, take)
    return [start_forwarder(database, servers), listener]
