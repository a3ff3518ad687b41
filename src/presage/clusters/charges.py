"""What a job costs: rules of charging, and the sum they make."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from presage.clusters.systems import NodeType

HOUR_S = 3600.0


class WholeNodes(StrEnum):
    """When a job pays for all of its nodes, used or not."""

    NEVER = "never"
    MULTI_NODE = "multi-node"
    ALWAYS = "always"


@dataclass(frozen=True)
class ChargeRule:
    """Prices in one currency, which may be service units. All parts are added up."""

    currency: str = "USD"
    core_hour: float = 0.0
    gpu_hour: float = 0.0
    node_hour: float = 0.0
    spot_node_hour: float | None = None
    """Price of a node that may be taken away; None: there are none."""
    memory_per_core_bytes: int | None = None
    """Memory that comes with a core; a job that asks for more pays for as many cores as would have it."""
    whole_nodes: WholeNodes = WholeNodes.NEVER
    minimum_s: float = 0.0
    """The shortest time that is charged."""


NO_CHARGE = ChargeRule()


@dataclass(frozen=True)
class Share:
    """What a job holds on each of its nodes."""

    nodes: int
    cores: int
    """Of one node."""
    gpus: int = 0
    memory_bytes: int | None = None
    """Of one node; None: no more than comes with the cores."""


def charged_cores(rule: ChargeRule, share: Share, node_type: NodeType) -> float:
    """Return the cores of one node that a job pays for: those it holds, or those that its memory stands for."""
    if _pays_whole_nodes(rule, share):
        return float(node_type.cores)
    cores = float(share.cores)
    if rule.memory_per_core_bytes and share.memory_bytes:
        cores = max(cores, share.memory_bytes / rule.memory_per_core_bytes)
    return min(cores, float(node_type.cores))


def cost_of(rule: ChargeRule, share: Share, node_type: NodeType, run_s: float, *, spot: bool = False) -> float:
    """Return what a run costs in the rule's currency; with `spot`, on nodes that may be taken away."""
    hours = max(run_s, rule.minimum_s) / HOUR_S
    gpus = node_type.gpus if _pays_whole_nodes(rule, share) else share.gpus
    node_hour = rule.spot_node_hour if spot and rule.spot_node_hour is not None else rule.node_hour
    per_node_hour = charged_cores(rule, share, node_type) * rule.core_hour + gpus * rule.gpu_hour + node_hour
    return hours * share.nodes * per_node_hour


def _pays_whole_nodes(rule: ChargeRule, share: Share) -> bool:
    return rule.whole_nodes is WholeNodes.ALWAYS or (rule.whole_nodes is WholeNodes.MULTI_NODE and share.nodes > 1)
