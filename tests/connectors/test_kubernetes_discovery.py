from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presage.clusters.systems import Scheduler
from presage.connectors.kubernetes.discovery import discover, parse_nodes
from presage.errors import (
    ClusterUnreachableError,
    CommandMissingError,
    InputError,
    UnreadableSourceError,
)

GIB = 2**30


def node(name: str, cpu: str, memory: str, *, taints: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Return a node; `labels` and `gpus` may be given."""
    offered = {"cpu": cpu, "memory": memory, "pods": "110", **more.get("gpus", {})}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": more.get("labels", {})},
        "spec": {"taints": [{"key": taint, "effect": "NoSchedule"} for taint in taints], **more.get("spec", {})},
        "status": {"capacity": {"cpu": "999", "memory": "999Gi"}, "allocatable": offered},
    }


KIND = "node.kubernetes.io/instance-type"
POOL = "cloud.google.com/gke-nodepool"
A100 = {KIND: "a2-highgpu-2g", POOL: "train", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}
NODES = {
    "kind": "List",
    "items": [
        node("cp", "4", "16Gi", taints=("node-role.kubernetes.io/control-plane",)),
        node("w1", "7910m", "28Gi", labels={KIND: "n2-standard-8", POOL: "web"}),
        node("w2", "7910m", "28.1Gi", labels={KIND: "n2-standard-8", POOL: "web"}, spec={"unschedulable": True}),
        node("g1", "23", "160Gi", labels=A100, gpus={"nvidia.com/gpu": "2"}, taints=("nvidia.com/gpu",)),
        node("g2", "23", "160Gi", labels=A100, gpus={"nvidia.com/gpu": "2"}, taints=("nvidia.com/gpu",)),
        node(
            "s1", "90", "700Gi",
            labels={POOL: "spot", "cloud.google.com/gke-spot": "true", "amd.com/gpu.product-name": "MI300X"},
            gpus={"amd.com/gpu": 8},
        ),
        node("old", "2", "4Gi", labels={POOL: "retired"}, spec={"unschedulable": True}),
    ],
}  # fmt: skip


def test_nodes_become_node_types_and_pools_partitions(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps(NODES))
    system = discover(path, "cloud")
    assert (system.name, system.scheduler) == ("cloud", Scheduler.KUBERNETES)
    web, train, spot, retired = (system.partition(name) for name in ("web", "train", "spot", "retired"))
    assert len(system.partitions) == 4
    standard = system.node_type(web.node_types[0])
    # Whole processors, and the memory that all of a type have.
    assert (standard.name, standard.cores, standard.memory_bytes, standard.count) == (
        "n2-standard-8",
        7,
        28 * GIB,
        2,
    )
    a100 = system.node_type(train.node_types[0])
    assert (a100.name, a100.gpus, a100.gpu, a100.count) == ("a2-highgpu-2g", 2, "a100-40", 2)
    assert a100.features == ("nvidia.com/gpu:NoSchedule",)
    amd = system.node_type(spot.node_types[0])
    assert (amd.name, amd.gpus, amd.gpu) == ("90c-700g-8xmi300x", 8, "mi300x")
    assert [part.preemptible for part in (web, train, spot)] == [False, False, True]
    assert [part.enabled for part in (web, retired)] == [True, False]


def test_without_pools_there_is_one_partition() -> None:
    labelled = {"nvidia.com/gpu.product": "Tesla-V100", "nvidia.com/gpu.memory": "32768"}
    items = [node("a", "8", "32Gi"), node("b", "16", "64Gi", labels=labelled, gpus={"nvidia.com/gpu": "1"})]
    system = parse_nodes(json.dumps({"items": items}))
    (partition,) = system.partitions
    assert (system.name, partition.name) == ("kubernetes", "default")
    assert partition.node_types == ("8c-32g", "16c-64g-1xv100-32")
    assert parse_nodes(json.dumps(items[0])).node_types[0].cores == 8


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a list of nodes"),
        ('{"items": []}', "no node"),
        ('{"items": [1]}', "cannot be read"),
        ('{"items": [{"kind": "Pod"}]}', "no node"),
        ('{"items": [{"kind": "Node"}]}', "does not say"),
        (json.dumps({"items": [node("a", "eight", "1Gi")]}), "not a quantity"),
        (json.dumps({"items": [node("a", "0", "1Gi")]}), "does not say"),
        (json.dumps({"items": [node("a", "1", "9" * 30)]}), "cannot be read"),
    ],
)
def test_documents_that_are_none_are_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_nodes(text)


NAMES = [
    "items", "kind", "metadata", "labels", "name", "spec", "taints", "key", "status", "allocatable", "cpu",
    "memory",
]  # fmt: skip
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
JSON = st.recursive(
    PLAIN | st.sampled_from(["8", "1Gi", "2m", "Node"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_any_document_is_a_system_or_a_clear_error(document: Any) -> None:
    with contextlib.suppress(InputError):
        assert parse_nodes(json.dumps(document)).partitions


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSourceError, match="missing"):
        discover(tmp_path / "missing.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(UnreadableSourceError, match="binary"):
        discover(tmp_path / "binary")


def test_kubectl_is_asked_where_no_document_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandMissingError, match="kubectl"):
        discover()
    program = tmp_path / "kubectl"
    document = json.dumps({"items": [node("a", "8", "32Gi")]})
    program.write_text(f"#!/bin/sh\necho '{document}'\n")
    program.chmod(0o755)
    assert discover(name="asked").node_types[0].name == "8c-32g"
    program.write_text("#!/bin/sh\necho 'Unable to connect to the server: no such host' >&2; exit 1\n")
    with pytest.raises(ClusterUnreachableError, match="no such host"):
        discover()
