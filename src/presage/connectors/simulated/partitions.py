"""The partitions of a simulated cluster, and the file that all of its state is in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from presage.errors import ClusterRefusedError, UsageError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from presage.connectors._base import Submission

DEFAULT_PARTITION = "batch"
DEFAULT_WALLTIME_S = 3600.0
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
CREATE TABLE partitions (
    name TEXT PRIMARY KEY, nodes INTEGER NOT NULL, node_cores INTEGER NOT NULL, node_bytes INTEGER NOT NULL,
    limit_s REAL, speed REAL NOT NULL);
ALTER TABLE jobs ADD COLUMN partition TEXT NOT NULL DEFAULT 'batch';
ALTER TABLE jobs ADD COLUMN walltime_s REAL NOT NULL DEFAULT 3600;
ALTER TABLE jobs ADD COLUMN speed REAL NOT NULL DEFAULT 1;
ALTER TABLE jobs ADD COLUMN held_s REAL NOT NULL DEFAULT 0;
CREATE INDEX jobs_by_partition ON jobs (state, partition, nodes);
UPDATE jobs SET walltime_s = coalesce(json_extract(submission, '$.walltime_s'), 3600);
INSERT INTO partitions SELECT 'batch', nodes, node_cores, node_bytes, limit_s, 1 FROM cluster;
"""
"""A file of before there were partitions has what comes first, and gets the rest."""


@dataclass(frozen=True)
class SimulatedPartition:
    """Equal nodes with a queue of their own. On them work takes `speed` times less than it says of itself."""

    nodes: int = 4
    node_cores: int = 8
    node_bytes: int = 32 << 30
    limit_s: float | None = None
    """The longest walltime; None: any."""
    speed: float = 1.0

    def __post_init__(self) -> None:
        if min(self.nodes, self.node_cores, self.node_bytes) < 1:
            raise UsageError("A simulated partition needs nodes, and each of them a core and memory")
        if not 0 < self.speed < math.inf or not (self.limit_s is None or 0 < self.limit_s < math.inf):
            raise UsageError("Speed and limit of a simulated partition are finite, and more than 0")

    @property
    def default_walltime_s(self) -> float:
        """What a job gets that does not say how long it takes."""
        return DEFAULT_WALLTIME_S if self.limit_s is None else min(DEFAULT_WALLTIME_S, self.limit_s)

    def check(self, submission: Submission) -> None:
        """Raise ClusterRefusedError for a job that could never run here."""
        asked = (
            ("nodes", submission.nodes, self.nodes),
            ("cores of a node", submission.cores_per_node, self.node_cores),
            ("bytes of a node", submission.memory_bytes, self.node_bytes),
            ("seconds", submission.walltime_s, self.limit_s),
        )
        for what, wanted, most in asked:
            if wanted is not None and most is not None and wanted > most:
                raise ClusterRefusedError(
                    f"The job asks the simulated cluster for {wanted:g} {what}", expected=f"at most {most:g}"
                )


def make_tables(
    state: sqlite3.Connection, began_s: float, rate: float, partitions: Mapping[str, SimulatedPartition]
) -> None:
    """Make of a file a cluster with these partitions, unless it is one already; one without any gets them too."""
    if state.execute("SELECT 1 FROM sqlite_master WHERE name = 'partitions'").fetchone() is not None:
        return
    for statement in _SCHEMA.split(";"):
        state.execute(statement)
    if state.execute("SELECT 1 FROM cluster").fetchone() is None:
        first = next(iter(partitions.values()))
        row = (began_s, rate, first.nodes, first.node_bytes, first.node_cores, first.limit_s)
        state.execute("INSERT INTO cluster VALUES (?, ?, ?, ?, ?, ?)", row)
        add_partitions(state, partitions)


def add_partitions(state: sqlite3.Connection, partitions: Mapping[str, SimulatedPartition]) -> None:
    """Add those that are not there yet, after those that are."""
    rows = [(name, p.nodes, p.node_cores, p.node_bytes, p.limit_s, p.speed) for name, p in partitions.items()]
    state.executemany("INSERT OR IGNORE INTO partitions VALUES (?, ?, ?, ?, ?, ?)", rows)


def partitions_of(state: sqlite3.Connection) -> dict[str, SimulatedPartition]:
    """Return the partitions by name, that of jobs which name none first."""
    rows = state.execute("SELECT * FROM partitions ORDER BY rowid")
    return {row["name"]: SimulatedPartition(*tuple(row)[1:]) for row in rows}


def partition_for(
    submission: Submission, partitions: Mapping[str, SimulatedPartition]
) -> tuple[str, SimulatedPartition]:
    """Return where a job goes. Raises ClusterRefusedError if it cannot go there."""
    name = submission.partition or next(iter(partitions))
    if name not in partitions:
        raise ClusterRefusedError(
            f"The simulated cluster has no partition {name[:40]!r}", expected=", ".join(partitions)
        )
    partitions[name].check(submission)
    return name, partitions[name]
