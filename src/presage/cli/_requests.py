"""What `submit` and `watch` have in common: the cluster at hand, its past, and where a job would run."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.errors import ConnectorError, InputError, PresageError

if TYPE_CHECKING:
    from presage.clusters.systems import Limits, NodeType, Partition, System
    from presage.connectors._base import Connector
    from presage.estimators.scripts import Asked
    from presage.estimators.workloads import Target
    from presage.traces import Trace

On = Annotated[str, typer.Option("--on", metavar="CONNECTOR", help="Where: slurm, or local for this machine.")]
HistoryFiles = Annotated[
    list[str] | None,
    typer.Option("--history", metavar="FILE", help="Logs of earlier jobs, instead of asking the cluster."),
]
Days = Annotated[float, typer.Option("--days", min=0, help="How far back the user's own jobs are read.")]
QueueDays = Annotated[
    float, typer.Option("--queue-days", min=0, help="How far back everybody's jobs are read, for waits; 0: not.")
]
_UNKNOWN_MEMORY_BYTES = 1 << 50


@dataclass(frozen=True)
class Place:
    """Where a job would run, and what it may have there."""

    target: Target
    limits: Limits


def connect(name: str) -> Connector:
    """Return the connector of that name. Raises UnknownNameError with the closest match."""
    from presage.connectors import CONNECTORS

    return CONNECTORS.get(name)()


def user_name() -> str:
    """Return who runs this, by name or, where there is none, by number."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def first_line(error: PresageError) -> str:
    """Return what is wrong, of a cluster's many lines the first."""
    return error.problem.partition("\n")[0]


def read_history(
    connector: Connector,
    files: list[str] | None,
    days: float,
    queue_days: float,
    managed_on: str | None = None,
) -> tuple[Trace | None, list[str]]:
    """Return the user's earlier jobs and the latest of everybody, and what could not be read.

    `managed_on` names the cluster as the plane does, whose own records of the user's jobs there are added. Raises
    the errors of reading for files; a cluster that tells nothing is only a note.
    """
    from presage.cli.trace import read_files
    from presage.connectors._base import ReadsHistory

    if files:
        return read_files(files, None, None), []
    now = datetime.now(UTC)
    found, notes = _managed_jobs(managed_on, now - timedelta(days=days))
    if not isinstance(connector, ReadsHistory):
        return _merged(found), notes if found else [*notes, "Nothing is known of earlier jobs here"]
    for span, user in ((days, user_name()), (queue_days, None)):
        if not span:
            continue
        try:
            found.append(connector.history(now - timedelta(days=span), user))
        except (ConnectorError, InputError) as error:
            notes.append(f"Earlier jobs are not known: {first_line(error)}")
    return _merged([each for each in found if len(each)]), notes


def _managed_jobs(cluster: str | None, since: datetime) -> tuple[list[Trace], list[str]]:
    """Return what the plane knows of the user's jobs on a cluster, if anything."""
    from presage.database import Database
    from presage.orchestrator.histories import managed_history
    from presage.orchestrator.store import Store

    try:
        database = Database()
        if cluster is None or not database.exists():
            return [], []
        trace = managed_history(Store(database), user_name(), since, cluster=cluster)
    except PresageError as error:
        return [], [f"Managed jobs are not known: {first_line(error)}"]
    return [trace] if len(trace) else [], []


def discovered(connector: Connector) -> tuple[System | None, list[str]]:
    """Return the system of a connector, or None and why its limits are not known."""
    from presage.connectors._base import Discovers

    if not isinstance(connector, Discovers):
        return None, ["Limits of partitions are not known here"]
    try:
        return connector.discover(), []
    except PresageError as error:
        return None, [f"Limits of partitions are not known: {first_line(error)}"]


def place_of(system: System | None, asked: Asked) -> Place:
    """Return where a job would run by what it asks for; what the cluster does not tell is left open."""
    from presage.clusters.systems import Limits

    partition = _partition(system, asked)
    node_type = _node_type(system, partition, asked)
    limits = Limits() if partition is None else partition.limits
    name = asked.partition or (partition.name if partition else "")
    return Place(_target(system.name if system else "", name, node_type, asked, limits), limits)


def with_machine(trace: Trace | None, system: System | None) -> Trace | None:
    """Return the trace on the machine that the cluster says it is, if it does."""
    if trace is None or system is None or trace.manifest.machine.cpus:
        return trace
    cores = sum(each.cores * (each.count or 0) for each in system.node_types)
    return trace.with_processors(cores) if cores else trace


def _partition(system: System | None, asked: Asked) -> Partition | None:
    if system is None:
        return None
    names = asked.partition.split(",") if asked.partition else [system.policies.get("default partition", "")]
    found = [each for each in system.partitions if each.name in names]
    if not found and not asked.partition and len(system.partitions) == 1:
        return system.partitions[0]
    return found[0] if found else None


def _node_type(system: System | None, partition: Partition | None, asked: Asked) -> NodeType:
    """Return the smallest node type of a partition on which the job fits, or one of which nothing is known."""
    from presage.clusters.systems import NodeType

    share = asked.share
    kinds = [system.node_type(name) for name in partition.node_types] if system and partition else []
    fitting = [
        kind
        for kind in kinds
        if kind.cores >= share.cores and kind.gpus >= share.gpus and kind.memory_bytes >= (share.memory_bytes or 0)
    ]
    if fitting or kinds:
        return min(fitting or kinds, key=lambda kind: (kind.gpus, kind.memory_bytes, kind.cores))
    return NodeType("unknown", share.cores, _UNKNOWN_MEMORY_BYTES, gpus=share.gpus, gpu=asked.gpu_type or "")


def _target(system: str, partition: str, node_type: NodeType, asked: Asked, limits: Limits) -> Target:
    from presage.estimators.workloads import Target

    asked_s = asked.walltime_s
    limit_s = limits.max_walltime_s if asked_s is not None and asked_s == float("inf") else asked_s
    return Target(
        system=system,
        partition=partition,
        node_type=node_type,
        share=asked.share,
        walltime_s=limit_s or limits.default_walltime_s or limits.max_walltime_s,
    )


def _merged(traces: list[Trace]) -> Trace | None:
    import polars as pl

    from presage.traces import Trace

    if len(traces) < 2:
        return traces[0] if traces else None
    jobs: Any = pl.concat([trace.jobs for trace in traces], how="diagonal_relaxed")
    manifest = replace(traces[0].manifest, sources=())
    return Trace.create(jobs.unique("job_id", keep="last", maintain_order=True), manifest)
