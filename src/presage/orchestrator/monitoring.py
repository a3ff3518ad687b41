"""What running jobs tell of themselves, read from the files in their folders."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage.client.events import EVENTS_FILE, read_lines
from presage.orchestrator.jobs import Progress

if TYPE_CHECKING:
    from presage.client.events import Event
    from presage.orchestrator.jobs import ManagedJob

    Told = list[tuple[str, dict[str, Any]]]

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


def read_progress(job: ManagedJob) -> tuple[Progress | None, Told]:
    """Return how far a job is by all it has told, and what it told since it was read last."""
    if job.order.run_folder is None:
        return job.progress, []
    path = Path(job.order.run_folder) / EVENTS_FILE
    progress, told = job.progress, []
    begin = progress.offset if progress is not None else 0
    try:
        for count, (event, behind) in enumerate(read_lines(path, begin), 1):
            progress = _advanced(progress, event, behind, job)
            if event is not None and event.kind in _TOLD:
                told.append((event.kind, _bounded(event.values)))
            if count >= _MOST_LINES or behind - begin >= _MOST_BYTES:
                break
    except OSError as error:
        log.info("The events of job %s cannot be read: %s", job.job_id, error)
    left_out = len(told) - _MOST_TOLD
    if left_out > 0:
        told = [("not-shown", {"events": left_out, "file": str(path)}), *told[left_out:]]
    return _with_progress_told(progress, told)


def _with_progress_told(progress: Progress | None, told: Told) -> tuple[Progress | None, Told]:
    """Add progress to what is told, if it is enough to be worth it."""
    if progress is None or not progress.is_known:
        return progress, told
    last = progress.told
    if last is not None and abs(progress.done - last) < _STEP * progress.total:
        return progress, told
    values = {"done": progress.done, "total": progress.total, "left_s": progress.left_s}
    return replace(progress, told=progress.done), [*told, ("progress", values)]


def _advanced(progress: Progress | None, event: Event | None, offset: int, job: ManagedJob) -> Progress:
    if progress is None:
        progress = Progress(0.0, 0.0, job.created_at)
    if event is None or event.kind not in ("progress", "started"):
        return replace(progress, offset=offset)
    done, total = _number(event.values.get("done")), _number(event.values.get("total"))
    if done is None or not total:
        return replace(progress, offset=offset)
    rate = _number(_rate(progress, event, done)) if event.kind == "progress" else None
    return replace(progress, done=done, total=total, at=event.time, per_s=rate or progress.per_s, offset=offset)


def _rate(before: Progress, event: Event, done: float) -> float | None:
    """Return how fast it was since it was heard of last; None if that says nothing."""
    if not before.is_known:
        elapsed_s = _number(event.values.get("elapsed_s"))
        return done / elapsed_s if elapsed_s and done > 0 else None
    passed_s = (event.time - before.at).total_seconds()
    return (done - before.done) / passed_s if passed_s > 0 and done > before.done else None


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _bounded(values: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(values)
    is_small = len(text) <= _MOST_VALUE_BYTES and text.count("[") + text.count("{") <= _MOST_NESTED
    return values if is_small else {"too_long_bytes": len(text)}
