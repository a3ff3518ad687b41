"""What there is to run on: a system, its node types and partitions, their limits and what they charge.

All values are plain and frozen, and None is "no limit" or "not known". A system is a TOML document to its owner
(`presage.clusters.documents`), a row of the catalogue to the database (`presage.clusters.catalogue`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from presage.clusters.charges import NO_CHARGE, ChargeRule
from presage.clusters.gpus import GpuModel, find_gpu
from presage.errors import UnknownNameError

_Thing = TypeVar("_Thing", "NodeType", "Partition")


class Scheduler(StrEnum):
    """Who starts jobs on a system."""

    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    TAPIS = "tapis"
    LOCAL = "local"
    """Processes on the machine that asks."""
    CLOUD = "cloud"
    """Nodes that are hired by the hour and start when they are asked for."""


@dataclass(frozen=True)
class NodeType:
    """A kind of node. Memory is what a job can have of it, not what is built in."""

    name: str
    cores: int
    memory_bytes: int
    count: int | None = None
    sockets: int = 1
    cpu_model: str = ""
    core_gflops: float | None = None
    """Peak of one core in fp32, for estimates of run time."""
    memory_bandwidth_bytes_s: float | None = None
    gpus: int = 0
    gpu: str = ""
    """Name of its GPU model: one of the system's own, or one that `presage.clusters.gpus` knows."""
    local_disk_bytes: int | None = None
    features: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limits:
    """What one job, or one user, may have."""

    min_nodes: int = 1
    max_nodes: int | None = None
    min_cores: int | None = None
    max_cores: int | None = None
    max_gpus: int | None = None
    max_memory_bytes: int | None = None
    """Of one node."""
    min_walltime_s: float | None = None
    max_walltime_s: float | None = None
    default_walltime_s: float | None = None
    user_running_jobs: int | None = None
    user_submitted_jobs: int | None = None
    user_nodes: int | None = None
    user_cores: int | None = None
    user_gpus: int | None = None


@dataclass(frozen=True)
class Partition:
    """A queue: some nodes, and rules for getting them."""

    name: str
    node_types: tuple[str, ...]
    limits: Limits = Limits()
    charge: ChargeRule | None = None
    """None: the system's."""
    exclusive: bool = False
    """Jobs get whole nodes."""
    preemptible: bool = False
    development: bool = False
    """Made for short tests: idle at night, small limits."""
    enabled: bool = True


@dataclass(frozen=True)
class Staging:
    """What it takes to begin somewhere else than where the data are."""

    bandwidth_bytes_s: float | None = None
    """None: the data are there already."""
    startup_s: float = 0.0
    """From the start of a node to the start of the job on it."""
    price_per_gib: float = 0.0


@dataclass(frozen=True)
class System:
    """One cluster, cloud offer or machine."""

    name: str
    scheduler: Scheduler
    node_types: tuple[NodeType, ...]
    partitions: tuple[Partition, ...]
    charge: ChargeRule = NO_CHARGE
    description: str = ""
    gpu_models: tuple[GpuModel, ...] = ()
    staging: Staging = Staging()
    time_zone: str | None = None
    policies: dict[str, str] = field(default_factory=dict)
    """What else a person should know, by topic."""
    connection: dict[str, str] = field(default_factory=dict)
    """How the connector finds it; never a secret."""

    def partition(self, name: str) -> Partition:
        """Return the partition of that name. Raises UnknownNameError with the closest match."""
        return _named(f"partition of {self.name}", name, self.partitions)

    def node_type(self, name: str) -> NodeType:
        """Return the node type of that name. Raises UnknownNameError with the closest match."""
        return _named(f"node type of {self.name}", name, self.node_types)

    def gpu_model(self, node_type: NodeType) -> GpuModel | None:
        """Return the GPU of a node type, None if it has none. Raises UnknownNameError for an unknown model."""
        if not node_type.gpus:
            return None
        return find_gpu(node_type.gpu, self.gpu_models)

    def charge_of(self, partition: Partition) -> ChargeRule:
        """Return the rule by which a job in a partition is charged."""
        return partition.charge if partition.charge is not None else self.charge

    def only(self, partitions: tuple[str, ...]) -> System:
        """Return the system with these partitions alone. Raises UnknownNameError."""
        return replace(self, partitions=tuple(self.partition(name) for name in partitions))


def _named(kind: str, name: str, things: tuple[_Thing, ...]) -> _Thing:
    for thing in things:
        if thing.name == name:
            return thing
    raise UnknownNameError(kind, name, [thing.name for thing in things])
