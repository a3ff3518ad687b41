"""Nodes: what they offer to pods, and what their labels say about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from presage.traces.readers.kubernetes.pods import required_name
from presage.traces.readers.kubernetes.quantities import amounts, gpu_type_of, quantities

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from presage.traces.readers.kubernetes.objects import Located

_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_RACK_LABELS = ("topology.kubernetes.io/rack", "topology.rack", "rack")
_POOL_LABELS = (
    "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool", "node.cluster.x-k8s.io/pool",
)  # fmt: skip
_GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"
_MIB = 2**20
_UNTELLING = ("kubernetes.io/hostname", "beta.kubernetes.io/", "feature.node.kubernetes.io/")
"""Labels that name one node only, repeat another, or list the processor's instructions."""


def read_node(found: Located) -> dict[str, Any]:
    """Return a row of the nodes table. What a node has is what it offers to pods. Raises FieldError.

    `features` are its labels as `name=value`, the form in which jobs' constraints are written; zone and region
    are among them.
    """
    metadata, status = found.metadata, found.fields.child("status")
    labels = metadata.tags("labels")
    offered = amounts(quantities(status.child("allocatable") or status.child("capacity")))
    pool = _first(labels, _POOL_LABELS)
    return {
        "node_id": required_name(metadata),
        "node_type": _first(labels, _TYPE_LABELS),
        "cpus": offered.cpus,
        "mem_bytes": offered.mem_bytes,
        "gpus": offered.gpus,
        "gpu_type": gpu_type_of(labels) if offered.gpus else None,
        "gpu_mem_bytes": _gpu_memory(labels),
        "rack": _first(labels, _RACK_LABELS),
        "partitions": [pool] if pool else None,
        "features": [f"{name}={labels[name]}" for name in sorted(labels) if not name.startswith(_UNTELLING)]
        or None,
        "from_ms": metadata.time_ms("creationTimestamp"),
    }


def _gpu_memory(labels: Mapping[str, str]) -> int | None:
    mib = labels.get(_GPU_MEMORY_LABEL, "")
    return int(mib) * _MIB if mib.isdecimal() and len(mib) < 10 else None


def _first(labels: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((labels[name] for name in names if labels.get(name)), None)
