from __future__ import annotations

from dataclasses import replace

import pytest

from presage.clusters.charges import Share
from presage.clusters.systems import Limits, NodeType, Partition, Scheduler, System
from presage.estimators.feasibility import Need, Reason, reasons_against, spell_seconds

GIB = 1 << 30
HOUR = 3600.0
CPU = NodeType("thin", cores=40, memory_bytes=178 * GIB, count=100)
GPU = NodeType("fat", cores=48, memory_bytes=363 * GIB, gpus=2, gpu="v100-32")
STRANGE = NodeType("strange", cores=48, memory_bytes=363 * GIB, gpus=2, gpu="warp-core")
LIMITS = Limits(
    max_nodes=4, min_cores=2, max_cores=120, max_gpus=4, max_memory_bytes=100 * GIB, min_walltime_s=60,
    max_walltime_s=24 * HOUR, user_nodes=3, user_cores=100, user_gpus=3,
)  # fmt: skip
MIXED = Partition("mixed", ("thin", "fat", "strange"), LIMITS)
PLAIN = Partition("plain", ("thin",))
SYSTEM = System("lab", Scheduler.SLURM, (CPU, GPU, STRANGE), (MIXED, PLAIN))


def words(node_type: NodeType, need: Need, partition: Partition = MIXED) -> list[str]:
    return [reason.words for reason in reasons_against(SYSTEM, partition, node_type, need)]


def test_what_fits_has_no_reason_against_it() -> None:
    assert words(GPU, Need(Share(1, 24, 1, 50 * GIB), 20 * GIB, 24 * HOUR)) == []
    assert words(CPU, Need(Share(1, 40), None, None)) == []


@pytest.mark.parametrize(
    ("node_type", "need", "expected"),
    [
        (GPU, Need(Share(1, 24, 1), 41 * GIB), ["memory 41 GiB > 29.8 GiB of the GPU v100-32"]),
        (STRANGE, Need(Share(1, 24, 1), GIB), ["nobody knows how much memory the GPU warp-core of strange has"]),
        (CPU, Need(Share(1, 24), 101 * GIB), ["memory 101 GiB > 100 GiB of one node that the partition gives"]),
        (
            CPU,
            Need(Share(1, 24, memory_bytes=200 * GIB)),
            [
                "memory 200 GiB > 178 GiB of a node thin",
                "memory 200 GiB > 100 GiB of one node that the partition gives",
            ],
        ),
        (CPU, Need(Share(1, 24, 1)), ["the node type thin has no GPUs"]),
        (GPU, Need(Share(1, 24, 3)), ["3 GPUs > 2 of a node fat"]),
        (GPU, Need(Share(2, 24, 2)), ["4 GPUs > 3 that a user may have"]),
        (GPU, Need(Share(3, 24, 2)), ["6 GPUs > 4 that the partition gives", "6 GPUs > 3 that a user may have"]),
        (CPU, Need(Share(1, 41)), ["41 cores > 40 of a node thin"]),
        (CPU, Need(Share(1, 1)), ["1 core < 2 that the partition asks for at least"]),
        (CPU, Need(Share(4, 20)), ["4 nodes > 3 that a user may have"]),
        (
            CPU,
            Need(Share(8, 2)),
            ["8 nodes > 4 of the partition", "8 nodes > 3 that a user may have"],
        ),
        (
            CPU,
            Need(Share(3, 40 + 1)),
            [
                "41 cores > 40 of a node thin",
                "123 cores > 120 of the partition",
                "123 cores > 100 that a user may have",
            ],
        ),
        (CPU, Need(Share(1, 2), None, 30 * HOUR), ["30 h > the 24 h limit"]),
        (
            CPU,
            Need(Share(1, 2), None, 30 * HOUR, jobs=2),
            ["30 h > the 24 h limit: would need 2 cascaded jobs"],
        ),
        (CPU, Need(Share(1, 2), None, 30), ["30 s < the 1 min that a job must ask for"]),
    ],
)  # fmt: skip
def test_every_no_has_its_reason_with_both_amounts(node_type: NodeType, need: Need, expected: list[str]) -> None:
    assert words(node_type, need) == expected


def test_a_partition_without_gpus_a_disabled_one_and_one_without_jobs() -> None:
    assert words(CPU, Need(Share(1, 2, 1)), PLAIN) == ["the partition has no GPUs"]
    assert words(CPU, Need(Share(1, 2)), replace(PLAIN, enabled=False)) == ["the partition plain is disabled"]
    closed = replace(PLAIN, limits=Limits(user_submitted_jobs=0))
    assert words(CPU, Need(Share(1, 2)), closed) == ["a user may submit no job in the partition plain"]
    counted = replace(PLAIN, node_types=("few",))
    few = replace(CPU, name="few", count=3)
    assert words(few, Need(Share(8, 2)), counted) == ["8 nodes > 3 of the kind few"]


def test_memory_of_a_gpu_job_is_not_held_against_its_node() -> None:
    small = replace(GPU, memory_bytes=8 * GIB)
    assert words(small, Need(Share(1, 24, 1), 20 * GIB)) == []


def test_a_reason_is_data() -> None:
    (reason,) = reasons_against(SYSTEM, MIXED, CPU, Need(Share(1, 2), None, 30 * HOUR, jobs=2))
    assert reason == Reason(
        "walltime", "30 h > the 24 h limit: would need 2 cascaded jobs", 30 * HOUR, 24 * HOUR, cascade_cures=True
    )
    assert reason.as_dict()["needed"] == 30 * HOUR
    (memory,) = reasons_against(SYSTEM, MIXED, GPU, Need(Share(1, 24, 1), 41 * GIB))
    assert (memory.code, memory.needed, memory.available) == ("gpu-memory", 41 * GIB, 32 * 10**9)
    assert not memory.cascade_cures


@pytest.mark.parametrize(
    ("seconds", "spelt"), [(0, "0 s"), (42, "42 s"), (90, "1.5 min"), (30 * HOUR, "30 h"), (96.5 * HOUR, "96.5 h")]
)
def test_durations_are_spelt_in_hours(seconds: float, spelt: str) -> None:
    assert spell_seconds(seconds) == spelt
