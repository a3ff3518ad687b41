"""What running jobs tell of themselves: in the files of their folders, and over the network."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage.client.events import EVENTS_FILE, event_in, read_lines
from presage.orchestrator.hearing import are_others_heard, is_heard, is_late, with_heard
from presage.orchestrator.jobs import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from presage.client.events import Event
    from presage.orchestrator.jobs import ManagedJob

    Told = list[tuple[str, dict[str, Any]]]
    Messages = Iterable[tuple[int, dict[str, Any]]]

log = logging.getLogger(__name__)

_MOST_LINES = 10_000
"""Read at one visit; the rest at the next one."""
_MOST_BYTES = 16 << 20
_MOST_TOLD = 20
"""Of what was told between two visits, made events; all of it stays in the file."""
_MOST_VALUE_BYTES = 4096
_MOST_NESTED = 100
_TOLD = ("performance", "checkpoint", "started", "finished")
_STEP = 0.01
"""The share of its work after which progress is an event again."""
_MOST_KEPT = 20
"""Metrics, and figures of utilization, that are kept as the last known."""
_LONGEST_NAME = 60
_MOST_NUMBER = 2**63


def read_progress(job: ManagedJob, messages: Messages = ()) -> tuple[Progress | None, Told]:
    """Return how far a job is by all it has told, and what it told since it was read last.

    `messages` are what it told over the network, numbered. What came both ways counts once.
    """
    hearing = _Hearing(job)
    hearing.read_file()
    for number, document in messages:
        hearing.take(event_in(dict(document)))
        hearing.progress = replace(hearing.progress, message=number)
    return hearing.result()


class _Hearing:
    """What is taken in at one visit."""

    def __init__(self, job: ManagedJob) -> None:
        self._job = job
        self._folder = job.order.run_folder
        self.progress = job.progress or Progress(0.0, 0.0, job.created_at)
        self._told: Told = []
        self._has_utilization = False

    def read_file(self) -> None:
        """Take in the file of events, from where it was read to."""
        if self._folder is None:
            return
        begin = behind = self.progress.offset
        try:
            for count, (event, behind) in enumerate(read_lines(Path(self._folder) / EVENTS_FILE, begin), 1):
                self.take(event)
                if count >= _MOST_LINES or behind - begin >= _MOST_BYTES:
                    break
        except OSError as error:
            log.info("The events of job %s cannot be read: %s", self._job.job_id, error)
        self.progress = replace(self.progress, offset=behind)

    def take(self, event: Event | None) -> None:
        """Take in an event that was not heard before; a late one is told, and changes nothing else."""
        if event is None:
            return
        number, late = _number_of(event.values), False
        if number is not None:
            heard = self.progress.heard
            if is_heard(heard, *number):
                return
            is_old = are_others_heard(heard, number[0]) and event.time < self.progress.at
            late = is_old or is_late(heard, *number)
            self.progress = replace(self.progress, heard=with_heard(heard, *number))
        if not late:
            self.progress = _advanced(self.progress, event)
        self._has_utilization |= event.kind == "utilization"
        if event.kind in _TOLD:
            self._told.append((event.kind, _bounded(event.values)))

    def result(self) -> tuple[Progress | None, Told]:
        """Return how far the job is, and what is told; progress only if it is enough to be worth it."""
        progress, told = self.progress, self._told
        left_out = len(told) - _MOST_TOLD
        if left_out > 0:
            file = {} if self._folder is None else {"file": str(Path(self._folder) / EVENTS_FILE)}
            told = [("not-shown", {"events": left_out, **file}), *told[left_out:]]
        if not progress.is_known:
            nothing = self._job.progress is None and progress == Progress(0.0, 0.0, self._job.created_at)
            return None if nothing else progress, told
        last = progress.told
        if last is not None and abs(progress.done - last) < _STEP * progress.total:
            return progress, told
        values = {"done": progress.done, "total": progress.total, "left_s": progress.left_s}
        told = [*told, ("progress", values)]
        if self._has_utilization and progress.utilization:
            told.append(("utilization", progress.utilization))
        return replace(progress, told=progress.done), told


def _number_of(values: dict[str, Any]) -> tuple[int, int] | None:
    """Take the sub-job and the number of an event out of its values; None if it has no number."""
    sub_job, number = values.pop("sub_job", 0), values.pop("sequence", None)
    for each in (sub_job, number):
        if not isinstance(each, int) or isinstance(each, bool) or not 0 <= each < _MOST_NUMBER:
            return None
    return sub_job, number


def _advanced(progress: Progress, event: Event) -> Progress:
    if event.kind == "performance":
        metrics = event.values.get("metrics")
        return replace(progress, metrics=_figures(metrics)) if isinstance(metrics, dict) else progress
    if event.kind == "utilization":
        return replace(progress, utilization=_figures(event.values))
    if event.kind not in ("progress", "started"):
        return progress
    done, total = _number(event.values.get("done")), _number(event.values.get("total"))
    if done is None or not total:
        return progress
    rate = _number(_rate(progress, event, done)) if event.kind == "progress" else None
    return replace(progress, done=done, total=total, at=event.time, per_s=rate or progress.per_s)


def _rate(before: Progress, event: Event, done: float) -> float | None:
    """Return how fast it was since it was heard of last; None if that says nothing."""
    if not before.is_known:
        elapsed_s = _number(event.values.get("elapsed_s"))
        return done / elapsed_s if elapsed_s and done > 0 else None
    passed_s = (event.time - before.at).total_seconds()
    return (done - before.done) / passed_s if passed_s > 0 and done > before.done else None


def _figures(values: dict[str, Any]) -> dict[str, float]:
    """Return the first numbers among some values."""
    numbers = {name[:_LONGEST_NAME]: _finite(each) for name, each in values.items()}
    return {name: each for name, each in list(numbers.items())[:_MOST_KEPT] if each is not None}


def _number(value: Any) -> float | None:
    number = _finite(value)
    return number if number is not None and number >= 0 else None


def _finite(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _bounded(values: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(values)
    is_small = len(text) <= _MOST_VALUE_BYTES and text.count("[") + text.count("{") <= _MOST_NESTED
    return values if is_small else {"too_long_bytes": len(text)}
