"""A system from the nodes of a Kubernetes cluster."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage.clusters.systems import Partition, Scheduler, System
from presage.connectors._gpus import gpu_name
from presage.connectors._node_types import Hardware, Node, group
from presage.connectors._programs import run_program
from presage.errors import InputError, UnreadableSourceError
from presage.traces.readers.kubernetes.objects import FieldError, Fields
from presage.traces.readers.kubernetes.quantities import amounts, gpu_type_of, quantities, quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_NAME = "kubernetes"
DEFAULT_PARTITION = "default"
TIMEOUT_S = 60.0
_UNREACHABLE = ("Unable to connect", "was refused", "no such host", "i/o timeout", "TLS handshake", "deadline")
_KIND_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_POOL_LABELS = (
    "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool", "agentpool",
    "karpenter.sh/nodepool", "node.cluster.x-k8s.io/pool", "doks.digitalocean.com/node-pool", "node-pool", "pool",
)  # fmt: skip
_GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"
_SPOT_LABELS = {
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-preemptible": "true",
    "eks.amazonaws.com/capacityType": "SPOT",
    "karpenter.sh/capacity-type": "spot",
    "kubernetes.azure.com/scalesetpriority": "spot",
}
_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_UNMADE_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that Kubernetes itself sets and takes away: not ready, under pressure, unschedulable."""


def discover(document: str | Path | None = None, name: str | None = None) -> System:
    """Return the system that `kubectl get nodes -o json` describes: a file of it, or kubectl asked now.

    Nodes of one instance type with the same allocatable resources are one node type. The partitions are the node
    pools where nodes are labelled with one, else there is one called `default`. Nodes of the control plane that
    take no jobs are left out. Raises InputError for a document that is none, ConnectorError where kubectl fails.
    """
    text, source = (_asked(), "kubectl get nodes") if document is None else (_read(Path(document)), str(document))
    return parse_nodes(text, name, source=source)


def parse_nodes(text: str, name: str | None = None, *, source: str = "the document") -> System:
    """Return the system of a JSON text that lists nodes. Raises InputError."""
    try:
        listed = [_described(node) for node in _items(text, source)]
    except FieldError as error:
        raise InputError(f"{source} has a node that cannot be read: {error}") from None
    found = [entry for entry in listed if entry is not None]
    if not found:
        raise InputError(
            f"{source} lists no node that takes jobs",
            expected="what `kubectl get nodes -o json` prints",
        )
    node_types, type_of = group(_with_common_memory([node for node, _ in found]))
    return System(
        name=name or DEFAULT_NAME,
        scheduler=Scheduler.KUBERNETES,
        node_types=node_types,
        partitions=_partitions(found, type_of),
    )


class _Pool:
    """What a node says about the pool it is in."""

    def __init__(self, labels: dict[str, str], taints: Sequence[str], schedulable: bool) -> None:
        self.name = next((labels[label] for label in _POOL_LABELS if labels.get(label)), DEFAULT_PARTITION)
        self.is_spot = any(labels.get(label) == value for label, value in _SPOT_LABELS.items())
        self.taints = tuple(taints)
        self.schedulable = schedulable


def _described(fields: Fields) -> tuple[Node, _Pool] | None:
    metadata, spec = fields.child("metadata"), fields.child("spec")
    labels = metadata.tags("labels")
    taints = [
        f"{taint.text('key')}:{taint.text('effect')}"
        for taint in spec.items("taints")
        if not (taint.text("key") or "").startswith(_UNMADE_TAINTS)
    ]
    if any(taint.startswith(_CONTROL_PLANE) and not taint.endswith("PreferNoSchedule") for taint in taints):
        return None
    offered = fields.child("status", "allocatable") or fields.child("status", "capacity")
    resources = amounts(quantities(offered))
    cores = int(resources.cpus or 0)
    if not cores or not resources.mem_bytes:
        raise FieldError(f"{metadata.text('name')!r} does not say how many CPUs and how much memory it offers")
    memory = labels.get(_GPU_MEMORY_LABEL)
    gpu = gpu_name(gpu_type_of(labels), int(quantity(memory)) * 2**20 if memory else None)
    hardware = Hardware(
        kind=next((labels[label] for label in _KIND_LABELS if labels.get(label)), ""),
        cores=cores,
        memory_bytes=resources.mem_bytes,
        gpus=int(resources.gpus),
        gpu=gpu if resources.gpus >= 1 else "",
    )
    node = Node(metadata.text("name") or "", hardware, tuple(taints))
    return node, _Pool(labels, taints, not spec.raw("unschedulable"))


def _with_common_memory(nodes: Sequence[Node]) -> list[Node]:
    """Return nodes of one instance type with the memory that all of them have: they differ by some KiB."""
    least: dict[Hardware, int] = {}
    for node in nodes:
        kind = replace(node.hardware, memory_bytes=0)
        least[kind] = min(node.hardware.memory_bytes, least.get(kind, node.hardware.memory_bytes))
    return [
        replace(node, hardware=replace(kind, memory_bytes=least[kind])) if kind.kind else node
        for node in nodes
        for kind in [replace(node.hardware, memory_bytes=0)]
    ]


def _partitions(found: Sequence[tuple[Node, _Pool]], type_of: dict[str, str]) -> tuple[Partition, ...]:
    pools: dict[str, list[tuple[Node, _Pool]]] = {}
    for node, pool in found:
        pools.setdefault(pool.name, []).append((node, pool))
    return tuple(
        Partition(
            name=name,
            node_types=tuple(dict.fromkeys(type_of[node.name] for node, _ in members)),
            preemptible=all(pool.is_spot for _, pool in members),
            development=bool(re.search(r"\b(dev|devel|debug|test)\b", name)),
            enabled=any(pool.schedulable for _, pool in members),
        )
        for name, members in sorted(pools.items())
    )


def _items(text: str, source: str) -> list[Fields]:
    try:
        parsed: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableSourceError(f"{source} is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise InputError(f"{source} is not a list of nodes", expected="what `kubectl get nodes -o json` prints")
    members = Fields(parsed).items("items") if "items" in parsed else [Fields(parsed)]
    return [member for member in members if member.raw("kind") in ("Node", None)]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableSourceError(
            f"{path} cannot be read: {error}", remedy="Make it with: kubectl get nodes -o json"
        ) from None


def _asked() -> str:
    command = ["kubectl", "get", "nodes", "--output=json", f"--request-timeout={TIMEOUT_S:g}s"]
    return run_program(
        command,
        environment=os.environ,
        timeout_s=TIMEOUT_S + 5,
        remedy="Install kubectl, or give the document that `kubectl get nodes -o json` prints elsewhere",
        unreachable=_UNREACHABLE,
        elsewhere="Choose a cluster that answers with: kubectl config use-context NAME",
    )[0]
