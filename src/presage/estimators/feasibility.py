"""Whether a partition would take a job: every "no" with its reason, in words and in amounts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from presage.errors import UnknownNameError
from presage.units import format_bytes, spell_seconds
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from presage.clusters.charges import Share
    from presage.clusters.systems import Limits, NodeType, Partition, System


@dataclass(frozen=True)
class Reason:
    """Why something cannot be."""

    code: str
    """For machines: `gpu-memory`, `walltime`, `nodes`…"""
    words: str
    """For people, with both amounts."""
    needed: float | None = None
    available: float | None = None
    cascade_cures: bool = False
    """Whether several jobs, each from the checkpoint of the one before, could do it."""

    def as_dict(self) -> dict[str, Any]:
        """Return the reason as it is told to machines."""
        return asdict(self)


@dataclass(frozen=True)
class Need:
    """What a job would take of one partition; None is "not known", which hinders nothing."""

    share: Share
    memory_bytes: float | None = None
    """At the peak: of one GPU if it has any, else of one node."""
    walltime_s: float | None = None
    jobs: int | None = None
    """In how many cascaded jobs it could be done, where somebody worked that out."""


def reasons_against(system: System, partition: Partition, node_type: NodeType, need: Need) -> tuple[Reason, ...]:
    """Return every reason why the partition would not take the job on these nodes; none if it would."""
    return (
        *_closed(partition),
        *_sizes(system, partition, node_type, need.share),
        *_memory(system, partition, node_type, need),
        *_time(partition.limits, need),
    )


def _closed(partition: Partition) -> Iterator[Reason]:
    if not partition.enabled:
        yield Reason("disabled", f"the partition {partition.name} is disabled")
    for allowed, doing in (
        (partition.limits.user_submitted_jobs, "submit"),
        (partition.limits.user_running_jobs, "run"),
    ):
        if allowed is not None and allowed < 1:
            yield Reason("user-jobs", f"a user may {doing} no job in the partition {partition.name}", 1, allowed)


def _sizes(system: System, partition: Partition, node_type: NodeType, share: Share) -> Iterator[Reason]:
    limits = partition.limits
    cores, gpus = share.nodes * share.cores, share.nodes * share.gpus
    yield from _above("nodes", share.nodes, limits.max_nodes, "node", "of the partition")
    yield from _above("nodes", share.nodes, node_type.count, "node", f"of the kind {node_type.name}")
    yield from _above("user-nodes", share.nodes, limits.user_nodes, "node", "that a user may have")
    yield from _below("min-nodes", share.nodes, limits.min_nodes, "node")
    yield from _above("cores", share.cores, node_type.cores, "core", f"of a node {node_type.name}")
    yield from _above("cores", cores, limits.max_cores, "core", "of the partition")
    yield from _above("user-cores", cores, limits.user_cores, "core", "that a user may have")
    yield from _below("min-cores", cores, limits.min_cores, "core")
    if share.gpus and not node_type.gpus:
        has_some = any(system.node_type(name).gpus for name in partition.node_types)
        where = f"the node type {node_type.name}" if has_some else "the partition"
        yield Reason("no-gpus", f"{where} has no GPUs", share.gpus, 0)
        return
    yield from _above("gpus", share.gpus, node_type.gpus, "GPU", f"of a node {node_type.name}")
    yield from _above("gpus", gpus, limits.max_gpus, "GPU", "that the partition gives")
    yield from _above("user-gpus", gpus, limits.user_gpus, "GPU", "that a user may have")


def _memory(system: System, partition: Partition, node_type: NodeType, need: Need) -> Iterator[Reason]:
    of_node = [need.share.memory_bytes]
    if not need.share.gpus:
        of_node.append(None if need.memory_bytes is None else round(need.memory_bytes))
    elif need.memory_bytes is not None and node_type.gpus:
        yield from _gpu_memory(system, node_type, need.memory_bytes)
    most = max((amount for amount in of_node if amount is not None), default=None)
    if most is None:
        return
    if most > node_type.memory_bytes:
        yield _too_much_memory("memory", most, node_type.memory_bytes, f"of a node {node_type.name}")
    allowed = partition.limits.max_memory_bytes
    if allowed is not None and most > allowed:
        yield _too_much_memory("memory", most, allowed, "of one node that the partition gives")


def _gpu_memory(system: System, node_type: NodeType, needed: float) -> Iterator[Reason]:
    try:
        gpu = system.gpu_model(node_type)
    except UnknownNameError:
        words = f"nobody knows how much memory the GPU {node_type.gpu or '(no name)'} of {node_type.name} has"
        yield Reason("unknown-gpu", words, needed)
        return
    if gpu is not None and needed > gpu.memory_bytes:
        yield _too_much_memory("gpu-memory", needed, gpu.memory_bytes, f"of the GPU {gpu.name}")


def _too_much_memory(code: str, needed: float, available: float, whose: str) -> Reason:
    return Reason(code, f"memory {format_bytes(needed)} > {format_bytes(available)} {whose}", needed, available)


def _time(limits: Limits, need: Need) -> Iterator[Reason]:
    time_s, most, least = need.walltime_s, limits.max_walltime_s, limits.min_walltime_s
    if time_s is None:
        return
    if most is not None and time_s > most:
        words = f"{spell_seconds(time_s)} > the {spell_seconds(most)} limit"
        words += f": would need {need.jobs} cascaded jobs" if need.jobs else ""
        yield Reason("walltime", words, time_s, most, cascade_cures=need.jobs is not None)
    if least is not None and time_s < least:
        words = f"{spell_seconds(time_s)} < the {spell_seconds(least)} that a job must ask for"
        yield Reason("min-walltime", words, time_s, least)


def _above(code: str, needed: int, available: int | None, noun: str, whose: str) -> Iterator[Reason]:
    if available is not None and needed > available:
        yield Reason(code, f"{counted(needed, noun)} > {available:,} {whose}", needed, available)


def _below(code: str, needed: int, least: int | None, noun: str) -> Iterator[Reason]:
    if least is not None and needed < least:
        words = f"{counted(needed, noun)} < {least:,} that the partition asks for at least"
        yield Reason(code, words, needed, least)
