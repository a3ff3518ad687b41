"""What a job tells, over the network: in the background, and never to the harm of the training.

The plane gives each of its jobs an address and a token in the environment. Whatever is told goes there beside the
file of events. Where nobody answers, the newest is kept and tried again, less and less often; what was told before
it is in the file alone.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import secrets
import threading
import time
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

ADDRESS_VARIABLE = "PRESAGE_CALLBACK_ADDRESS"
TOKEN_VARIABLE = "PRESAGE_CALLBACK_TOKEN"  # noqa: S105  (the name of a variable, not a secret)
JOB_VARIABLE = "PRESAGE_JOB"
SUB_JOB_VARIABLE = "PRESAGE_SUB_JOB"
KINDS = ("progress", "performance", "utilization")
"""What is told over the network; of the first and the last of these only the newest is kept to be sent."""
_RANDOM_BITS = 11
_MOST_WAITING = 200
_MOST_METRICS = 100
_LONGEST_NAME = 100
_LONGEST_TEXT = 1000
_NOBODY_LISTENS = frozenset({301, 302, 303, 307, 308, 401, 403, 404, 405})
"""Answers of somebody else than the service, or to a token that is not good any more: no more is sent."""
_BESIDE = ("time", "kind", "sub_job", "sequence", "done", "total", "unit", "elapsed_s", "left_s", "metrics")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Patience:
    """How long to wait for what, in seconds."""

    timeout_s: float = 5.0
    least_pause_s: float = 0.2
    """Between two messages."""
    first_retry_s: float = 1.0
    most_retry_s: float = 120.0
    """The pause doubles from the first to this."""
    last_words_s: float = 2.0
    """For what was told last, when the program ends; nothing is waited for if nobody answered before."""


class CallbackSender:
    """Sends what it is given from a thread of its own, in order."""

    def __init__(self, url: str, token: str, patience: Patience | None = None) -> None:
        self._url = url
        self._token = token
        self._patience = patience or Patience()
        self._waiting: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._is_silent = False
        """Whether the other side did not answer the last time."""
        self._is_over = False
        self._is_closing = False
        self._is_sending = False
        self._thread: threading.Thread | None = None

    def send(self, event: dict[str, Any]) -> None:
        """Have an event sent, if it is of a kind that is; returns at once."""
        if event["kind"] not in KINDS or self._is_over or event.get("metrics") == {}:
            return
        with self._changed:
            if event["kind"] != "performance":
                self._waiting = [each for each in self._waiting if each["kind"] != event["kind"]]
            self._waiting = [*self._waiting[-_MOST_WAITING + 1 :], event]
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="presage-callbacks", daemon=True)
            self._thread.start()
            atexit.register(self.close)

    def close(self) -> None:
        """Send what is left, if somebody listens and it does not take long, and stop."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            if self._thread is not None and self._thread.is_alive() and not self._is_silent:
                self._changed.wait_for(self._is_idle, self._patience.last_words_s)
            self._is_over = True
            self._changed.notify_all()

    def _is_idle(self) -> bool:
        return self._is_silent or self._is_over or not (self._waiting or self._is_sending)

    def _run(self) -> None:
        retry_s = self._patience.first_retry_s
        while (event := self._next()) is not None:
            status = self._post(event)
            answered = status is not None and status != HTTPStatus.TOO_MANY_REQUESTS and status < 500
            with self._changed:
                self._is_sending, self._is_silent = False, not answered
                if answered and status in _NOBODY_LISTENS:
                    self._is_over = True
                if not answered:
                    self._put_back(event)
                self._changed.notify_all()
            pause_s = self._patience.least_pause_s if answered else retry_s
            retry_s = self._patience.first_retry_s if answered else min(2 * retry_s, self._patience.most_retry_s)
            self._pause(pause_s)

    def _next(self) -> dict[str, Any] | None:
        """Return what is to be sent next, when there is something; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting) or self._is_over)
            if self._is_over:
                return None
            self._is_sending = True
            return self._waiting.pop(0)

    def _put_back(self, event: dict[str, Any]) -> None:
        """Have an event sent again before the others, unless a newer one of its kind stands for it."""
        is_stale = event["kind"] != "performance" and any(each["kind"] == event["kind"] for each in self._waiting)
        if not is_stale and len(self._waiting) < _MOST_WAITING:
            self._waiting.insert(0, event)

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._is_closing, seconds)

    def _post(self, event: dict[str, Any]) -> int | None:
        """Return what the other side says to an event; None if nothing."""
        from urllib.error import HTTPError
        from urllib.request import Request

        request = Request(  # noqa: S310  (the scheme was looked at)
            self._url,
            json.dumps(message_of(event)).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with _opener().open(request, timeout=self._patience.timeout_s) as answer:
                return int(answer.status)
        except HTTPError as error:
            error.close()
            return error.code
        except Exception as error:  # noqa: BLE001  (nothing of it is worth the training)
            log.debug("Progress cannot be told over the network: %s", type(error).__name__)
            return None


def sender_of(environment: Mapping[str, str] = os.environ) -> CallbackSender | None:
    """Return the sender of the job that this process is; None if nobody wants to be told."""
    address, token, job = (environment.get(name, "") for name in (ADDRESS_VARIABLE, TOKEN_VARIABLE, JOB_VARIABLE))
    is_address = address.startswith(("http://", "https://"))
    if not is_address or not token or not (job.isascii() and job.isalnum()) or not sub_job(environment):
        return None
    return _sender(f"{address.rstrip('/')}/api/v1/jobs/{job}/callbacks", token, os.getpid())


@lru_cache(maxsize=4)
def _sender(url: str, token: str, _process: int) -> CallbackSender:
    """Return the one sender of this process: one that was forked has none of its parent's threads."""
    return CallbackSender(url, token)


def first_sequence() -> int:
    """Return a number for the first event of a run: higher than all of the runs before it, exact in any JSON."""
    return (time.time_ns() // 1_000_000 << _RANDOM_BITS) + secrets.randbits(_RANDOM_BITS)


def sub_job(environment: Mapping[str, str] = os.environ) -> int:
    """Return which of the jobs of a managed job this process is; 0 if of none."""
    number = environment.get(SUB_JOB_VARIABLE, "")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0


def message_of(event: dict[str, Any]) -> dict[str, Any]:
    """Return what the service takes of an event: no more metrics and no longer words than it allows."""
    kept = {name: event[name] for name in ("time", "kind", "sub_job", "sequence")}
    if event["kind"] == "progress":
        optional = {name: event.get(name) for name in ("elapsed_s", "unit")}
        found = {name: each for name, each in optional.items() if each is not None}
        return {**kept, "done": event["done"], "total": event["total"], **found}
    metrics = event.get("metrics", {name: each for name, each in event.items() if name not in _BESIDE})
    few = list(metrics.items())[:_MOST_METRICS]
    return {**kept, "metrics": {name[:_LONGEST_NAME]: _short(each) for name, each in few if name}}


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]
    return value if isinstance(value, bool | int | float | None) else str(value)[:_LONGEST_TEXT]


def _opener() -> Any:
    """Return what opens addresses, but follows nobody elsewhere: the token is for one address."""
    from urllib.request import HTTPRedirectHandler, build_opener

    class Stay(HTTPRedirectHandler):
        def redirect_request(self, *_: Any, **__: Any) -> None:
            return None

    return build_opener(Stay)
