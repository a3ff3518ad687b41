from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from presage.clusters import Limits, NodeType, Partition, shipped_systems
from presage.testing import SlurmCluster, missing_for_slurm
from tests.cli.conftest import Presage

LAB = """
name = "lab"
scheduler = "slurm"

[node_types.cpu]
cores = 64
memory_bytes = "240 GiB"
count = 12

[partitions.batch]
node_types = ["cpu"]
limits = { max_walltime_s = "24h" }
"""


@pytest.fixture
def lab(presage: Presage) -> Presage:
    """A catalogue that has a system called lab."""
    Path("lab.toml").write_text(LAB)
    assert presage("systems", "import", "lab.toml").exit_code == 0
    return presage


def kubernetes_nodes(**memory_of_kinds: str) -> str:
    nodes = [
        {
            "kind": "Node",
            "metadata": {"name": f"{kind}-1", "labels": {"node.kubernetes.io/instance-type": kind, "pool": kind}},
            "status": {"allocatable": {"cpu": "16", "memory": memory, "pods": "110"}},
        }
        for kind, memory in memory_of_kinds.items()
    ]
    return json.dumps({"kind": "List", "items": nodes})


def test_shipped_systems_are_listed_without_a_database(presage: Presage, tmp_path: Path) -> None:
    result = presage("systems", "list")
    assert result.exit_code == 0
    assert "osc-pitzer" in result.out
    assert [system["name"] for system in presage("systems", "list", "--json").document] == [
        "laptop", "osc-ascend", "osc-cardinal", "osc-pitzer",
    ]  # fmt: skip
    assert not (tmp_path / "state").exists()


def test_a_system_is_shown_with_its_partitions_and_node_types(presage: Presage) -> None:
    shown = presage("systems", "show", "osc-pitzer").out
    assert "USD 0.003/core-hour + 0.09/GPU-hour" in shown
    assert "2 x v100-32" in shown
    assert "7-00:00:00" in shown
    document = presage("systems", "show", "osc-pitzer", "--json").document
    assert document["source"] == "shipped"
    assert document["system"]["partitions"]["serial"]["limits"]["max_walltime_s"] == 604_800


def test_unknown_systems_are_answered_with_the_closest(presage: Presage) -> None:
    result = presage("systems", "show", "osc-pizer", "--json")
    assert result.exit_code == 2
    assert "Did you mean 'osc-pitzer'?" in result.document["error"]["remedy"]


def test_a_simple_system_is_added_from_options(presage: Presage) -> None:
    added = presage(
        "systems", "add", "box", "--scheduler", "local", "--cores", "32", "--memory", "120GiB", "--nodes", "2",
        "--gpus", "2", "--gpu", "l4", "--max-walltime", "48h", "--partition", "all",
    )  # fmt: skip
    assert added.out == "box: system added\n"
    system = presage("systems", "export", "box", "--json").document
    assert system["node_types"]["node"]["memory_bytes"] == 120 * 2**30
    assert system["partitions"]["all"]["limits"]["max_walltime_s"] == 172_800
    assert presage("systems", "add", "box", "--cores", "1", "--memory", "1G").exit_code == 2
    assert presage("systems", "add", "other").exit_code == 2
    assert "lots" in presage("systems", "add", "other", "--cores", "1", "--memory", "lots").err


def test_values_are_set_and_the_history_tells(lab: Presage) -> None:
    edited = lab(
        "systems", "edit", "lab", "--set", "partitions.batch.limits.max_walltime_s=48h",
        "--set", "charge.core_hour=0.01", "--note", "new rule", "--json",
    )  # fmt: skip
    changes = ["charge core hour 0 → 0.01", "partition batch: max walltime 1-00:00:00 → 2-00:00:00"]
    assert edited.document == {"systems": [{"name": "lab", "changes": changes}]}
    assert lab("systems", "edit", "lab", "--set", "charge.core_hour=0.01").out == "lab: unchanged\n"
    first, second = lab("systems", "history", "lab", "--json").document
    assert (first["source"], second["source"], second["note"]) == ("imported", "edited", "new rule")
    assert second["changes"] == changes
    assert "new rule" in lab("systems", "history", "lab").out
    then = lab("systems", "show", "lab", "--at", first["valid_from"], "--json").document
    assert then["system"]["charge"]["core_hour"] == 0
    assert lab("systems", "show", "lab", "--at", "2020-01-05").exit_code == 2
    assert lab("systems", "show", "lab", "--at", "yesterday").exit_code == 2


def editor(script: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "my editor"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"'{program}' --wait")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_a_system_is_edited_in_the_editor(lab: Presage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    editor('sed -i "s/cores = 64/cores = 65/" "$2"', monkeypatch, tmp_path)
    assert lab("systems", "edit", "lab").out == "lab: node type cpu: cores 64 → 65\n"
    assert lab("systems", "edit", "lab").out == "lab: unchanged\n"
    assert not list(tmp_path.glob("presage-lab-*"))


def test_a_text_that_is_wrong_is_kept(lab: Presage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    editor('sed -i "s/cores = 64/croes = 65/" "$2"', monkeypatch, tmp_path)
    result = lab("systems", "edit", "lab")
    assert result.exit_code == 3
    (kept,) = tmp_path.glob("presage-lab-*")
    assert str(kept) in result.err
    assert "'cores'" in result.err
    assert "croes = 65" in kept.read_text()
    kept.write_text(kept.read_text().replace("croes", "cores"))
    assert lab("systems", "import", kept).out == "lab: node type cpu: cores 64 → 65\n"


@pytest.mark.parametrize(
    ("script", "code"), [("exit 3", 2), ('sed -i "s/lab/other/" "$2"', 3), ('rm "$2"', 3)]
)  # fmt: skip
def test_an_editor_that_fails_changes_nothing(
    lab: Presage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, code: int
) -> None:
    editor(script, monkeypatch, tmp_path)
    assert lab("systems", "edit", "lab").exit_code == code
    assert len(lab("systems", "history", "lab", "--json").document) == 1


def test_without_an_editor_there_is_a_way(lab: Presage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/nowhere/editor")
    result = lab("systems", "edit", "lab")
    assert result.exit_code == 2
    assert "--set" in result.err


def test_without_a_terminal_no_editor_is_started(lab: Presage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    result = lab("systems", "edit", "lab")
    assert result.exit_code == 2
    assert "no terminal" in result.err
    assert "--set" in result.err


def test_this_machine_is_discovered(presage: Presage) -> None:
    assert presage("systems", "discover", "local", "--name", "here").exit_code == 0
    shown = presage("systems", "show", "here", "--json").document["system"]
    assert shown["scheduler"] == "local"
    assert shown["node_types"]["this-machine"]["cores"] == os.cpu_count()
    assert presage("systems", "refresh", "here").exit_code == 0


def test_what_is_exported_can_be_imported(lab: Presage, monkeypatch: pytest.MonkeyPatch) -> None:
    text = lab("systems", "export", "lab").out
    assert 'memory_bytes = "240 GiB"' in text
    Path("copy.toml").write_text(text.replace("lab", "copy"))
    Path("third.json").write_text(
        json.dumps(lab("systems", "export", "lab", "--json").document | {"name": "third"})
    )
    assert lab("systems", "import", "copy.toml", "third.json").out == "copy: system added\nthird: system added\n"
    assert lab("systems", "export", "copy", "out.toml").out == "copy: out.toml\n"
    assert Path("out.toml").read_text() == Path("copy.toml").read_text()
    written = lab("systems", "export", "--all", "all", "--json").document["written"]
    assert set(written) == {"lab", "copy", "third", "laptop", "osc-ascend", "osc-cardinal", "osc-pitzer"}
    assert Path("all/copy.toml").read_text() == Path("copy.toml").read_text()
    unchanged = lab("systems", "import", *written.values(), "--json").document["systems"]
    assert [system["changes"] for system in unchanged] == [[]] * 7
    assert lab("systems", "export").exit_code == 2
    assert lab("systems", "export", "--all").exit_code == 2
    assert lab("systems", "export", "lab", "missing/lab.toml").exit_code == 2


def test_a_wrong_file_stops_all_of_an_import(lab: Presage) -> None:
    Path("good.toml").write_text(LAB.replace("lab", "good"))
    Path("bad.toml").write_text(LAB.replace("cores", "croes"))
    result = lab("systems", "import", "good.toml", "bad.toml", "--json")
    assert result.exit_code == 3
    assert result.document["error"]["problem"] == "bad.toml: node type 'cpu' has no field 'croes'"
    assert lab("systems", "show", "good").exit_code == 2
    Path("bytes.toml").write_bytes(b"\xff\xfe")
    for name in ("bytes.toml", "missing.toml", "."):
        assert lab("systems", "import", name).exit_code == 3


def test_a_removed_system_can_be_brought_back(lab: Presage) -> None:
    for name in ("lab", "laptop"):
        assert lab("systems", "remove", name).out == f"{name}: removed\n"
        assert lab("systems", "show", name).exit_code == 2
        assert lab("systems", "add", name, "--like", name).out == f"{name}: system added\n"
        assert lab("systems", "show", name).exit_code == 0


def test_a_cluster_is_discovered_and_kept_in_step(presage: Presage) -> None:
    Path("nodes.json").write_text(kubernetes_nodes(small="64Gi", large="256Gi"))
    assert "16" in presage("systems", "discover", "kubernetes", "--from", "nodes.json", "--dry-run").out
    assert presage("systems", "show", "cloud").exit_code == 2
    found = presage("systems", "discover", "kubernetes", "--name", "cloud", "--from", "nodes.json")
    assert found.out == "cloud: system added\n"
    presage("systems", "edit", "cloud", "--set", "charge.node_hour=2", "--set", "node_types.small.cores=15")
    assert presage("systems", "refresh", "cloud", "--from", "nodes.json").out == "cloud: unchanged\n"
    Path("nodes.json").write_text(kubernetes_nodes(small="32Gi", huge="1024Gi"))
    refreshed = presage("systems", "refresh", "cloud", "--from", "nodes.json", "--json").document["systems"]
    assert refreshed[0]["changes"] == [
        "node type large removed", "node type huge added", "node type small: memory 64 GiB → 32 GiB",
        "partition large removed", "partition huge added",
    ]  # fmt: skip
    system = presage("systems", "show", "cloud", "--json").document
    assert system["source"] == "discovered"
    assert system["system"]["charge"]["node_hour"] == 2
    assert system["system"]["node_types"]["small"]["cores"] == 15


def test_a_cluster_may_have_what_nobody_knows(presage: Presage, monkeypatch: pytest.MonkeyPatch) -> None:
    found = replace(
        shipped_systems()["osc-pitzer"],
        name="lab",
        node_types=(NodeType("odd", 16, 2**36, gpus=2, gpu="rtx9999"), NodeType("plain", 16, 2**36, gpus=1)),
        partitions=(Partition("all", ("odd", "plain"), Limits(default_walltime_s=90.0, max_walltime_s=60.0)),),
    )
    monkeypatch.setattr("presage.connectors.slurm.discovery.discover", lambda name: replace(found, name=name))
    assert presage("systems", "discover", "slurm", "--name", "lab").out == "lab: system added\n"
    assert "2 x rtx9999" in presage("systems", "show", "lab").out
    assert presage("systems", "edit", "lab", "--set", "charge.core_hour=1").exit_code == 0
    found = replace(found, partitions=(Partition("all", ("odd",)),))
    assert presage("systems", "refresh").out.startswith("lab: 3 changes\n")
    assert presage("systems", "export", "lab", "--json").document["charge"]["core_hour"] == 1


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_for_slurm(fast=False)), reason=missing_for_slurm(fast=False))
def test_a_live_slurm_is_discovered_and_kept_in_step(presage: Presage, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = [
        "PartitionName=batch Nodes=ALL Default=YES MaxTime=2-00:00:00",
        "PartitionName=debug Nodes=ALL MaxTime=30 MaxNodes=1",
    ]
    with SlurmCluster(nodes=2, cpus=2, partitions=partitions) as cluster:
        for name in ("PATH", "SLURM_CONF"):
            monkeypatch.setenv(name, cluster.environment[name])
        assert presage("systems", "discover", "slurm", "--name", "live").out == "live: system added\n"
        found = presage("systems", "export", "live", "--json").document
        assert found["partitions"]["batch"]["limits"]["max_walltime_s"] == 172_800
        assert found["partitions"]["debug"]["limits"]["max_nodes"] == 1
        limit = "partitions.debug.limits.max_walltime_s=20min"
        presage("systems", "edit", "live", "--set", "charge.core_hour=0.01", "--set", limit)
        for partition, minutes in (("batch", "1440"), ("debug", "10")):
            change = ["scontrol", "update", f"PartitionName={partition}", f"MaxTime={minutes}"]
            subprocess.run(change, check=True, env=cluster.environment)
        refreshed = presage("systems", "refresh")
    assert refreshed.out == "live: partition batch: max walltime 2-00:00:00 → 1-00:00:00\n"
    kept = presage("systems", "export", "live", "--json").document
    assert kept["charge"]["core_hour"] == 0.01
    assert kept["partitions"]["debug"]["limits"]["max_walltime_s"] == 1200


def test_what_cannot_be_asked_is_said(lab: Presage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert lab("systems", "refresh").err.startswith("No system was discovered yet")
    assert lab("systems", "refresh", "lab").exit_code == 2
    assert lab("systems", "discover", "pbs").exit_code == 2
    assert lab("systems", "discover", "slrum").err.endswith("Did you mean 'slurm'?\n")
    assert lab("systems", "discover", "slurm", "--from", "x").exit_code == 2
    assert lab("systems", "discover", "kubernetes", "--from", "missing.json").exit_code == 3
    assert lab("systems", "discover", "slurm").exit_code == 8
    Path("nodes.json").write_text(kubernetes_nodes(small="64Gi"))
    assert lab("systems", "discover", "kubernetes", "--name", "lab", "--from", "nodes.json").exit_code == 2
    lab("systems", "discover", "kubernetes", "--name", "cloud", "--from", "nodes.json")
    failed = lab("systems", "refresh", "--json")
    assert failed.exit_code == 8
    assert list(failed.document["failures"]) == ["cloud"]
    assert "cloud is as it was" in failed.err


def test_the_database_is_where_the_settings_say(presage: Presage, tmp_path: Path) -> None:
    Path("presage.toml").write_text(f'[state]\ndatabase = "sqlite:///{tmp_path}/elsewhere.sqlite"\n')
    presage("systems", "remove", "laptop")
    assert (tmp_path / "elsewhere.sqlite").exists()
    shown: dict[str, Any] = presage("config", "show", "--json").document["settings"]
    assert shown["state"]["database"] == "**********"
