"""A system from what Tapis has written down about it.

Tapis knows queues and their limits. It does not know nodes: a node type is the most that a queue gives of one
node, its count and its GPUs are not known.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from presage.clusters.systems import Limits, Partition, Scheduler, System
from presage.connectors._node_types import Hardware, Node, group
from presage.connectors.tapis.requests import MIB, MINUTE_S
from presage.errors import ClusterRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from presage.connectors.tapis.client import TapisClient

_NO_LIMIT = 2**31 - 1
log = logging.getLogger(__name__)


def discover(client: TapisClient, system: str, name: str | None = None) -> System:
    """Return a system of Tapis's under `name` or its own id. Raises ConnectorError."""
    answer = client.ask("GET", "systems", system, query={"select": "allAttributes"})
    return make_system(answer.result, client.base_url, name)


def make_system(document: object, base_url: str, name: str | None = None) -> System:
    """Return the system that a document of Tapis describes. Raises ClusterRefusedError if it has no queue."""
    told = document if isinstance(document, dict) else {}
    listed = told.get("batchLogicalQueues")
    entries = listed if isinstance(listed, list) else []
    queues = [queue for queue in entries if isinstance(queue, dict) and queue.get("name")]
    if not told.get("canExec") or not queues:
        raise ClusterRefusedError(
            f"The system {str(told.get('id'))[:80]!r} has no queue for jobs in Tapis",
            expected="a system that runs jobs and has logical queues",
        )
    node_types, type_of = group([node for queue in queues if (node := _node(queue))])
    is_enabled = told.get("enabled") is not False
    policies = {"scheduler": str(told.get("batchScheduler") or "").lower()}
    if default := told.get("batchDefaultLogicalQueue"):
        policies["default partition"] = str(default)
    return System(
        name=name or str(told.get("id")),
        scheduler=Scheduler.TAPIS,
        node_types=tuple(replace(node_type, count=None) for node_type in node_types),
        partitions=tuple(_partition(queue, type_of.get(str(queue["name"])), is_enabled) for queue in queues),
        description=str(told.get("description") or ""),
        policies={topic: text for topic, text in policies.items() if text},
        connection={"base_url": base_url, "system": str(told.get("id"))},
    )


def _node(queue: Mapping[str, Any]) -> Node | None:
    """Return the largest node that a queue can be taken to have, None if it does not say."""
    cores, memory_mib = _limit(queue, "maxCoresPerNode"), _limit(queue, "maxMemoryMB")
    if cores is None or memory_mib is None:
        log.warning(
            "The queue %s does not say how much of a node a job may have; it is left disabled", queue["name"]
        )
        return None
    return Node(str(queue["name"]), Hardware(cores=cores, memory_bytes=memory_mib * MIB))


def _partition(queue: Mapping[str, Any], node_type: str | None, is_enabled: bool) -> Partition:
    memory_mib = _limit(queue, "maxMemoryMB")
    limits = Limits(
        min_nodes=_limit(queue, "minNodeCount") or 1,
        max_nodes=_limit(queue, "maxNodeCount"),
        max_memory_bytes=memory_mib * MIB if memory_mib else None,
        min_walltime_s=_seconds(queue, "minMinutes"),
        max_walltime_s=_seconds(queue, "maxMinutes"),
        user_submitted_jobs=_limit(queue, "maxJobsPerUser"),
    )
    return Partition(
        name=str(queue["name"]),
        node_types=() if node_type is None else (node_type,),
        limits=limits,
        enabled=is_enabled and node_type is not None,
    )


def _seconds(queue: Mapping[str, Any], attribute: str) -> float | None:
    minutes = _limit(queue, attribute)
    return None if minutes is None else float(minutes * MINUTE_S)


def _limit(queue: Mapping[str, Any], attribute: str) -> int | None:
    number = queue.get(attribute)
    is_limit = isinstance(number, int) and not isinstance(number, bool) and 0 < number < _NO_LIMIT
    return int(number) if is_limit and number is not None else None
