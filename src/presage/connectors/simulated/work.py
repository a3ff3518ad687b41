"""What jobs of a simulated cluster do: how much work there is, how fast it goes, and what is kept of it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage.client.callbacks import SUB_JOB_VARIABLE
from presage.client.events import EVENTS_FILE, EventFile
from presage.client.holds import hold_file
from presage.client.run import EXIT_TO_BE_CONTINUED, FOLDER_VARIABLE
from presage.errors import ClusterRefusedError
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from presage.connectors.simulated.partitions import SimulatedPartition

WORK = "PRESAGE_SIMULATED_WORK_S"
SCALING = "PRESAGE_SIMULATED_SCALING"
CHECKPOINT = "PRESAGE_SIMULATED_CHECKPOINT_S"
MEMORY = "PRESAGE_SIMULATED_MEMORY_BYTES"
EXIT_CODE = "PRESAGE_SIMULATED_EXIT_CODE"
HELD = 0.0
"""The speed of a job that is kept from working."""
_SECONDS_TO_OUT_OF_MEMORY = 5.0
_RANGES: dict[str, tuple[float, float]] = {
    WORK: (0.0, 1e12), SCALING: (0.0, 2.0), CHECKPOINT: (1e-3, 1e12), MEMORY: (0, 2**62), EXIT_CODE: (0, 255),
}  # fmt: skip
_WHOLE = (MEMORY, EXIT_CODE)


@dataclass(frozen=True)
class Fate:
    """What becomes of a job that starts now, if nobody interferes."""

    length_s: float
    speed: float
    outcome: Outcome
    exit_code: int
    reason: str = ""


def check(environment: Mapping[str, str]) -> None:
    """Raise ClusterRefusedError for what a job cannot do; found later, it would be everybody's trouble."""
    for name, (least, most) in _RANGES.items():
        text = environment.get(name, str(most))
        try:
            value = int(text) if name in _WHOLE else float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise ClusterRefusedError(f"The simulated cluster cannot use {name}={text[:40]!r}")


def fate_of(
    state: sqlite3.Connection, row: sqlite3.Row, partition: SimulatedPartition, held_s: float = 0.0
) -> Fate:
    """Return what becomes of a job that begins to work in a partition, having been held there for a while."""
    submission = json.loads(row["submission"])
    environment = submission["environment"]
    limit_s = max(0.0, row["walltime_s"] - held_s)
    if is_held(environment):
        told_s = max(0.0, limit_s - (submission["signal_before_s"] if submission["signal"] else 0.0))
        return Fate(told_s, HELD, Outcome.FAILED, EXIT_TO_BE_CONTINUED)
    speed = partition.speed * row["nodes"] ** float(environment.get(SCALING, 0))
    if _memory_bytes(environment) > (submission["memory_bytes"] or partition.node_bytes):
        return Fate(_SECONDS_TO_OUT_OF_MEMORY, speed, Outcome.OUT_OF_MEMORY, 137, "OutOfMemory")
    left_s = max(0.0, _work_s(environment) - _done_s(state, environment)) / speed
    if left_s <= limit_s:
        code = int(environment.get(EXIT_CODE, 0))
        return Fate(left_s, speed, Outcome.FAILED if code else Outcome.COMPLETED, code)
    if submission["signal"] and FOLDER_VARIABLE in environment:
        told_s = max(0.0, limit_s - submission["signal_before_s"])
        return Fate(told_s, speed, Outcome.FAILED, EXIT_TO_BE_CONTINUED)
    return Fate(limit_s, speed, Outcome.TIMEOUT, 0, "TimeLimit")


def keep_what_was_saved(state: sqlite3.Connection, row: sqlite3.Row, end_s: float) -> None:
    """Remember how much of the work of a running job that ends is not lost."""
    environment = environment_of(row)
    folder = environment.get(FOLDER_VARIABLE)
    if not folder or row["will_be"] == Outcome.OUT_OF_MEMORY:
        return
    ran_s = end_s - row["start_s"] - row["held_s"]
    is_planned_end = end_s == row["end_s"] and row["will_be"] != Outcome.TIMEOUT
    every_s = float(environment.get(CHECKPOINT, 60))
    kept_s = ran_s if is_planned_end else ran_s // every_s * every_s
    done_s = min(_work_s(environment), _done_s(state, environment) + kept_s * row["speed"])
    state.execute("INSERT OR REPLACE INTO work VALUES (?, ?)", (folder, done_s))


def tell_progress(state: sqlite3.Connection, row: sqlite3.Row, now_s: float) -> None:
    """Write what a running job would have written, if the folder of its run is there."""
    environment = environment_of(row)
    folder = environment.get(FOLDER_VARIABLE)
    if folder and Path(folder).is_dir():
        work_s, ran_s = _work_s(environment), now_s - row["start_s"] - row["held_s"]
        done = min(1.0, (_done_s(state, environment) + ran_s * row["speed"]) / work_s) if work_s else 1.0
        EventFile(Path(folder) / EVENTS_FILE).tell(
            "progress", datetime.fromtimestamp(now_s, UTC), done=done, total=1, unit="work", elapsed_s=ran_s
        )


def is_held(environment: Mapping[str, str]) -> bool:
    """Return whether a job is kept from working while another of its run does."""
    folder, number = environment.get(FOLDER_VARIABLE), environment.get(SUB_JOB_VARIABLE)
    return folder is not None and number is not None and hold_file(folder, number).exists()


def peak_bytes(row: sqlite3.Row, partition: SimulatedPartition) -> int | None:
    """Return the most memory that an ended job had; None if it says nothing of its memory."""
    submission = json.loads(row["submission"])
    if MEMORY not in submission["environment"] or row["start_s"] is None:
        return None
    return min(_memory_bytes(submission["environment"]), submission["memory_bytes"] or partition.node_bytes)


def environment_of(row: sqlite3.Row) -> dict[str, str]:
    """Return the environment that a job was submitted with."""
    submission: dict[str, Any] = json.loads(row["submission"])
    return dict(submission["environment"])


def _memory_bytes(environment: Mapping[str, str]) -> int:
    return int(environment.get(MEMORY, 0))


def _work_s(environment: Mapping[str, str]) -> float:
    return float(environment.get(WORK, 60))


def _done_s(state: sqlite3.Connection, environment: Mapping[str, str]) -> float:
    """Return what is done of the work, in seconds at speed 1."""
    row = state.execute("SELECT done_s FROM work WHERE folder = ?", (environment.get(FOLDER_VARIABLE),)).fetchone()
    return float(row[0]) if row else 0.0
