"""Limits that Slurm's accounting sets: of a QOS, and of a user's own association."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from presage.clusters.systems import Limits
from presage.traces.readers.slurm.texts import Tres, parse_duration_s, parse_tres

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True)
class Quality:
    """What a QOS limits, and whose jobs give way to its own."""

    limits: Limits = field(default_factory=Limits)
    preempts: frozenset[str] = frozenset()


def parse_qualities(text: str) -> dict[str, Quality]:
    """Return the QOS of what `sacctmgr --parsable2 show qos` prints with a header, by name."""
    return {
        row["Name"]: Quality(_quality_limits(row), frozenset(filter(None, row.get("Preempt", "").split(","))))
        for row in _rows(text)
        if row.get("Name")
    }


def parse_associations(text: str) -> dict[str, Limits]:
    """Return the limits of a user's associations by partition; "" is for all partitions.

    A user with several accounts chooses one for each job: what counts is the least that all of them allow to
    be known for sure, so only limits that every account has are taken, the widest of them.
    """
    by_partition: dict[str, list[Limits]] = {}
    for row in _rows(text):
        by_partition.setdefault(row.get("Partition", ""), []).append(_association_limits(row))
    return {partition: _widest(limits) for partition, limits in by_partition.items()}


def default_quality(text: str) -> str:
    """Return the QOS that a job of the user gets who does not name one."""
    return next((name for row in _rows(text) if (name := row.get("Def QOS") or row.get("DefaultQOS"))), "normal")


def preferred(one: Limits, other: Limits) -> Limits:
    """Return the limits of `one`, and where it has none those of `other`."""
    least = max(one.min_nodes, other.min_nodes)
    values = {entry.name: getattr(one, entry.name) for entry in fields(Limits)}
    given = {name: value for name, value in values.items() if value is not None}
    return replace(other, **{**given, "min_nodes": least})


def restricted(one: Limits, other: Limits) -> Limits:
    """Return the limits that hold where both do."""
    changes: dict[str, Any] = {}
    for entry in fields(Limits):
        values = [value for value in (getattr(one, entry.name), getattr(other, entry.name)) if value is not None]
        if values and entry.name != "default_walltime_s":
            changes[entry.name] = max(values) if entry.name.startswith("min_") else min(values)
    return replace(one, **changes)


def _widest(all_limits: list[Limits]) -> Limits:
    changes: dict[str, Any] = {}
    for entry in fields(Limits):
        values = [getattr(limits, entry.name) for limits in all_limits]
        if None not in values:
            changes[entry.name] = min(values) if entry.name.startswith("min_") else max(values)
    return Limits(**changes)


def _rows(text: str) -> Iterator[dict[str, str]]:
    lines = text.splitlines()
    names = lines[0].split("|") if lines else []
    for line in lines[1:]:
        values = line.split("|")
        if len(values) == len(names):
            yield dict(zip(names, values, strict=True))


def _quality_limits(row: Mapping[str, str]) -> Limits:
    job, user, least = (_tres(row, name) for name in ("MaxTRES", "MaxTRESPU", "MinTRES"))
    return Limits(
        min_nodes=least.nodes or 1,
        max_nodes=job.nodes,
        min_cores=_count(least.cpus),
        max_cores=_count(job.cpus),
        max_gpus=_count(job.gpus),
        max_walltime_s=_walltime_s(row),
        user_running_jobs=_number(row.get("MaxJobsPU")),
        user_submitted_jobs=_number(row.get("MaxSubmitPU")),
        user_nodes=user.nodes,
        user_cores=_count(user.cpus),
        user_gpus=_count(user.gpus),
    )


def _association_limits(row: Mapping[str, str]) -> Limits:
    job = _tres(row, "MaxTRES")
    return Limits(
        max_nodes=job.nodes,
        max_cores=_count(job.cpus),
        max_gpus=_count(job.gpus),
        max_walltime_s=_walltime_s(row),
        user_running_jobs=_number(row.get("MaxJobs")),
        user_submitted_jobs=_number(row.get("MaxSubmit")),
    )


def _tres(row: Mapping[str, str], name: str) -> Tres:
    text = row.get(name, "")
    return (parse_tres(text) if text else None) or Tres()


def _walltime_s(row: Mapping[str, str]) -> float | None:
    seconds = parse_duration_s(row.get("MaxWall", ""))
    return seconds if seconds and math.isfinite(seconds) else None


def _count(amount: float | None) -> int | None:
    return None if amount is None else int(amount)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 16 else None
