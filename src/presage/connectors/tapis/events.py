"""User events of Tapis: what a job tells, or anybody for it; kept in its history and sent to subscribers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from presage.client.callbacks import KINDS
from presage.connectors.tapis.jobs import parse_time
from presage.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from presage.connectors.tapis.client import TapisClient

KIND = "JOB_USER_EVENT"
MAX_DATA_CHARS = 16_384
MAX_DETAIL_CHARS = 64
MAX_EVENTS = 10_000
_SEQUENCE_BITS = 11
"""As many as the client's own numbers have below the millisecond, so that both kinds can be compared."""


@dataclass(frozen=True)
class HistoryEvent:
    """One thing that happened to a job. `detail` is the status it got, or the sort of a user event."""

    time: datetime | None
    kind: str
    detail: str
    text: str


def send_event(client: TapisClient, job_id: str, data: Mapping[str, Any], detail: str = "progress") -> None:
    """Add a user event with a small document to the history of a job that has not ended. Raises ConnectorError."""
    text = json.dumps(data)
    if len(text) > MAX_DATA_CHARS or not 1 <= len(detail) <= MAX_DETAIL_CHARS:
        raise UsageError(
            f"An event of {len(text):,} characters and the sort {detail[:80]!r} is too long for Tapis",
            expected=f"at most {MAX_DATA_CHARS:,} characters, and {MAX_DETAIL_CHARS} for the sort",
        )
    body = {"eventData": text, "eventDetail": detail}
    client.ask("POST", "jobs", job_id, "sendEvent", body=body, is_repeatable=False)


def history(client: TapisClient, job_id: str, *, after: int = 0, most: int = MAX_EVENTS) -> list[HistoryEvent]:
    """Return what happened to a job, user events among it, the oldest first, without so many that came before.

    Raises ConnectorError.
    """
    answer = client.ask("GET", "jobs", job_id, "history", query={"limit": most, "skip": after})
    found = answer.result if isinstance(answer.result, list) else []
    return [_event(entry) for entry in found if isinstance(entry, dict)]


def message_in(event: HistoryEvent) -> dict[str, Any] | None:
    """Return what a user event tells, as a line of the file of events has it; None if that is nothing of ours."""
    if event.kind != KIND or event.detail not in KINDS or event.time is None:
        return None
    try:
        data = json.loads(event.text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    if event.detail == "performance" and not isinstance(data.get("metrics"), dict):
        data = {"metrics": data}
    # When Tapis got it does not change: whoever reads the history again gets the same number.
    ms, us = divmod(round(event.time.timestamp() * 1e6), 1000)
    sequence = data.get("sequence", (ms << _SEQUENCE_BITS) + 2 * us)
    return {**data, "time": event.time.isoformat(), "kind": event.detail, "sequence": sequence}


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _event(entry: Mapping[str, Any]) -> HistoryEvent:
    detail = entry.get("eventDetail") or entry.get("jobStatus") or ""
    return HistoryEvent(
        parse_time(entry.get("created")), str(entry.get("event")), str(detail), str(entry.get("description") or "")
    )
