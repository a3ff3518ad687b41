"""From many nodes to few node types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from presage.clusters.systems import NodeType

if TYPE_CHECKING:
    from collections.abc import Sequence

_GIB = 2**30


@dataclass(frozen=True, order=True)
class Hardware:
    """What makes two nodes equal to a job."""

    kind: str = ""
    """What its owner calls this kind of node; empty where nothing does."""
    cores: int = 0
    memory_bytes: int = 0
    sockets: int = 1
    gpus: int = 0
    gpu: str = ""
    local_disk_bytes: int = 0

    @property
    def name(self) -> str:
        """The owner's name, or one that says what there is: `48c-178g-2xv100`."""
        gpus = f"-{self.gpus}x{self.gpu or 'gpu'}" if self.gpus else ""
        return self.kind or f"{self.cores}c-{self.memory_bytes // _GIB}g{gpus}"


@dataclass(frozen=True)
class Node:
    """One node and the words that its owner has put on it."""

    name: str
    hardware: Hardware
    features: tuple[str, ...] = ()


def group(nodes: Sequence[Node]) -> tuple[tuple[NodeType, ...], dict[str, str]]:
    """Return the node types of `nodes`, and by a node's name that of its type.

    Names depend on the hardware alone, so that they are the same tomorrow. A type has the features that all of
    its nodes have.
    """
    by_hardware: dict[Hardware, list[Node]] = {}
    for node in nodes:
        by_hardware.setdefault(node.hardware, []).append(node)
    types: list[NodeType] = []
    type_of: dict[str, str] = {}
    taken: set[str] = set()
    for hardware in sorted(by_hardware):
        members = by_hardware[hardware]
        name = _free_name(hardware.name, taken)
        types.append(_node_type(name, hardware, members))
        type_of |= {node.name: name for node in members}
    return tuple(types), type_of


def _free_name(name: str, taken: set[str]) -> str:
    free, nth = name, 2
    while free in taken:
        free, nth = f"{name}-{nth}", nth + 1
    taken.add(free)
    return free


def _node_type(name: str, hardware: Hardware, members: Sequence[Node]) -> NodeType:
    common = set(members[0].features).intersection(*(node.features for node in members))
    return NodeType(
        name=name,
        cores=hardware.cores,
        memory_bytes=hardware.memory_bytes,
        count=len(members),
        sockets=hardware.sockets,
        gpus=hardware.gpus,
        gpu=hardware.gpu,
        local_disk_bytes=hardware.local_disk_bytes or None,
        features=tuple(feature for feature in members[0].features if feature in common),
    )
