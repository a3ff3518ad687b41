"""What jobs tell of themselves over Kafka, for nodes that reach a broker but not the service.

A message in the topic is one JSON document: `job_id` and `token`, which show who it is from, and what the job has
to say. Anybody who can write to the topic can write anything, so nothing is believed before that.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from presage.errors import PresageError
from presage.orchestrator.bus._base import persist
from presage.orchestrator.bus.forwarding import Background
from presage.orchestrator.bus.kafka import CALLBACKS, OF_KINDS

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from confluent_kafka import Message

    from presage.orchestrator.bus.kafka import KafkaBus

log = logging.getLogger(__name__)

_MOST_BYTES = 64 * 1024
_LONGEST_NAME = 200
_PAUSES_S = (1.0, 60.0)


@dataclass(frozen=True)
class Callback:
    """What a job told: `body` is the document without the job's id and token."""

    job_id: str
    kind: str
    body: dict[str, Any]


Accept = Callable[[str, str], bool]
"""Whether a token (second) is that of a job (first)."""
Take = Callable[[Callback], bool]
"""Deals with what a job told; False refuses it. It may be told twice."""


class Listener:
    """Gives what jobs told to `take`, if `accept` knows their token; the rest is logged and passed over.

    Where one of the two raises a PresageError (the database is away), the message is read again later.
    """

    def __init__(
        self, bus: KafkaBus, accept: Accept, take: Take, pauses_s: tuple[float, float] = _PAUSES_S
    ) -> None:
        self._bus = bus
        self._accept = accept
        self._take = take
        self._pauses_s = pauses_s

    def run(self, stop: threading.Event) -> None:
        """Work until `stop`."""
        persist(self._read, stop, self._pauses_s, "Callbacks stay in Kafka")

    def _read(self, stop: threading.Event) -> None:
        self._bus.read([self._bus.topic(CALLBACKS)], self._deal_with, stop)

    def _deal_with(self, messages: Sequence[Message]) -> None:
        for message in messages:
            problem = self._problem_with(message.value())
            if problem:
                place = f"partition {message.partition()}, offset {message.offset()}"
                log.warning("Callback refused: %s: %s", place, problem)

    def _problem_with(self, content: bytes | str | None) -> str:
        """Deal with one message; returns why it was refused, without anything that it says."""
        parsed = _parse(content)
        if parsed is None:
            return "it is no callback"
        callback, token = parsed
        try:
            if not self._accept(callback.job_id, token):
                return "its token is not that of its job"
            return "" if self._take(callback) else "it says nothing that can be used now"
        except PresageError:
            raise
        except Exception:
            # One message that nobody was prepared for must not keep those behind it waiting for ever.
            log.exception("A callback could not be dealt with")
            return "it could not be dealt with"


def start_listener(bus: KafkaBus, accept: Accept, take: Take) -> Background:
    """Take callbacks from Kafka in the background."""
    return Background(Listener(bus, accept, take).run, "kafka-callbacks", bus.close)


def _parse(content: bytes | str | None) -> tuple[Callback, str] | None:
    """Return a callback and its token, if it has the form of one."""
    if content is None or len(content) > _MOST_BYTES:
        return None
    try:
        body = json.loads(content)
        # Refuses numbers that are not finite and halves of characters, which no database takes.
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    job_id, token, kind = body.pop("job_id", None), body.pop("token", None), body.get("kind")
    if not _is_name(job_id) or not _is_name(token) or kind not in OF_KINDS:
        return None
    return Callback(job_id, kind, body), token


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isascii() and value.isprintable()
