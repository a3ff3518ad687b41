"""How `presage systems` shows systems and what became of them."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from operator import mul
from typing import TYPE_CHECKING, Any

import typer

from presage.cli._output import emit_json, print_table
from presage.errors import UsageError
from presage.units import format_bytes, format_seconds
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.clusters import ChargeRule, NodeType, Partition, System
    from presage.clusters.catalogue import Version

UNCHANGED = "unchanged"


def moment_of(text: str | None) -> datetime | None:
    """Return the instant that --at names; a time without a zone is UTC. Raises UsageError."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"{text!r} is no date", expected="one like 2026-01-05 or 2026-01-05T08:00") from None


def version_document(version: Version) -> dict[str, Any]:
    """Return a version of a system for --json."""
    from presage.clusters.documents import document_of

    return {**_times(version), "system": document_of(version.system)}


def print_systems(versions: dict[str, Version]) -> None:
    """Print one line per system."""
    rows = [
        (
            name,
            version.system.scheduler.value,
            ", ".join(partition.name for partition in version.system.partitions),
            _sum(version.system, "count"),
            _sum(version.system, "cores"),
            _sum(version.system, "gpus"),
            version.source.value,
        )
        for name, version in versions.items()
    ]
    columns = ("system", "scheduler", "partitions", "nodes", "cores", "GPUs", "described by")
    print_table("Systems", columns, rows)


def print_version(version: Version) -> None:
    """Print all there is to know of a system."""
    system = version.system
    typer.echo(f"{system.name}, {system.scheduler.value}{': ' if system.description else ''}{system.description}")
    print_table(
        "Partitions",
        (
            "partition",
            "node types",
            "nodes",
            "max walltime",
            "max cores",
            "max GPUs",
            "one user",
            "charge",
            "marks",
        ),
        [_partition_row(system, partition) for partition in system.partitions],
    )
    print_table(
        "Node types",
        ("node type", "nodes", "cores", "memory", "GPUs", "GPU memory", "CPU", "features"),
        [_node_type_row(system, node_type) for node_type in system.node_types],
    )
    for topic, text in _remarks(version).items():
        typer.echo(f"{topic}: {text}")


def print_history(versions: Sequence[Version]) -> None:
    """Print the versions of a system with what was new in each."""
    rows = []
    for version, changes in zip(versions, changes_of(versions), strict=True):
        dates = _date(version.valid_from), _date(version.valid_to)
        rows.append((str(version.number), *dates, version.source.value, version.note, "; ".join(changes)))
    print_table("", ("version", "from", "to", "described by", "note", "differences"), rows)


def history_document(versions: Sequence[Version]) -> list[dict[str, Any]]:
    """Return the versions of a system with what was new in each, for --json."""
    changes = changes_of(versions)
    return [
        {**version_document(version), "changes": list(change)}
        for version, change in zip(versions, changes, strict=True)
    ]


def changes_of(versions: Sequence[Version]) -> list[tuple[str, ...]]:
    """Return for each version how it differs from the one before."""
    from presage.clusters.differences import differences

    first = [()] if versions else []
    later = [differences(old.system, new.system) for old, new in pairwise(versions)]
    return [*first, *later]


def report_changes(changes: dict[str, tuple[str, ...]], *, wants_json: bool, **more: Any) -> None:
    """Say what became of each system."""
    if wants_json:
        emit_json({"systems": [{"name": name, "changes": list(each)} for name, each in changes.items()], **more})
        return
    for name, each in changes.items():
        typer.echo(
            f"{name}: {UNCHANGED if not each else each[0] if len(each) == 1 else counted(len(each), 'change')}"
        )
        for change in each if len(each) > 1 else ():
            typer.echo(f"  {change}")


def _partition_row(system: System, partition: Partition) -> tuple[str, ...]:
    limits = partition.limits
    marks = [name for name in ("exclusive", "preemptible", "development") if getattr(partition, name)]
    return (
        partition.name,
        ", ".join(partition.node_types),
        _range(limits.min_nodes, limits.max_nodes),
        "" if limits.max_walltime_s is None else format_seconds(limits.max_walltime_s),
        _count(limits.max_cores),
        _count(limits.max_gpus),
        _user_limits(partition),
        _charge(system.charge_of(partition)),
        ", ".join(marks if partition.enabled else [*marks, "closed"]),
    )


def _node_type_row(system: System, node_type: NodeType) -> tuple[str, ...]:
    from presage.errors import UnknownNameError

    try:
        gpu = system.gpu_model(node_type)
    except UnknownNameError:
        gpu = None
    return (
        node_type.name,
        _count(node_type.count),
        str(node_type.cores),
        format_bytes(node_type.memory_bytes),
        f"{node_type.gpus} x {node_type.gpu or 'GPU'}" if node_type.gpus else "",
        "" if gpu is None else format_bytes(gpu.memory_bytes),
        node_type.cpu_model,
        ", ".join(node_type.features),
    )


def _charge(rule: ChargeRule) -> str:
    prices = {
        "core": rule.core_hour, "GPU": rule.gpu_hour, "node": rule.node_hour, "spot node": rule.spot_node_hour,
    }  # fmt: skip
    parts = [f"{price:g}/{unit}-hour" for unit, price in prices.items() if price]
    return f"{rule.currency} {' + '.join(parts)}" if parts else ""


def _user_limits(partition: Partition) -> str:
    names = {
        "user_running_jobs": "running", "user_submitted_jobs": "submitted", "user_nodes": "nodes",
        "user_cores": "cores", "user_gpus": "GPUs",
    }  # fmt: skip
    values = [(getattr(partition.limits, field), name) for field, name in names.items()]
    return ", ".join(f"{value} {name}" for value, name in values if value is not None)


def _remarks(version: Version) -> dict[str, str]:
    system = version.system
    staging = system.staging
    since = "" if version.valid_from is None else f", version {version.number} since {_date(version.valid_from)}"
    remarks = {"described by": f"{version.source.value}{since}"}
    if system.time_zone:
        remarks["time zone"] = system.time_zone
    if staging.bandwidth_bytes_s is not None:
        remarks["data come at"] = f"{format_bytes(staging.bandwidth_bytes_s)}/s"
    return remarks | system.policies


def _times(version: Version) -> dict[str, Any]:
    return {
        "version": version.number,
        "source": version.source.value,
        "note": version.note,
        "valid_from": None if version.valid_from is None else version.valid_from.isoformat(),
        "valid_to": None if version.valid_to is None else version.valid_to.isoformat(),
    }


def _date(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"


def _sum(system: System, field: str) -> str:
    """Return how many there are in all nodes; nothing where it is not known how many nodes there are."""
    if any(node_type.count is None for node_type in system.node_types):
        return ""
    per_node = [1 if field == "count" else getattr(node_type, field) for node_type in system.node_types]
    counts = [node_type.count or 0 for node_type in system.node_types]
    return f"{sum(map(mul, per_node, counts)):,}"


def _range(least: int, most: int | None) -> str:
    if least == most:
        return str(least)
    return f"{least} or more" if most is None else f"{least} to {most}"


def _count(number: int | None) -> str:
    return "" if number is None else str(number)
