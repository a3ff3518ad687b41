"""A system from what Slurm says of its nodes, partitions and limits."""

from __future__ import annotations

import logging
import math
import os
import pwd
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from presage.clusters.systems import Limits, Partition, Scheduler, System
from presage.connectors._gpus import gpu_name
from presage.connectors._node_types import Hardware, Node, group
from presage.connectors.slurm.commands import SlurmCommands
from presage.connectors.slurm.limits import (
    Quality,
    default_quality,
    parse_associations,
    parse_qualities,
    preferred,
    restricted,
)
from presage.errors import ConnectorError, InputError
from presage.traces.readers.slurm.node_lists import expand_nodes
from presage.traces.readers.slurm.texts import MISSING, parse_duration_s, parse_gres

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MIB = 2**20
_ENTRY = re.compile(r"(?:^|\s)([A-Z][\w:/]*)=(.*?)(?=\s+[A-Z][\w:/]*=|\s*$)")
_NOTHING = {*MISSING, "", "NONE", "UNLIMITED", "INFINITE", "n/a"}
_DEVELOPMENT = re.compile(r"(?:^|[-_.])(?:debug|devel|dev|test|testing|interactive|express)(?:$|[-_.\d])")
_QUALITY_FIELDS = "Name,MaxWall,MaxTRES,MaxTRESPU,MaxJobsPU,MaxSubmitPU,MinTRES,Preempt"
_ASSOCIATION_FIELDS = "Account,Partition,MaxJobs,MaxSubmit,MaxWall,MaxTRES,DefaultQOS"

log = logging.getLogger(__name__)


def discover(name: str | None = None, *, commands: SlurmCommands | None = None) -> System:
    """Return the Slurm cluster that this machine belongs to, as it is now, under `name` or its own name.

    Limits are those of the partitions, of their QOS, and of the asking user where there is accounting. Raises
    ConnectorError.
    """
    commands = commands or SlurmCommands()
    nodes = commands.run("scontrol", "show", "node", "--oneliner")
    partitions = commands.run("scontrol", "show", "partition", "--oneliner", "--all")
    config = parse_config(commands.run("scontrol", "show", "config"))
    qualities, associations = "", ""
    # Limits that are written down but not enforced hold nobody back.
    if re.search(r"\b(limits|safe)\b", config.get("AccountingStorageEnforce", "")):
        qualities = _accounting(commands, "show", "qos", f"format={_QUALITY_FIELDS}")
        user = f"user={_user()}"
        associations = _accounting(commands, "show", "assoc", user, f"format={_ASSOCIATION_FIELDS}")
    return make_system(name, nodes, partitions, config, qualities, associations)


def make_system(
    name: str | None,
    nodes: str,
    partitions: str,
    config: Mapping[str, str],
    qualities: str = "",
    associations: str = "",
) -> System:
    """Return the system of what `scontrol show node|partition --oneliner` and `sacctmgr --parsable2` print."""
    found = [node for line in nodes.splitlines() if (node := _node(parse_line(line)))]
    node_types, type_of = group(found)
    told = [entries for line in partitions.splitlines() if "PartitionName" in (entries := parse_line(line))]
    if not found or not told:
        raise InputError(
            "Slurm names no node or no partition that could take jobs",
            remedy="Check `sinfo`: it should list both",
        )
    by_quality = parse_qualities(qualities)
    own = parse_associations(associations)
    usual = by_quality.get(default_quality(associations), Quality())
    made = []
    for entries in told:
        partition = _partition(entries, type_of)
        quality = by_quality.get(entries.get("QoS", ""), Quality())
        chosen = preferred(quality.limits, usual.limits)
        for limits in (chosen, own.get("", Limits()), own.get(partition.name, Limits())):
            partition = replace(partition, limits=restricted(partition.limits, limits))
        made.append(replace(partition, preemptible=_is_preemptible(entries, told, config, by_quality)))
    return System(
        name=name or config.get("ClusterName") or "slurm",
        scheduler=Scheduler.SLURM,
        node_types=node_types,
        partitions=tuple(made),
        policies={**_policies(config), **_default_partition(told)},
    )


def parse_line(line: str) -> dict[str, str]:
    """Return the entries of a line of `Key=Value` where values may have blanks; of two alike the first counts."""
    entries: dict[str, str] = {}
    for match in _ENTRY.finditer(line):
        entries.setdefault(match[1], match[2].strip())
    return entries


def parse_config(text: str) -> dict[str, str]:
    """Return the settings that `scontrol show config` prints."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def _accounting(commands: SlurmCommands, *arguments: str) -> str:
    try:
        return commands.run("sacctmgr", "--parsable2", "--readonly", *arguments)
    except ConnectorError as error:
        log.warning("Left out the limits that the accounting has: %s", error)
        return ""


def _node(entries: Mapping[str, str]) -> Node | None:
    name = entries.get("NodeName", "")
    cores = _whole(entries.get("CPUEfctv")) or _whole(entries.get("CPUTot"))
    memory_mib = (_whole(entries.get("RealMemory")) or 0) - (_whole(entries.get("MemSpecLimit")) or 0)
    if not name or not cores or memory_mib < 1 or "FUTURE" in entries.get("State", ""):
        return None
    gpus, gpu = parse_gres(entries.get("Gres", "")) or (0.0, None)
    hardware = Hardware(
        cores=cores,
        memory_bytes=memory_mib * MIB,
        sockets=(_whole(entries.get("Sockets")) or 1) * (_whole(entries.get("Boards")) or 1),
        gpus=int(gpus),
        gpu=gpu_name(gpu) if gpus else "",
        local_disk_bytes=(_whole(entries.get("TmpDisk")) or 0) * MIB,
    )
    features = entries.get("AvailableFeatures", "")
    return Node(name, hardware, () if features in _NOTHING else tuple(features.split(",")))


def _partition(entries: Mapping[str, str], type_of: Mapping[str, str]) -> Partition:
    name = entries["PartitionName"]
    members = expand_nodes(entries.get("Nodes", "")) or []
    nodes = sum(node in type_of for node in members)
    memory_mib = _whole(entries.get("MaxMemPerNode"))
    limits = Limits(
        min_nodes=max(_whole(entries.get("MinNodes")) or 1, 1),
        max_nodes=min(_whole(entries.get("MaxNodes")) or nodes, nodes) or None,
        max_memory_bytes=memory_mib * MIB if memory_mib else None,
        max_walltime_s=duration_s(entries.get("MaxTime")),
        default_walltime_s=duration_s(entries.get("DefaultTime")),
    )
    return Partition(
        name=name,
        node_types=tuple(dict.fromkeys(type_of[node] for node in members if node in type_of)),
        limits=limits,
        exclusive=entries.get("OverSubscribe", "").startswith("EXCLUSIVE"),
        development=bool(_DEVELOPMENT.search(name.lower())),
        enabled=entries.get("State", "UP") == "UP" and entries.get("RootOnly") != "YES" and nodes > 0,
    )


def _is_preemptible(
    entries: Mapping[str, str],
    partitions: Sequence[Mapping[str, str]],
    config: Mapping[str, str],
    qualities: Mapping[str, Quality],
) -> bool:
    """Return whether jobs of a partition may be ended for others: its turn comes later, or its QOS gives way."""
    kind = config.get("PreemptType", "")
    if entries.get("PreemptMode", "OFF").startswith("OFF"):
        return False
    if kind == "preempt/qos":
        return any(entries.get("QoS") in quality.preempts for quality in qualities.values())
    if kind != "preempt/partition_prio":
        return False
    nodes = set(expand_nodes(entries.get("Nodes", "")) or [])
    tier = _whole(entries.get("PriorityTier")) or 0
    return any(
        (_whole(other.get("PriorityTier")) or 0) > tier and nodes & set(expand_nodes(other.get("Nodes", "")) or [])
        for other in partitions
    )


def _policies(config: Mapping[str, str]) -> dict[str, str]:
    topics = {
        "version": "SLURM_VERSION",
        "priority": "PriorityType",
        "backfilling": "SchedulerType",
        "preemption": "PreemptType",
        "accounting": "AccountingStorageType",
    }
    found = {topic: config[key] for topic, key in topics.items() if config.get(key)}
    return {topic: value.rpartition("/")[2] for topic, value in found.items()}


def _default_partition(told: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return where jobs go that name no partition."""
    found = [entries["PartitionName"] for entries in told if entries.get("Default") == "YES"]
    return {"default partition": found[0]} if found else {}


def duration_s(text: str | None) -> float | None:
    """Return a limit of time in seconds; None for no text, no limit, or a text that is none."""
    seconds = None if text is None or text in _NOTHING else parse_duration_s(text)
    return seconds if seconds and math.isfinite(seconds) else None


def _whole(text: str | None) -> int | None:
    match = re.match(r"\d{1,15}", text or "")
    return int(match[0]) if match else None


def _user() -> str:
    """Return who asks, by name or, where there is none, by number."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
