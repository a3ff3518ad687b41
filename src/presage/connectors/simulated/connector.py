"""The simulated cluster as a connector."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from presage.clusters.systems import Limits, NodeType, Partition, Scheduler, System
from presage.connectors._base import (
    Connector,
    Discovers,
    EstimatesStarts,
    JobStatus,
    SharesFiles,
    SignalsJobs,
    Submission,
    check_signal,
)
from presage.connectors.simulated.outlook import NEWCOMER, Outlook, Waiting, ids_of
from presage.connectors.simulated.partitions import (
    DEFAULT_PARTITION,
    SimulatedPartition,
    add_partitions,
    make_tables,
    partition_for,
    partitions_of,
)
from presage.connectors.simulated.queue import (
    advance,
    free_nodes,
    interrupt,
    is_id,
    send,
    start_in,
    start_what_fits,
)
from presage.connectors.simulated.work import check, peak_bytes, tell_progress
from presage.database.places import state_home
from presage.errors import ClusterUnreachableError, UsageError
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

_TIMEOUT_S = 30.0


class SimulatedConnector(Connector, Discovers, EstimatesStarts, SignalsJobs, SharesFiles):
    """The simulated cluster in `file`, made there with these properties if it is not there yet.

    Without a file it is one in the folder of Presage's own state. Without `partitions` there is one, `batch`, with
    the nodes and the limit that the other numbers say. Partitions that are named here and that the file does not
    have are added to it. Jobs that name none go to the first.
    """

    def __init__(
        self,
        file: str | Path | None = None,
        *,
        nodes: int = 4,
        node_cores: int = 8,
        node_bytes: int = 32 << 30,
        limit_s: float | None = None,
        partitions: Mapping[str, SimulatedPartition] | None = None,
        rate: float = 1.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.file = state_home() / "simulated.sqlite" if file is None else Path(file)
        if partitions is not None and not partitions:
            raise UsageError("A simulated cluster needs at least one partition")
        self._clock = clock
        self._began_s, self._rate = clock(), rate
        self._added = dict(partitions or {})
        self._first = self._added or {
            DEFAULT_PARTITION: SimulatedPartition(nodes, node_cores, node_bytes, limit_s)
        }

    def submit(self, submission: Submission) -> str:
        check(submission.environment)
        with self._now() as (state, now_s):
            name, partition = partition_for(submission, partitions_of(state))
            row = state.execute(
                "INSERT INTO jobs (key, submission, nodes, state, submit_s, partition, walltime_s)"
                " VALUES (?, ?, ?, 'pending', ?, ?, ?)",
                (
                    submission.key,
                    json.dumps(asdict(submission)),
                    submission.nodes or 1,
                    now_s,
                    name,
                    submission.walltime_s or partition.default_walltime_s,
                ),
            )
            start_in(state, now_s, name, partition)
            return str(row.lastrowid)

    def statuses(self, job_ids: Collection[str]) -> dict[str, JobStatus]:
        wanted = json.dumps([int(each) for each in job_ids if is_id(each)])
        with self._now() as (state, now_s):
            partitions = partitions_of(state)
            found = state.execute(
                "SELECT * FROM jobs WHERE id IN (SELECT value FROM json_each(?))", (wanted,)
            ).fetchall()
            for row in found:
                if row["state"] == Outcome.RUNNING:
                    tell_progress(state, row, now_s)
        return {str(row["id"]): _status(row, partitions[row["partition"]]) for row in found}

    def cancel(self, job_ids: Collection[str]) -> None:
        with self._now() as (state, now_s):
            for job_id in filter(is_id, job_ids):
                interrupt(state, now_s, job_id, Outcome.CANCELLED)
            start_what_fits(state, now_s)

    def find(self, key: str) -> str | None:
        with self._now() as (state, _):
            row = state.execute("SELECT max(id) FROM jobs WHERE key = ?", (key,)).fetchone()
        return None if row[0] is None else str(row[0])

    def signal(self, job_ids: Collection[str], name: str) -> None:
        check_signal(name)
        with self._now() as (state, now_s):
            for job_id in filter(is_id, job_ids):
                send(state, now_s, job_id, name)
            start_what_fits(state, now_s)

    def interrupt(self, job_id: str, outcome: Outcome, reason: str = "") -> None:
        """End a job now, as the failure of a node or a preemption would. Ended and unknown ones are left alone."""
        with self._now() as (state, now_s):
            interrupt(state, now_s, job_id, outcome, reason)
            start_what_fits(state, now_s)

    def jobs_of_key(self, key: str) -> list[str]:
        """Return the ids of all jobs that were submitted with a key; more than one is a mistake."""
        with self._now() as (state, _):
            return [str(row[0]) for row in state.execute("SELECT id FROM jobs WHERE key = ? ORDER BY id", (key,))]

    def discover(self, name: str | None = None) -> System:
        """Return the cluster: each partition has nodes of its own, of a type with its name."""
        with self._now() as (state, _):
            partitions = partitions_of(state)
        node_types = tuple(
            NodeType(each, its.node_cores, its.node_bytes, count=its.nodes) for each, its in partitions.items()
        )
        queues = tuple(
            Partition(each, (each,), Limits(max_nodes=its.nodes, max_walltime_s=its.limit_s), exclusive=True)
            for each, its in partitions.items()
        )
        return System(name or "simulated", Scheduler.LOCAL, node_types, queues)

    def start_estimate(self, submission: Submission) -> datetime | None:
        with self._now() as (state, now_s):
            name, partition = partition_for(submission, partitions_of(state))
            if not submission.depends_on and free_nodes(state, name, partition) >= (submission.nodes or 1):
                return _as_time(now_s)  # none of those who wait would fit
            newcomer = Waiting(
                NEWCOMER,
                name,
                submission.nodes or 1,
                submission.walltime_s or partition.default_walltime_s,
                ids_of(submission.depends_on),
                submission.only_after_success,
            )
            start_s = Outlook(state, now_s, newcomer).starts([NEWCOMER]).get(NEWCOMER)
        return None if start_s is None else _as_time(start_s)

    def expected_starts(self, job_ids: Collection[str]) -> dict[str, datetime]:
        with self._now() as (state, now_s):
            starts = Outlook(state, now_s).starts([int(each) for each in job_ids if is_id(each)])
        return {str(job_id): _as_time(start_s) for job_id, start_s in starts.items()}

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
        make_tables(state, self._began_s, self._rate, self._first)
        if self._added:
            add_partitions(state, self._added)
        began_s, rate = state.execute("SELECT began_s, rate FROM cluster").fetchone()
        now_s = float(began_s) + float(rate) * (self._clock() - float(began_s))
        advance(state, now_s)
        return now_s


def _status(row: sqlite3.Row, partition: SimulatedPartition) -> JobStatus:
    state = Outcome(row["state"])
    has_ended = state not in (Outcome.PENDING, Outcome.RUNNING)
    code = row["exit_code"] if has_ended and row["start_s"] is not None else None
    return JobStatus(
        job_id=str(row["id"]),
        state=state,
        key=row["key"],
        reason=row["reason"] if has_ended else "",
        submit_time=_as_time(row["submit_s"]),
        start_time=None if row["start_s"] is None else _as_time(row["start_s"]),
        end_time=_as_time(row["end_s"]) if has_ended else None,
        exit_code=None if code is None or code < 0 else code,
        signal=-code if code is not None and code < 0 else None,
        nodes=row["nodes"],
        partition=row["partition"],
        walltime_s=row["walltime_s"],
        max_rss_bytes=peak_bytes(row, partition) if has_ended else None,
        memory_bytes=json.loads(row["submission"])["memory_bytes"],
    )


def _as_time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
