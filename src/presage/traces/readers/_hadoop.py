"""What Hadoop's two kinds of job history have in common: loose JSON values, and task attempts."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from presage.traces.readers._cells import MAX_EPOCH_S
from presage.traces.schema import ATTEMPTS, Outcome

MIB = 2**20
PRIORITIES = {"VERY_LOW": 1.0, "LOW": 2.0, "NORMAL": 3.0, "HIGH": 4.0, "VERY_HIGH": 5.0}
ATTEMPT_COLUMNS = ATTEMPTS | {"x_task_id": pl.String, "x_task_type": pl.String}
_TASK = re.compile(r"^task_\d+_\d+_([a-z])_(\d{1,9})$")


def plain(value: Any) -> Any:
    """Return what is inside a union that Avro writes with the name of its type."""
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    return value


def text(value: Any) -> str | None:
    """Return a text that is not blank, else None."""
    value = plain(value)
    if not isinstance(value, str) or not value.strip():
        return None
    return value.strip().encode("utf-8", errors="replace").decode()


def number(value: Any) -> int | None:
    """Return a whole number that is not negative, else None; Hadoop writes -1 for "not known"."""
    value = plain(value)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**62
    return int(value) if usable else None


def time_ms(value: Any) -> int | None:
    """Return a plausible time in milliseconds since 1970, else None."""
    milliseconds = number(value)
    return milliseconds if milliseconds and milliseconds <= MAX_EPOCH_S * 1000 else None


def objects(values: Any) -> list[dict[str, Any]]:
    """Return the objects of a list."""
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def host(name: str) -> str:
    r"""Return the bare host of `/rack/host` or `tracker_host:address`; old logs write the dots as `\.`."""
    name = name.replace("\\.", ".")
    return name.rpartition("/")[2] if name.startswith("/") else name.removeprefix("tracker_").partition(":")[0]


def hosts(attempts: dict[str, dict[str, Any]]) -> list[str] | None:
    """Return the hosts that attempts ran on, each once, or None."""
    return (
        list(dict.fromkeys(node for attempt in attempts.values() for node in attempt.get("node_list", ()))) or None
    )


def attempt_rows(
    job_id: str, attempts: dict[str, dict[str, Any]], maps: int | None, queued_ms: dict[str, int | None]
) -> list[dict[str, Any]]:
    """Return the rows of a job's attempts (by attempt id), ordered by their ids.

    Tasks have Hadoop's numbers, those of reduce tasks moved behind the `maps` map tasks. `queued_ms` says when a
    task was first put into the queue.
    """
    tasks = {attempt["x_task_id"]: _TASK.match(attempt["x_task_id"]) for attempt in attempts.values()}
    behind_maps = max([maps or 0, *(int(task[2]) + 1 for task in tasks.values() if task and task[1] != "r")])
    rows: list[dict[str, Any]] = []
    tries: dict[str, int] = {}
    for attempt_id in sorted(attempts, key=lambda name: (len(name), name)):
        task_id = attempts[attempt_id]["x_task_id"]
        task, nth = tasks[task_id], tries.get(task_id, 0)
        tries[task_id] = nth + 1
        rows.append(
            {
                "outcome": Outcome.RUNNING.value,
                **attempts[attempt_id],
                "job_id": job_id,
                "task": None if not task else int(task[2]) + (behind_maps if task[1] == "r" else 0),
                "attempt": nth,
                "queued_ms": None if nth else queued_ms.get(task_id),
            }
        )
    return rows
