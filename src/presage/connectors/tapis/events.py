"""User events of Tapis: what a job tells, or anybody for it; kept in its history and sent to subscribers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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


def history(client: TapisClient, job_id: str) -> list[HistoryEvent]:
    """Return what happened to a job, user events among it, the oldest first. Raises ConnectorError."""
    answer = client.ask("GET", "jobs", job_id, "history", query={"limit": MAX_EVENTS})
    found = answer.result if isinstance(answer.result, list) else []
    return [_event(entry) for entry in found if isinstance(entry, dict)]


def _event(entry: Mapping[str, Any]) -> HistoryEvent:
    detail = entry.get("eventDetail") or entry.get("jobStatus") or ""
    return HistoryEvent(
        parse_time(entry.get("created")), str(entry.get("event")), str(detail), str(entry.get("description") or "")
    )
