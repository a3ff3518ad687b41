"""How fast a job goes where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.simulator._structures import NEVER
from presage.simulator.detailed._compiling import lean
from presage.simulator.detailed._state import FULL, Cluster

if TYPE_CHECKING:
    from presage.simulator.detailed._state import Ints


@lean
def rate_of(cluster: Cluster, job: int) -> int:
    """Return the rate of a running job, in millionths."""
    speeds, nodes, racks = cluster.speeds, cluster.member_node, cluster.machine.rack
    one = cluster.jobs[job]
    first = one.first_member
    spread, apart = False, False
    slowest = NEVER
    for member in range(first, first + one.members):
        node = nodes[member]
        speed = speeds.on_node[one.kind, node]
        if cluster.rules.shares:
            others = _most_tenants(cluster.tenants, cluster.machine.first_gpu[node], cluster.member_gpus[member])
            speed = speed * _factor(speeds.beside, cluster.nodes[node].crowd - 1) // FULL
            speed = speed * _factor(speeds.on_gpu, others - 1) // FULL
        slowest = min(slowest, speed)
        spread = spread or node != nodes[first]
        apart = apart or racks[node] != racks[nodes[first]]
    if spread:
        slowest = slowest * speeds.across[one.kind, 1 if apart else 0] // FULL
    if one.members < one.tasks:
        slowest = slowest * one.members // one.tasks
    return max(1, slowest)


@lean
def count_tenants(tenants: Ints, first_gpu: int, gpus: int, sign: int) -> None:
    """Count a member that comes to (1) or goes from (-1) some GPUs of a node."""
    at = first_gpu
    while gpus:
        if gpus & 1:
            tenants[at] += sign
        gpus >>= 1
        at += 1


@lean
def _most_tenants(tenants: Ints, first_gpu: int, gpus: int) -> int:
    most = 0
    at = first_gpu
    while gpus:
        if gpus & 1:
            most = max(most, tenants[at])
        gpus >>= 1
        at += 1
    return most


@lean
def _factor(factors: Ints, others: int) -> int:
    return int(factors[min(max(others, 0), len(factors) - 1)])
