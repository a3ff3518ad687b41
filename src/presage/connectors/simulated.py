"""A cluster in simulated time, for demonstrations and tests: equal nodes; who came first and fits starts first.

Nothing is executed. What a job would do is said in its environment:

    PRESAGE_SIMULATED_WORK_S          how long all of its work takes [60]
    PRESAGE_SIMULATED_CHECKPOINT_S    how often it saves, if it has a PRESAGE_RUN_FOLDER to save in [60]
    PRESAGE_SIMULATED_MEMORY_BYTES    what it needs at its peak [nothing]
    PRESAGE_SIMULATED_EXIT_CODE       what it ends with when its work is done [0]

Work is remembered by run folder, as checkpoints are: a job that is cut off at its limit leaves what it saved to
the next one. One that is told ahead of it (`Submission.signal`) saves all and ends with EXIT_TO_BE_CONTINUED.

The state is one SQLite file. Any number of processes may use it, and any of them may be killed at any time: a call
is one transaction. Time is that of the clock of this machine, `rate` times as fast since the file was made.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage.client.events import EVENTS_FILE, EventFile
from presage.client.run import EXIT_TO_BE_CONTINUED, FOLDER_VARIABLE
from presage.clusters.systems import Limits, NodeType, Partition, Scheduler, System
from presage.connectors._base import Connector, Discovers, EstimatesStarts, JobStatus, Submission
from presage.errors import ClusterRefusedError, ClusterUnreachableError
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

WORK = "PRESAGE_SIMULATED_WORK_S"
CHECKPOINT = "PRESAGE_SIMULATED_CHECKPOINT_S"
MEMORY = "PRESAGE_SIMULATED_MEMORY_BYTES"
EXIT_CODE = "PRESAGE_SIMULATED_EXIT_CODE"
_DEFAULT_WALLTIME_S = 3600.0
_SECONDS_TO_OUT_OF_MEMORY = 5.0
_TIMEOUT_S = 30.0
_MOST_ID_DIGITS = 18
_RANGES: dict[str, tuple[float, float]] = {
    WORK: (0.0, 1e12), CHECKPOINT: (1e-3, 1e12), MEMORY: (0, 2**62), EXIT_CODE: (0, 255),
}  # fmt: skip
_PARTITION = "batch"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS cluster (
    began_s REAL NOT NULL, rate REAL NOT NULL, nodes INTEGER NOT NULL, node_bytes INTEGER NOT NULL,
    node_cores INTEGER NOT NULL, limit_s REAL);
CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, submission TEXT NOT NULL, nodes INTEGER NOT NULL,
    state TEXT NOT NULL, submit_s REAL NOT NULL, start_s REAL, end_s REAL, will_be TEXT, exit_code INTEGER,
    reason TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS jobs_by_key ON jobs (key);
CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state);
CREATE TABLE IF NOT EXISTS work (folder TEXT PRIMARY KEY, done_s REAL NOT NULL);
"""


class SimulatedConnector(Connector, Discovers, EstimatesStarts):
    """The simulated cluster in `file`, made there with these properties if it is not there yet."""

    def __init__(
        self,
        file: str | Path,
        *,
        nodes: int = 4,
        node_cores: int = 8,
        node_bytes: int = 32 << 30,
        limit_s: float | None = None,
        rate: float = 1.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.file = Path(file)
        self._clock = clock
        self._properties = (clock(), rate, nodes, node_bytes, node_cores, limit_s)

    def submit(self, submission: Submission) -> str:
        _check(submission.environment)
        with self._now() as (state, now_s):
            wanted = submission.nodes or 1
            nodes, limit_s = state.execute("SELECT nodes, limit_s FROM cluster").fetchone()
            if wanted > nodes:
                raise ClusterRefusedError(
                    f"The simulated cluster has {nodes} nodes, and the job asks for {wanted}"
                )
            if limit_s is not None and (submission.walltime_s or _DEFAULT_WALLTIME_S) > limit_s:
                raise ClusterRefusedError(f"The simulated cluster has a limit of {limit_s:g} s")
            document = json.dumps(asdict(submission))
            row = state.execute(
                "INSERT INTO jobs (key, submission, nodes, state, submit_s) VALUES (?, ?, ?, ?, ?)",
                (submission.key, document, wanted, Outcome.PENDING, now_s),
            )
            _start_what_fits(state, now_s)
            return str(row.lastrowid)

    def statuses(self, job_ids: Collection[str]) -> dict[str, JobStatus]:
        wanted = json.dumps([int(each) for each in job_ids if _is_id(each)])
        with self._now() as (state, now_s):
            found = state.execute(
                "SELECT * FROM jobs WHERE id IN (SELECT value FROM json_each(?))", (wanted,)
            ).fetchall()
            for row in found:
                if row["state"] == Outcome.RUNNING:
                    _tell_progress(state, row, now_s)
        return {str(row["id"]): _status(row) for row in found}

    def cancel(self, job_ids: Collection[str]) -> None:
        with self._now() as (state, now_s):
            for job_id in filter(_is_id, job_ids):
                _interrupt(state, now_s, job_id, Outcome.CANCELLED, "")
            _start_what_fits(state, now_s)

    def find(self, key: str) -> str | None:
        with self._now() as (state, _):
            row = state.execute("SELECT max(id) FROM jobs WHERE key = ?", (key,)).fetchone()
        return None if row[0] is None else str(row[0])

    def interrupt(self, job_id: str, outcome: Outcome, reason: str = "") -> None:
        """End a job now, as the failure of a node or a preemption would. Ended and unknown ones are left alone."""
        with self._now() as (state, now_s):
            _interrupt(state, now_s, job_id, outcome, reason)
            _start_what_fits(state, now_s)

    def jobs_of_key(self, key: str) -> list[str]:
        """Return the ids of all jobs that were submitted with a key; more than one is a mistake."""
        with self._now() as (state, _):
            return [str(row[0]) for row in state.execute("SELECT id FROM jobs WHERE key = ? ORDER BY id", (key,))]

    def discover(self, name: str | None = None) -> System:
        with self._now() as (state, _):
            row = state.execute("SELECT * FROM cluster").fetchone()
        node_type = NodeType("node", row["node_cores"], row["node_bytes"], count=row["nodes"])
        limits = Limits(max_nodes=row["nodes"], max_walltime_s=row["limit_s"])
        partition = Partition(_PARTITION, ("node",), limits, exclusive=True)
        return System(name or "simulated", Scheduler.LOCAL, (node_type,), (partition,))

    def start_estimate(self, submission: Submission) -> datetime | None:
        with self._now() as (state, now_s):
            return _as_time(_expected_start(state, submission.nodes or 1, now_s))

    def expected_starts(self, job_ids: Collection[str]) -> dict[str, datetime]:
        starts = {}
        with self._now() as (state, now_s):
            for row in state.execute("SELECT id, nodes, state FROM jobs WHERE state = 'pending'").fetchall():
                if str(row["id"]) in job_ids:
                    starts[str(row["id"])] = _as_time(_expected_start(state, row["nodes"], now_s))
        return starts

    @contextmanager
    def _now(self) -> Iterator[tuple[sqlite3.Connection, float]]:
        """Give the state as it is by now, for one transaction. Raises ClusterUnreachableError."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.file, timeout=_TIMEOUT_S, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise ClusterUnreachableError(
                f"The simulated cluster {str(self.file)!r} cannot be opened: {error}"
            ) from None
        try:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA journal_mode = WAL")
            # Survives the end of any process; that of the machine is no matter for a cluster that is not real.
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("BEGIN IMMEDIATE")
            now_s = self._advanced(connection)
            yield connection, now_s
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise ClusterUnreachableError(
                f"The simulated cluster {str(self.file)!r} does not answer: {error}"
            ) from None
        finally:
            connection.close()  # which gives up what was not committed

    def _advanced(self, state: sqlite3.Connection) -> float:
        if state.execute("SELECT 1 FROM sqlite_master WHERE name = 'work'").fetchone() is None:
            for statement in _SCHEMA.split(";"):
                state.execute(statement)
        row = state.execute("SELECT began_s, rate FROM cluster").fetchone()
        if row is None:
            state.execute("INSERT INTO cluster VALUES (?, ?, ?, ?, ?, ?)", self._properties)
            row = self._properties
        now_s = float(row[0]) + float(row[1]) * (self._clock() - float(row[0]))
        _advance(state, now_s)
        return now_s


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_ID_DIGITS


def _check(environment: Mapping[str, str]) -> None:
    """Raise ClusterRefusedError for what a job cannot do; found later, it would be everybody's trouble."""
    for name, (least, most) in _RANGES.items():
        text = environment.get(name, str(most))
        try:
            value = float(text) if name in (WORK, CHECKPOINT) else int(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise ClusterRefusedError(f"The simulated cluster cannot use {name}={text[:40]!r}")


def _interrupt(state: sqlite3.Connection, now_s: float, job_id: str, outcome: Outcome, reason: str) -> None:
    row = state.execute("SELECT * FROM jobs WHERE id = ?", (job_id,)).fetchone()
    if row is None or row["state"] not in (Outcome.PENDING, Outcome.RUNNING):
        return
    if row["state"] == Outcome.RUNNING:
        _keep_what_was_saved(state, row, now_s)
    # What it would have ended with is not what it ends with.
    state.execute(
        "UPDATE jobs SET state = ?, end_s = ?, reason = ?, exit_code = NULL WHERE id = ?",
        (outcome, now_s, reason, job_id),
    )


def _advance(state: sqlite3.Connection, now_s: float) -> None:
    """Let everything happen that happens until now, in its order."""
    while True:
        due = state.execute(
            "SELECT * FROM jobs WHERE state = 'running' AND end_s <= ? ORDER BY end_s, id LIMIT 1", (now_s,)
        ).fetchone()
        if due is None:
            return
        _keep_what_was_saved(state, due, due["end_s"])
        state.execute("UPDATE jobs SET state = will_be WHERE id = ?", (due["id"],))
        _start_what_fits(state, due["end_s"])


def _start_what_fits(state: sqlite3.Connection, now_s: float) -> None:
    nodes, node_bytes = state.execute("SELECT nodes, node_bytes FROM cluster").fetchone()
    used = state.execute("SELECT coalesce(sum(nodes), 0) FROM jobs WHERE state = 'running'").fetchone()[0]
    waiting = state.execute("SELECT * FROM jobs WHERE state = 'pending' ORDER BY id") if used < nodes else ()
    for row in list(waiting):
        if used >= nodes:
            return
        submission = json.loads(row["submission"])
        verdict = _dependencies(state, submission)
        if verdict == "never":
            state.execute(
                "UPDATE jobs SET state = 'cancelled', end_s = ?, reason = 'DependencyNeverSatisfied' WHERE id = ?",
                (now_s, row["id"]),
            )
        elif verdict == "now" and row["nodes"] <= nodes - used:
            used += row["nodes"]
            length_s, will_be, exit_code, reason = _fate(state, submission, node_bytes)
            state.execute(
                "UPDATE jobs SET state = 'running', start_s = ?, end_s = ?, will_be = ?, exit_code = ?, reason = ?"
                " WHERE id = ?",
                (now_s, now_s + length_s, will_be, exit_code, reason, row["id"]),
            )


def _dependencies(state: sqlite3.Connection, submission: dict[str, Any]) -> str:
    """Return whether a job may start now, later, or never."""
    for job_id in submission["depends_on"]:
        row = state.execute("SELECT state FROM jobs WHERE id = ?", (job_id,)).fetchone()
        if row is not None and row["state"] in (Outcome.PENDING, Outcome.RUNNING):
            return "later"
        if submission["only_after_success"] and (row is None or row["state"] != Outcome.COMPLETED):
            return "never"
    return "now"


def _fate(state: sqlite3.Connection, submission: dict[str, Any], node_bytes: int) -> tuple[float, str, int, str]:
    """Return how long a job that starts now will run, how it ends, and with which code and reason."""
    environment = submission["environment"]
    needed = int(environment.get(MEMORY, 0))
    if needed > (submission["memory_bytes"] or node_bytes):
        return _SECONDS_TO_OUT_OF_MEMORY, Outcome.OUT_OF_MEMORY, 137, "OutOfMemory"
    left_s = max(0.0, _work_s(environment) - _done_s(state, environment))
    limit_s = submission["walltime_s"] or _DEFAULT_WALLTIME_S
    if left_s <= limit_s:
        code = int(environment.get(EXIT_CODE, 0))
        return left_s, Outcome.FAILED if code else Outcome.COMPLETED, code, ""
    if submission["signal"] and FOLDER_VARIABLE in environment:
        told_s = max(0.0, limit_s - submission["signal_before_s"])
        return told_s, Outcome.FAILED, EXIT_TO_BE_CONTINUED, ""
    return limit_s, Outcome.TIMEOUT, 0, "TimeLimit"


def _keep_what_was_saved(state: sqlite3.Connection, row: sqlite3.Row, end_s: float) -> None:
    """Remember how much of the work of a job that ends is not lost."""
    environment = json.loads(row["submission"])["environment"]
    folder = environment.get(FOLDER_VARIABLE)
    if not folder or row["will_be"] == Outcome.OUT_OF_MEMORY:
        return
    ran_s = end_s - row["start_s"]
    is_planned_end = end_s == row["end_s"] and row["will_be"] != Outcome.TIMEOUT
    every_s = float(environment.get(CHECKPOINT, 60))
    kept_s = ran_s if is_planned_end else ran_s // every_s * every_s
    done_s = min(_work_s(environment), _done_s(state, environment) + kept_s)
    state.execute("INSERT OR REPLACE INTO work VALUES (?, ?)", (folder, done_s))


def _tell_progress(state: sqlite3.Connection, row: sqlite3.Row, now_s: float) -> None:
    """Write what the job would have written, if the folder of its run is there."""
    environment = json.loads(row["submission"])["environment"]
    folder = environment.get(FOLDER_VARIABLE)
    if folder and Path(folder).is_dir():
        work_s = _work_s(environment)
        done = min(1.0, (_done_s(state, environment) + now_s - row["start_s"]) / work_s) if work_s else 1.0
        EventFile(Path(folder) / EVENTS_FILE).tell(
            "progress", _as_time(now_s), done=done, total=1, unit="work", elapsed_s=now_s - row["start_s"]
        )


def _work_s(environment: dict[str, str]) -> float:
    return float(environment.get(WORK, 60))


def _done_s(state: sqlite3.Connection, environment: dict[str, str]) -> float:
    row = state.execute("SELECT done_s FROM work WHERE folder = ?", (environment.get(FOLDER_VARIABLE),)).fetchone()
    return float(row[0]) if row else 0.0


def _expected_start(state: sqlite3.Connection, wanted: int, now_s: float) -> float:
    """Return when so many nodes are free if running jobs use up their limits; who waits already is not counted."""
    free = state.execute("SELECT nodes FROM cluster").fetchone()[0]
    running = state.execute("SELECT nodes, start_s, submission FROM jobs WHERE state = 'running'").fetchall()
    free -= sum(row["nodes"] for row in running)
    ends = sorted(
        (row["start_s"] + (json.loads(row["submission"])["walltime_s"] or _DEFAULT_WALLTIME_S), row["nodes"])
        for row in running
    )
    for end_s, nodes in ends:
        if free >= wanted:
            break
        free, now_s = free + nodes, max(now_s, end_s)
    return now_s


def _status(row: sqlite3.Row) -> JobStatus:
    submission = json.loads(row["submission"])
    state = Outcome(row["state"])
    has_ended = state not in (Outcome.PENDING, Outcome.RUNNING)
    return JobStatus(
        job_id=str(row["id"]),
        state=state,
        key=row["key"],
        reason=row["reason"] if has_ended else "",
        submit_time=_as_time(row["submit_s"]),
        start_time=None if row["start_s"] is None else _as_time(row["start_s"]),
        end_time=_as_time(row["end_s"]) if has_ended else None,
        exit_code=row["exit_code"] if has_ended and row["start_s"] is not None else None,
        nodes=row["nodes"],
        partition=submission["partition"] or _PARTITION,
        walltime_s=submission["walltime_s"] or _DEFAULT_WALLTIME_S,
        memory_bytes=submission["memory_bytes"],
    )


def _as_time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
