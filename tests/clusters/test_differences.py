from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from presage.clusters import ChargeRule, Limits, NodeType, System
from presage.clusters.differences import differences
from presage.clusters.editing import set_fields
from presage.clusters.merging import merge
from presage.errors import InputError, UsageError
from tests.clusters.systems import GIB, lab, systems


def test_equal_systems_have_none() -> None:
    assert differences(lab(), lab()) == ()


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("partitions.gpu.limits.max_walltime_s=48h", "partition gpu: max walltime 1-00:00:00 → 2-00:00:00"),
        ("partitions.gpu.limits.max_walltime_s=none", "partition gpu: max walltime 1-00:00:00 → none"),
        ("partitions.gpu.limits.max_walltime_s=12:00:00", "partition gpu: max walltime 1-00:00:00 → 12:00:00"),
        ("partitions.gpu.enabled=false", "partition gpu: enabled yes → no"),
        ("partitions.gpu.node_types=['gpu', 'cpu']", "partition gpu: node types gpu → gpu, cpu"),
        ("partitions.gpu.charge.core_hour=2", "partition gpu: charge none → core hour 2"),
        ("node_types.cpu.memory_bytes=120 GiB", "node type cpu: memory 240 GiB → 120 GiB"),
        (
            f"node_types.cpu.memory_bytes={240 * GIB + 1}",
            f"node type cpu: memory {240 * GIB} → {240 * GIB + 1}",
        ),
        ("node_types.cpu.cpu_model=8268", "node type cpu: cpu model '' → '8268'"),
        ("node_types.cpu.features=[\"avx\"]", "node type cpu: features none → avx"),
        ("charge.core_hour=0.004", "charge core hour 0 → 0.004"),
        ("charge.whole_nodes=always", "charge whole nodes 'never' → 'always'"),
        ("staging.bandwidth_bytes_s=1 GiB/s", "staging bandwidth none → 1 GiB/s"),
        ("policies.login=two factors", "policies login none → 'two factors'"),
        ("description=Our own", "description '' → 'Our own'"),
        ("time_zone=Europe/Berlin", "time zone none → 'Europe/Berlin'"),
    ],
)  # fmt: skip
def test_one_value_is_changed_and_told_in_words(assignment: str, words: str) -> None:
    assert differences(lab(), set_fields(lab(), [assignment])) == (words,)


def test_what_came_and_went_is_told() -> None:
    added = replace(
        lab(), node_types=(*lab().node_types, NodeType("big", 8, GIB)), partitions=lab().partitions[:1]
    )
    assert differences(lab(), added) == ("node type big added", "partition gpu removed")
    turned = replace(lab(), partitions=lab().partitions[::-1])
    assert differences(lab(), turned) == ("partitions in another order: gpu, batch",)


@given(systems(), systems())
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_only_equal_systems_have_no_differences(one: System, other: System) -> None:
    assert differences(one, one) == ()
    assert bool(differences(one, other)) == (one != other)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("partitions.gpus.limits.max_nodes=1", "closest is 'gpu'"),
        ("partitions.gpu.limits.max_node=1", "closest is 'max_nodes'"),
        ("partitions.gpu.limits=1", "limits.max_nodes"),
        ("partitions.gpu=1", "There is no 'partitions.gpu'"),
        ("partitions=1", "There is no 'partitions'"),
        ("name=other", "There is no 'name'"),
        ("scheduler.x=1", "There is no 'scheduler.x'"),
        ("=3", "sets nothing"),
        ("charge.core_hour", "sets nothing"),
    ],
)
def test_a_path_that_leads_nowhere_is_answered_with_those_that_lead_somewhere(
    assignment: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        set_fields(lab(), [assignment])


@pytest.mark.parametrize("assignment", ["charge.core_hour=cheap", "node_types.cpu.cores=none", "scheduler=pbs"])
def test_a_value_that_cannot_be_is_refused(assignment: str) -> None:
    with pytest.raises(InputError, match="The edited system 'lab'"):
        set_fields(lab(), [assignment])


PARTS = st.sampled_from(
    ["partitions", "node_types", "gpu_models", "charge", "limits", "policies", "connection", "staging", "batch",
     "cpu", "name", "core_hour", "max_walltime_s", "features", "gpu", "x", ""]
)  # fmt: skip


@given(st.lists(PARTS, max_size=5).map(".".join) | st.text(max_size=9), st.text(max_size=9))
@settings(max_examples=200)
def test_any_assignment_is_done_or_refused(path: str, value: str) -> None:
    with contextlib.suppress(UsageError, InputError):
        assert set_fields(lab(), [f"{path}={value}"]).name == "lab"


def test_names_with_dots_are_found() -> None:
    partition = replace(lab().partitions[0], name="batch.long")
    system = lab(partitions=(*lab().partitions, partition))
    changed = set_fields(system, ["partitions.batch.long.limits.max_nodes=3"])
    assert changed.partition("batch.long").limits.max_nodes == 3
    assert changed.partition("batch").limits.max_nodes == 8


def test_a_refresh_follows_the_cluster_and_leaves_what_people_changed() -> None:
    found_first = lab()
    limit = "partitions.gpu.limits.max_walltime_s"
    mine = set_fields(found_first, ["charge.core_hour=0.01", "policies.login=two factors", f"{limit}=12h"])
    others = ["partitions.batch.limits.max_nodes=6", "node_types.cpu.count=11"]
    now = set_fields(found_first, [f"{limit}=48h", *others])
    merged = merge(found_first, mine, now)
    assert merged.charge == ChargeRule(core_hour=0.01)
    assert merged.policies == {"login": "two factors"}
    assert merged.partition("gpu").limits == Limits(max_walltime_s=12 * 3600.0)
    assert merged.partition("batch").limits.max_nodes == 6
    assert merged.node_type("cpu").count == 11
    assert merge(now, merged, now) == merged


def test_a_refresh_takes_what_came_and_drops_what_went() -> None:
    base = lab()
    own = replace(base.partitions[0], name="mine")
    mine = replace(base, partitions=(*base.partitions, own))
    now = replace(
        base,
        node_types=(base.node_types[1], NodeType("new", 8, GIB)),
        partitions=(base.partitions[1], replace(base.partitions[1], name="fresh")),
    )
    merged = merge(base, mine, now)
    assert [partition.name for partition in merged.partitions] == ["gpu", "fresh", "mine"]
    # The person's own partition needs nodes that the cluster no longer names.
    assert {node_type.name for node_type in merged.node_types} == {"gpu", "new", "cpu"}
    without = replace(base, partitions=base.partitions[:1])
    assert [partition.name for partition in merge(base, without, base).partitions] == ["batch"]


@given(systems())
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_a_refresh_without_edits_is_what_was_found(system: System) -> None:
    assert merge(lab(), replace(lab(), name=system.name), system) == system
