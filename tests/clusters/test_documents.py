from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from presage.clusters import ChargeRule, GpuModel, Limits, Partition, Staging, System, shipped_systems
from presage.clusters.documents import document_of, read_system, recalled_system, system_of, write_system
from presage.errors import InputError
from tests.clusters.systems import GIB, lab, systems

LAB = """
name = "lab"
scheduler = "slurm"

[node_types.cpu]
cores = 64
memory_bytes = "240 GiB"
count = 12
sockets = 2

[node_types.gpu]
cores = 32
memory_bytes = 515396075520
count = 2
gpus = 4
gpu = "a100-80"

[partitions.batch]
node_types = ["cpu"]
limits = { max_nodes = 8, max_walltime_s = "2-00:00:00" }

[partitions.gpu]
node_types = ["gpu"]
limits.max_walltime_s = "24h"
"""


def test_a_document_is_read_with_units_and_with_plain_numbers() -> None:
    assert read_system(LAB) == lab()


def test_what_is_written_is_short_and_carries_units() -> None:
    text = write_system(
        lab(
            charge=ChargeRule(memory_per_core_bytes=4556 * 2**20),
            gpu_models=(GpuModel("x1", 16 * 10**9, 2.4e12),),
            staging=Staging(startup_s=90.0),
        )
    )
    assert 'memory_bytes = "240 GiB"' in text
    assert 'max_walltime_s = "48h"' in text
    assert 'memory_per_core_bytes = "4556 MiB"' in text
    assert 'memory_bytes = "16 GB"' in text
    assert 'bandwidth_bytes_s = "2.4 TB/s"' in text
    assert 'startup_s = "90s"' in text
    assert "description" not in text
    assert "core_hour" not in text


def test_a_free_partition_in_a_system_that_charges_stays_free() -> None:
    partition = Partition("free", ("cpu",), charge=ChargeRule())
    system = lab(charge=ChargeRule(core_hour=1.0), partitions=(partition,))
    assert read_system(write_system(system)).partitions[0].charge == ChargeRule()


@given(systems())
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_every_system_survives_toml_and_json_exactly(system: System) -> None:
    assert read_system(write_system(system)) == system
    assert system_of(json.loads(json.dumps(document_of(system)))) == system


@pytest.mark.parametrize("name", ["laptop", "osc-ascend", "osc-cardinal", "osc-pitzer"])
def test_shipped_systems_are_there_and_survive(name: str) -> None:
    system = shipped_systems()[name]
    assert read_system(write_system(system)) == system
    assert "facts" in system.policies


def test_pitzer_is_as_published() -> None:
    pitzer = shipped_systems()["osc-pitzer"]
    assert pitzer.partition("serial").limits.max_walltime_s == 168 * 3600
    assert pitzer.partition("parallel").limits.max_walltime_s == 96 * 3600
    assert pitzer.partition("debug").development
    assert pitzer.node_type("c48").memory_bytes == pytest.approx(178 * GIB, rel=1e-3)


def test_the_memory_of_a_gpu_is_that_of_the_systems_own_model() -> None:
    cardinal = shipped_systems()["osc-cardinal"]
    gpu = cardinal.gpu_model(cardinal.node_type("quad-h100"))
    assert gpu is not None
    assert gpu.memory_bytes == 94 * 10**9


def test_named_tables_may_come_as_lists() -> None:
    document = document_of(lab())
    document["partitions"] = [{"name": name, **table} for name, table in document["partitions"].items()]
    assert system_of(document) == lab()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cores = 64", "croes = 64", r"lab\.toml: node type 'cpu' has no field 'croes'.*The closest is 'cores'"),
        ("cores = 64", "", r"lab\.toml: node type 'cpu', cores is missing"),
        ("cores = 64", "cores = 6.5", r"node type 'cpu', cores is 6\.5\. Expected a whole number"),
        ("cores = 64", "cores = true", r"node type 'cpu', cores is True\. Expected a whole number"),
        ("cores = 64", "cores = -1", r"node type 'cpu', cores is -1\. Expected a number from 0"),
        ("cores = 64", "cores = 0", r"node type 'cpu', cores is 0\. Expected at least 1"),
        ("cores = 64", "cores = 2026-01-05", r"node type 'cpu', cores is .*Expected a whole number"),
        ("cores = 64", "cores = nan", r"node type 'cpu', cores is nan"),
        ("240 GiB", "240 Gbit", r"node type 'cpu', memory_bytes is '240 Gbit'\. Expected .*GiB"),
        ("24h", "a day", r"partition 'gpu', limits\.max_walltime_s is 'a day'\. Expected"),
        ("max_nodes = 8", "max_node = 8", r"partition 'batch', limits has no field 'max_node'.*'max_nodes'"),
        ("max_nodes = 8", "max_nodes = '8'", r"partition 'batch', limits\.max_nodes is '8'\. Expected a whole"),
        ("max_nodes = 8", "max_nodes = 2, min_nodes = 3", r"min_nodes is 3\. Expected no more than max_nodes"),
        ("'2-00:00:00'", "'1h', default_walltime_s = '2h'", "default_walltime_s is 02:00:00.*01:00:00"),
        ('["cpu"]', '["cpus"]', r"partition 'batch', node_types names 'cpus'.*The closest is 'cpu'"),
        ('["cpu"]', '["cpu", "cpu"]', r"stands there 2 times"),
        ('["cpu"]', '"cpu"', r"partition 'batch', node_types is 'cpu'\. Expected a list"),
        ("gpus = 4", "", r"node type 'gpu' has gpu = 'a100-80' and no gpus"),
        ('gpu = "a100-80"', "", r"node type 'gpu' has gpus = 4 and no gpu"),
        ('"a100-80"', '"a100-8"', r"node type 'gpu', gpu is 'a100-8', a model.*Take 'a100-80', or describe it"),
        ('"slurm"', '"slrum"', r"scheduler is 'slrum'\. Expected 'slurm'"),
        ('name = "lab"', 'name = "my lab"', r"name is 'my lab'"),
        ('name = "lab"', "", r"name is missing"),
        ('name = "lab"', 'name = "lab"\ntime_zone = "Mars"', r"time_zone is 'Mars'"),
        ('name = "lab"', 'name = "lab"\nconnection = {api_token = "x"}', r"connection\.api_token would be"),
        ('name = "lab"', 'name = "lab"\npolicies = {x = 1}', r"policies\.x is 1\. Expected text"),
        ('name = "lab"', 'name = "lab"\ncharge = 3', r"charge is 3\. Expected a table"),
        ('name = "lab"', 'name = "lab"\ncharge = {whole_nodes = "some"}', r"charge\.whole_nodes is 'some'"),
        ('name = "lab"', "name = 'lab", "is not TOML"),
    ],
)  # fmt: skip
def test_every_mistake_is_named_with_its_place(old: str, new: str, message: str) -> None:
    text = LAB.replace('"2-00:00:00"', "'2-00:00:00'")
    assert old in text
    with pytest.raises(InputError, match=message) as caught:
        read_system(text.replace(old, new, 1), "lab.toml")
    assert "lab.toml" in str(caught.value)


def test_names_of_listed_tables_must_differ() -> None:
    document = document_of(lab())
    document["node_types"] = [{"name": "cpu", **document["node_types"]["cpu"]}] * 2
    with pytest.raises(InputError, match="node type 'cpu' stands there 2 times"):
        system_of(document)


@pytest.mark.parametrize(
    "text",
    [
        f"x = {'[' * 50_000}",
        f"x = {'9' * 9000}",
        "\x00",
        "name = 3",
        "node_types = 3",
        "node_types = [3]",
        "partitions = [{name = 3}]",
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        read_system(text)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["name", "partitions", "node_types", "limits", "charge", "cores", "gpu", "policies", "x"]),
        inner, max_size=4),
    max_leaves=12,
))  # fmt: skip
@settings(max_examples=150)
def test_any_document_is_a_system_or_an_input_error(document: object) -> None:
    with contextlib.suppress(InputError):
        assert isinstance(system_of(document), System)


def test_what_a_cluster_says_of_itself_is_taken_and_can_be_edited() -> None:
    found = lab(
        node_types=(replace(lab().node_types[1], gpu="rtx9999"), replace(lab().node_types[0], gpus=1)),
        partitions=(Partition("gpu", ("gpu",), Limits(max_walltime_s=60.0, default_walltime_s=90.0)),),
    )
    assert recalled_system(document_of(found), "the catalogue") == found
    assert read_system(write_system(found), trusted=found) == found
    with pytest.raises(InputError):
        read_system(write_system(found))
