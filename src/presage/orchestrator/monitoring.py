"""What running jobs tell of themselves, read from the files in their folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage.client.events import EVENTS_FILE, read_events
from presage.orchestrator.jobs import Progress

if TYPE_CHECKING:
    from presage.client.events import Event
    from presage.orchestrator.jobs import ManagedJob

_MOST_EVENTS = 10_000
_TOLD = ("performance", "checkpoint", "started", "finished")


def read_progress(job: ManagedJob) -> tuple[Progress | None, list[tuple[str, dict[str, Any]]]]:
    """Return how far a job is by all it has told, and what it told since it was read last."""
    progress = job.progress
    if job.order.run_folder is None:
        return progress, []
    told: list[tuple[str, dict[str, Any]]] = []
    path = Path(job.order.run_folder) / EVENTS_FILE
    offset = progress.offset if progress is not None else 0
    for count, (event, behind) in enumerate(read_events(path, offset)):
        progress = _advanced(progress, event, behind)
        if event.kind in _TOLD:
            told.append((event.kind, event.values))
        if count >= _MOST_EVENTS:
            break
    if progress is not None and progress != job.progress and progress.total > 0:
        told.append(("progress", {"done": progress.done, "total": progress.total, "left_s": progress.left_s}))
    return progress, told


def _advanced(progress: Progress | None, event: Event, offset: int) -> Progress | None:
    done, total = _number(event.values.get("done")), _number(event.values.get("total"))
    if event.kind not in ("progress", "started") or done is None or not total:
        if progress is None:
            return None
        return Progress(progress.done, progress.total, progress.at, progress.per_s, offset)
    per_s = progress.per_s if progress is not None else None
    if event.kind == "progress":
        per_s = _rate(progress, event, done) or per_s
    return Progress(done, total, event.time, per_s, offset)


def _rate(before: Progress | None, event: Event, done: float) -> float | None:
    """Return how fast it was since it was heard of last; None if that says nothing."""
    if before is None:
        elapsed_s = _number(event.values.get("elapsed_s"))
        return done / elapsed_s if elapsed_s and done > 0 else None
    passed_s = (event.time - before.at).total_seconds()
    return (done - before.done) / passed_s if passed_s > 0 and done > before.done else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
