"""How jobs of a simulated cluster start and end."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

from presage.client.run import EXIT_TO_BE_CONTINUED, FOLDER_VARIABLE
from presage.connectors.simulated.partitions import partitions_of
from presage.connectors.simulated.work import (
    HELD,
    environment_of,
    fate_of,
    is_held,
    keep_what_was_saved,
    tell_progress,
)
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    import sqlite3

    from presage.connectors.simulated.partitions import SimulatedPartition

SECONDS_TO_SAVE = 1.0
_MOST_ID_DIGITS = 18
_TO_SAVE = "USR1"
_NOT_HEEDED = frozenset({"CHLD", "CLD", "CONT", "URG", "WINCH", "STOP", "TSTP", "TTIN", "TTOU"})
"""Signals that end no program, and that no simulated one is stopped by."""


def is_id(text: str) -> bool:
    """Return whether a text can be the id of a job."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_ID_DIGITS


def advance(state: sqlite3.Connection, now_s: float) -> None:
    """Let everything happen that happens until now, in its order."""
    _let_go(state, now_s)
    while True:
        due = state.execute(
            "SELECT * FROM jobs WHERE state = 'running' AND end_s <= ? ORDER BY end_s, id LIMIT 1", (now_s,)
        ).fetchone()
        if due is None:
            return
        if due["will_be"] != Outcome.OUT_OF_MEMORY:
            tell_progress(state, due, due["end_s"])  # as programs do before they end, whoever asks and when
        keep_what_was_saved(state, due, due["end_s"])
        state.execute("UPDATE jobs SET state = will_be WHERE id = ?", (due["id"],))
        start_what_fits(state, due["end_s"])


def _let_go(state: sqlite3.Connection, now_s: float) -> None:
    """Let those begin to work that nothing holds any more."""
    held = state.execute("SELECT * FROM jobs WHERE state = 'running' AND speed = ?", (HELD,)).fetchall()
    for row in held:
        if is_held(environment_of(row)):
            continue
        held_s = now_s - row["start_s"]
        fate = fate_of(state, row, partitions_of(state)[row["partition"]], held_s)
        state.execute(
            "UPDATE jobs SET held_s = ?, end_s = ?, speed = ?, will_be = ?, exit_code = ?, reason = ?"
            " WHERE id = ?",
            (held_s, now_s + fate.length_s, fate.speed, fate.outcome, fate.exit_code, fate.reason, row["id"]),
        )


def start_what_fits(state: sqlite3.Connection, now_s: float) -> None:
    """Start who came first and fits, in each partition."""
    for name, partition in partitions_of(state).items():
        start_in(state, now_s, name, partition)


def free_nodes(state: sqlite3.Connection, name: str, partition: SimulatedPartition) -> int:
    """Return how many nodes of a partition have no job."""
    used = state.execute("SELECT sum(nodes) FROM jobs WHERE state = 'running' AND partition = ?", (name,))
    return partition.nodes - int(used.fetchone()[0] or 0)


def start_in(state: sqlite3.Connection, now_s: float, name: str, partition: SimulatedPartition) -> None:
    """Start who came first and fits, in one partition."""
    free = free_nodes(state, name, partition)
    if free <= 0:
        return
    waiting = state.execute(
        "SELECT id, nodes FROM jobs WHERE state = 'pending' AND partition = ? ORDER BY id", (name,)
    ).fetchall()
    for job_id, nodes in waiting:
        if not free:
            return
        row = state.execute("SELECT * FROM jobs WHERE id = ?", (job_id,)).fetchone()
        verdict = _dependencies(state, row)
        if verdict == "never":
            state.execute(
                "UPDATE jobs SET state = 'cancelled', end_s = ?, reason = 'DependencyNeverSatisfied' WHERE id = ?",
                (now_s, job_id),
            )
        elif verdict == "now" and nodes <= free:
            free -= nodes
            fate = fate_of(state, row, partition)
            state.execute(
                "UPDATE jobs SET state = 'running', start_s = ?, end_s = ?, speed = ?, will_be = ?, exit_code = ?,"
                " reason = ? WHERE id = ?",
                (now_s, now_s + fate.length_s, fate.speed, fate.outcome, fate.exit_code, fate.reason, job_id),
            )


def _dependencies(state: sqlite3.Connection, row: sqlite3.Row) -> str:
    """Return whether a job may start now, later, or never."""
    submission = json.loads(row["submission"])
    for job_id in submission["depends_on"]:
        found = state.execute("SELECT state FROM jobs WHERE id = ?", (job_id,)).fetchone()
        if found is not None and found["state"] in (Outcome.PENDING, Outcome.RUNNING):
            return "later"
        if submission["only_after_success"] and (found is None or found["state"] != Outcome.COMPLETED):
            return "never"
    return "now"


def interrupt(
    state: sqlite3.Connection,
    now_s: float,
    job_id: str,
    outcome: Outcome,
    reason: str = "",
    exit_code: int | None = None,
) -> None:
    """End a job now, unless it has ended; what it would have ended with is not what it ends with."""
    row = state.execute("SELECT * FROM jobs WHERE id = ?", (job_id,)).fetchone()
    if row is None or row["state"] not in (Outcome.PENDING, Outcome.RUNNING):
        return
    if row["state"] == Outcome.RUNNING:
        keep_what_was_saved(state, row, now_s)
    state.execute(
        "UPDATE jobs SET state = ?, end_s = ?, reason = ?, exit_code = ? WHERE id = ?",
        (outcome, now_s, reason, exit_code, job_id),
    )


def send(state: sqlite3.Connection, now_s: float, job_id: str, name: str) -> None:
    """Let a running job get a signal: one that can save itself does so when told to, others are ended by it."""
    row = state.execute("SELECT * FROM jobs WHERE id = ? AND state = 'running'", (job_id,)).fetchone()
    if row is None or name in _NOT_HEEDED:
        return
    if name != _TO_SAVE or FOLDER_VARIABLE not in environment_of(row):
        interrupt(state, now_s, job_id, Outcome.FAILED, exit_code=-signal.Signals[f"SIG{name}"])
    elif row["end_s"] > now_s + SECONDS_TO_SAVE and row["will_be"] != Outcome.OUT_OF_MEMORY:
        state.execute(
            "UPDATE jobs SET end_s = ?, will_be = 'failed', exit_code = ?, reason = '' WHERE id = ?",
            (now_s + SECONDS_TO_SAVE, EXIT_TO_BE_CONTINUED, job_id),
        )
