"""What the service and the plane write down while they work: lines to read, or JSON for those who collect them.

A line of JSON has `time`, `level`, `logger` and `message`; where they are known also `job_id`, `user`, `request`
(the answer has it as `X-Request-Id`) and, of calls, `call`, `status` and `took_ms`. Secrets are struck out.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TextIO

FACTS = ("job_id", "user", "request", "call", "status", "took_ms")
JOB_ID = re.compile(r"\bj[0-9a-f]{11}\b")
_STRUCK_OUT = "***"
_SECRETS = (
    (re.compile(r"(presage_[0-9a-f]{12}_)[\w-]{20,}"), rf"\1{_STRUCK_OUT}"),
    (re.compile(r"(?i)(\bbearer\s+)[^\s'\",]+"), rf"\1{_STRUCK_OUT}"),
    (re.compile(r"(?i)((?:token|password|secret)\w*['\"]?\s*[=:]\s*['\"]?)[^\s'\",;&]+"), rf"\1{_STRUCK_OUT}"),
    (re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)"), rf"\1{_STRUCK_OUT}"),
    (re.compile(r"(?<![\w-])[\w-]{43}(?![\w-])"), _STRUCK_OUT),
)
"""Tokens, headers, settings, passwords in addresses, and the 256 random bits that callback tokens are."""

_about: ContextVar[dict[str, Any]] = ContextVar("presage_call")


class LogFormat(StrEnum):
    """How lines are written."""

    TEXT = "text"
    JSON = "json"


def set_up_journal(form: LogFormat, stream: TextIO | None = None) -> logging.Handler:
    """Write what everybody logs to a stream, or stderr; calls are in it as JSON alone. Returns what writes it."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if form is LogFormat.JSON else TextLines())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO if form is LogFormat.JSON else logging.WARNING)
    # Others tell of every connection at this level.
    for noisy in ("httpx", "httpcore", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    return handler


def begin_call(request: str) -> dict[str, Any]:
    """Return what is known of a call that begins; whatever is added to it is in all lines about the call."""
    facts: dict[str, Any] = {"request": request}
    _about.set(facts)
    return facts


def without_secrets(text: str) -> str:
    """Return a text with everything that looks like a secret struck out."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


class TextLines(logging.Formatter):
    """Lines for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return without_secrets(super().format(record))


class JsonLines(logging.Formatter):
    """One JSON document on a line for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        message = without_secrets(record.getMessage())
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
            **_facts(record, message),
        }
        if record.exc_info:
            document["error"] = without_secrets(self.formatException(record.exc_info))
        return json.dumps(document, default=str)


def _facts(record: logging.LogRecord, message: str) -> dict[str, Any]:
    """Return whom and what a record is about: what it says itself, else the call that is answered."""
    facts = {**_about.get({}), **{name: getattr(record, name) for name in FACTS if hasattr(record, name)}}
    if "job_id" not in facts:
        named = JOB_ID.search(message)
        facts |= {"job_id": named.group()} if named else {}
    return {name: facts[name] for name in FACTS if facts.get(name) is not None}
