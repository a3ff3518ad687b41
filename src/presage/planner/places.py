"""Where a job could go: so much of one kind of node in one partition of one system. Patterns name such places."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from presage.errors import UnknownNameError
from presage.estimators.workloads import Target
from presage.wording import counted

if TYPE_CHECKING:
    from presage.clusters.charges import ChargeRule, Share
    from presage.clusters.gpus import GpuModel
    from presage.clusters.systems import NodeType, Partition, System


@dataclass(frozen=True)
class Placement:
    """A share of nodes of a partition."""

    system: System
    partition: Partition
    node_type: NodeType
    share: Share
    spot: bool = False
    """On nodes that may be taken away, at their price."""

    @property
    def name(self) -> str:
        """`system/partition`, as people name it."""
        return f"{self.system.name}/{self.partition.name}"

    @property
    def charge(self) -> ChargeRule:
        """The rule by which it is paid."""
        return self.system.charge_of(self.partition)

    @property
    def gpu(self) -> GpuModel | None:
        """Its GPU model; None if it has none, or one that nobody knows."""
        try:
            return self.system.gpu_model(self.node_type)
        except UnknownNameError:
            return None

    @property
    def devices(self) -> int:
        """Over how many GPUs, or nodes where it has none, a training would be spread."""
        return self.share.nodes * max(1, self.share.gpus)

    @property
    def size(self) -> str:
        """How much of the nodes, in words: `2 nodes × 28 cores, 1 GPU`."""
        each = counted(self.share.cores, "core") + (
            f", {counted(self.share.gpus, 'GPU')}" if self.share.gpus else ""
        )
        return (f"{self.share.nodes:,} nodes × " if self.share.nodes > 1 else "") + each

    def target(self, walltime_s: float | None = None) -> Target:
        """Return what estimators are asked about; `walltime_s` is the limit that the job would ask for."""
        return Target(
            self.system.name, self.partition.name, self.node_type, self.share,
            gpu=self.gpu if self.share.gpus else None, walltime_s=walltime_s,
            charge=self.charge, spot=self.spot,
        )  # fmt: skip


def matches(pattern: str, system: str, partition: str, node_type: str | None = None) -> bool:
    """Return whether a pattern names the place, with the wildcards of a shell.

    `pitzer`, `pitzer/gpu*` and `pitzer/gpu/v100-node` are patterns; where a node type is given, `pitzer/v100-node`
    is one, too.
    """
    names = [system, f"{system}/{partition}"]
    if node_type is not None:
        names += [f"{system}/{node_type}", f"{system}/{partition}/{node_type}"]
    return any(fnmatchcase(name, pattern) for name in names)
