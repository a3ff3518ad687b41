"""What was measured on two public GPU logs: aggregate statistics, no rows.

openb: Alibaba's GPU cluster, published 2023 (Weng et al., "Beware of fragmentation", USENIX ATC 2023), the list
of all nodes and the default pod list. Pods created before the log's day 115 are left out: only those that
lived until then were recorded. That leaves 8,125 pods of 34 days, 7,228 of which were started.
Philly: Microsoft's deep-learning cluster, 66,156 jobs of September to December 2017 (Jeon et al., "Analysis of
large-scale multi-tenant GPU clusters", USENIX ATC 2019, of which this is a subset of the virtual clusters).

Neither log says where its clock stands. Both are turned so that the quietest three hours of the day are four
to seven in the morning, and openb so that its quietest day is Sunday. The rhythm counts minutes in which
anything was submitted, so that one user's bulk of jobs does not look like everybody's hour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

PROBABILITIES = (0, .01, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9, .95, .98, .99, .995, .999, 1)  # fmt: skip
"""Where the quantile tables below were read off; between them the logarithm is interpolated."""


class NodeType(NamedTuple):
    """One kind of node and how many of them the cluster has. None is not published."""

    name: str
    number: int
    gpus: int
    gpu_type: str | None
    gpu_mem_gib: int | None
    cpus: float | None
    mem_mib: int | None


class Shape(NamedTuple):
    """One request of the whole job, and how many jobs of the log made it. None is not published."""

    gpus: float
    jobs: float
    cpus: float | None = None
    mem_mib: int | None = None


@dataclass(frozen=True)
class SizeClass:
    """Jobs of up to `gpus` GPUs, and more than the class before."""

    gpus: float
    run_s: tuple[float, ...]
    """Quantiles at `PROBABILITIES`."""
    failed: float
    """Share of jobs that failed."""
    cancelled: float
    """Share of the others that were cancelled, or deleted while they ran."""
    failed_early: float = 1.0
    """Above 1, short runs fail more often: chance of rank u is in proportion to (1 - u) ** (failed_early - 1)."""
    cancelled_late: float = 1.0
    """Above 1, long runs are cancelled more often: in proportion to u ** (cancelled_late - 1)."""
    qos: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Preset:
    """All that the model needs to know of one log."""

    nodes: tuple[NodeType, ...]
    groups: dict[str, tuple[Shape, ...]]
    """Virtual cluster → what is requested there; the empty name where the log has no virtual clusters."""
    classes: tuple[SizeClass, ...]
    gangs: bool
    """Whether a job may span nodes; if not, it is one pod."""
    typed_share: float
    """Share of GPU jobs that ask for a GPU type."""
    types: tuple[tuple[str, float], ...]
    """What they ask for, and how often."""
    hours: tuple[int, ...]
    weekdays: tuple[int, ...]
    """From Monday."""
    gap_s: float
    gaps: tuple[float, ...]
    """Quantiles of the gap between submits over its mean, at `PROBABILITIES`, the rhythm taken out."""


# Nodes by GPU type, GPUs and CPUs, with the most frequent memory; five odd P100 nodes of 1,523 are left out.
_OPENB_NODES = (
    NodeType("g2", 549, 8, "G2", None, 96, 393_216),
    NodeType("t4", 387, 2, "T4", 16, 104, 524_288),
    NodeType("cpu-32", 162, 0, None, None, 32, 262_144),
    NodeType("cpu-96", 90, 0, None, None, 96, 524_288),
    NodeType("p100", 107, 2, "P100", 16, 16, 122_880),
    NodeType("g3", 39, 8, "G3", None, 128, 786_432),
    NodeType("v100m16", 28, 4, "V100M16", 16, 32, 131_072),
    NodeType("cpu-64", 34, 0, None, None, 64, 524_288),
    NodeType("cpu-104", 24, 0, None, None, 104, 524_288),
    NodeType("p100-64", 22, 2, "P100", 16, 64, 262_144),
    NodeType("v100m32", 21, 8, "V100M32", 32, 96, 786_432),
    NodeType("v100m16-1", 19, 1, "V100M16", 16, 8, 32_768),
    NodeType("t4-4", 17, 4, "T4", 16, 96, 393_216),
    NodeType("v100m32-4", 9, 4, "V100M32", 32, 48, 376_832),
    NodeType("v100m16-8", 8, 8, "V100M16", 16, 64, 262_144),
    NodeType("a10", 2, 1, "A10", 24, 128, 1_048_576),
)

# GPUs of a pod → (pods, (CPUs, MiB, pods with that pair) …); the pairs cover 96 % of the pods.
_OPENB_REQUESTS: dict[float, tuple[int, tuple[tuple[float, int, int], ...]]] = {
    0.0: (1086, (
        (12.5, 57344, 364), (32, 49152, 284), (8, 30517, 163), (15.4, 51200, 120), (16.5, 51200, 95),
    )),
    0.11: (23, ((4, 22888, 9),)),
    0.16: (74, ((4, 15258, 53), (6, 22888, 20))),
    0.22: (61, ((4, 15258, 23), (8, 30517, 19), (4, 22888, 11))),
    0.23: (140, ((4, 30517, 84), (4, 22888, 26), (8, 30517, 18), (4, 15258, 12))),
    0.32: (328, ((4, 22888, 111), (4, 15258, 78), (8, 30517, 72), (4, 30517, 43), (1, 2048, 22))),
    0.37: (47, ((4.152, 10600, 45),)),
    0.46: (124, ((6, 6144, 50), (6, 12288, 27), (6, 18432, 18))),
    0.47: (748, ((11.908, 47104, 388), (8, 30517, 358))),
    0.48: (19, ((4, 22888, 18),)),
    0.55: (72, ((4.152, 10600, 72),)),
    0.59: (75, ((3.152, 5600, 75),)),
    0.65: (253, ((11.908, 47104, 237), (8, 30517, 12))),
    0.81: (1078, ((3.152, 5600, 1047), (4.152, 10600, 31))),
    1.0: (3896, (
        (11.3, 49152, 857), (11.4, 48128, 534), (3.152, 5600, 470), (18.708, 64512, 255), (9.81, 41560, 195),
        (15.7, 58368, 158), (12, 24576, 156), (11.908, 47104, 153), (16, 32768, 107), (4, 24576, 104),
        (8, 16384, 103), (12, 16384, 94), (14.2, 58368, 93), (24.2, 93184, 84), (11.4, 77824, 65),
        (8, 32768, 54), (11.9, 77824, 51), (12, 15360, 44), (8.2, 33792, 41), (4, 31250, 40),
        (15.2, 80896, 36), (16, 65536, 32), (16.4, 125952, 27),
    )),
    2.0: (16, ((16.2, 66560, 7), (30.2, 160768, 3), (6, 65536, 3))),
    4.0: (15, ((32.2, 132096, 9), (60.2, 320512, 3), (32, 131072, 3))),
    8.0: (43, ((64.2, 263168, 18), (88, 327680, 17), (64, 262144, 3), (120, 737280, 3))),
}  # fmt: skip


def _shapes() -> tuple[Shape, ...]:
    """Return the requests of openb, each number of GPUs as frequent as in the log."""
    shapes = []
    for gpus, (pods, pairs) in _OPENB_REQUESTS.items():
        covered = sum(count for _, _, count in pairs)
        shapes += [Shape(gpus, pods * count / covered, cpus, mem_mib) for cpus, mem_mib, count in pairs]
    return tuple(shapes)


# Run: deletion - scheduling of the pods that were started. Failed: phase Failed. Cancelled: phase Running, that
# is, deleted while it ran. failed_early gives the mean rank of the failed runs (.39, .34, .41 of the class).
# The single failure among the CPU-only pods is taken as it is. QoS: all pods; classes under 1 % are left out.
_OPENB_CLASSES = (
    SizeClass(
        0.0,
        (33, 59, 94, 141, 147, 175, 273, 492, 803, 1450, 2560, 12900, 19500, 25100, 27400, 28800, 91900, 1280000),
        failed=0.001,
        cancelled=0.993,
        qos=(("LS", 634), ("BE", 450)),
    ),
    SizeClass(
        0.99,
        (4, 14, 35, 55, 103, 172, 286, 534, 922, 1260, 2790, 8810, 18900, 42400, 71000, 90700, 260000, 982000),
        failed=0.453,
        cancelled=1.0,
        failed_early=1.54,
        qos=(("BE", 2318), ("LS", 751)),
    ),
    SizeClass(
        1.0,
        (5, 33, 55, 80, 177, 251, 454, 748, 1200, 1940, 3440, 5740, 12400, 38300, 97900, 422000, 2150000, 2610000),
        failed=0.184,
        cancelled=0.938,
        failed_early=1.95,
        qos=(("LS", 3185), ("BE", 629), ("Burstable", 76)),
    ),
    SizeClass(
        float("inf"),
        (
            22,
            22,
            36,
            43,
            140,
            257,
            494,
            573,
            1590,
            3580,
            13900,
            63600,
            131000,
            603000,
            931000,
            954000,
            973000,
            977000,
        ),
        failed=0.767,
        cancelled=0.647,
        failed_early=1.3,  # what 1 / failed allows
        qos=(("LS", 52), ("Burstable", 22)),
    ),
)

OPENB = Preset(
    nodes=_OPENB_NODES,
    groups={"": _shapes()},
    classes=_OPENB_CLASSES,
    gangs=False,
    # The default pod list has no constraints. Its published variants put them on 5 to 25 % of the GPU pods; this
    # is gpuspec20, and types it names at least ten times.
    typed_share=0.2,
    types=(
        ("T4", 718), ("G2", 213), ("P100", 212), ("V100M16|V100M32", 111), ("P100|V100M16|V100M32", 54),
        ("G3", 51), ("G2|P100|T4|V100M16|V100M32", 20), ("V100M32", 15), ("P100|T4|V100M16|V100M32", 14),
        ("A10|G2|T4|V100M16|V100M32", 11),
    ),
    # Four whole weeks, days 119 to 147, eight hours behind the log's own clock.
    hours=(
        151, 101, 126, 140, 101, 92, 86, 134, 159, 281, 338, 295,
        221, 295, 283, 344, 291, 280, 251, 282, 264, 212, 195, 209,
    ),
    weekdays=(859, 869, 790, 827, 759, 596, 431),
    # Days 115 to 147; the last two days bring twice as many pods as any other and are left out.
    gap_s=402,
    gaps=(
        .001, .001, .00467, .0207, .113, .212, .353, .532, .765, 1.1, 1.62, 2.53, 3.59, 4.96, 6.16, 7.64, 10, 15,
    ),
)  # fmt: skip

# Not in the file that was measured: 552 machines of two GPUs with 12 GB or eight with 24 GB, split so that they
# make the 2,490 GPUs of the whole cluster.
_PHILLY_NODES = (
    NodeType("gpu12", 321, 2, "GPU12", 12, None, None),
    NodeType("gpu24", 231, 8, "GPU24", 24, None, None),
)

# Virtual clusters by number of jobs; the four smallest, with 18 jobs together, are left out.
_PHILLY_GROUPS: dict[str, dict[int, int]] = {
    "vc01": {1: 40841, 2: 50, 4: 144, 8: 191},
    "vc02": {1: 9054, 2: 37, 4: 396, 8: 455, 16: 11},
    "vc03": {1: 7237, 2: 3, 4: 72, 8: 51, 16: 58, 24: 2},
    "vc04": {1: 1571, 2: 33, 4: 330},
    "vc05": {1: 597, 2: 109, 4: 266, 8: 420, 16: 96, 24: 1, 32: 13, 64: 6, 128: 3},
    "vc06": {1: 1090, 2: 164, 4: 181},
    "vc07": {1: 1137},
    "vc08": {1: 204, 4: 329, 8: 179, 16: 11},
    "vc09": {1: 64, 2: 4, 4: 10, 8: 293, 32: 51},
    "vc10": {1: 215, 2: 3, 4: 102, 8: 36, 12: 7, 16: 4, 24: 4, 32: 3},
}

# Run times were measured. Outcomes are not in this subset; these are the paper's as recalled, not checked against
# its text: 69.3 % passed, 13.5 % were
# killed, 17.2 % were unsuccessful, and the killed ones took 37.7 % of the GPU time, which is what
# cancelled_late reproduces.
_PHILLY_CLASSES = tuple(
    SizeClass(gpus, run_s, failed=0.172, cancelled=0.135 / 0.828, cancelled_late=3.75)
    for gpus, run_s in (
        (1.0, (
            1, 37, 52, 93, 311, 654, 1080, 1560, 2120, 2670, 4360, 9240, 22300, 76900, 158000, 315000,
            1020000, 3260000,
        )),
        (4.0, (
            3, 36, 80, 129, 386, 2090, 11500, 22600, 45500, 84500, 122000, 193000, 314000, 606000, 1020000,
            1330000, 2540000, 2750000,
        )),
        (8.0, (
            1, 34, 126, 218, 785, 3930, 12400, 23700, 65000, 142000, 203000, 355000, 527000, 798000, 1060000,
            2000000, 2660000, 4630000,
        )),
        (float("inf"), (
            1, 3.4, 35, 66, 326, 876, 3130, 27700, 54900, 75000, 159000, 241000, 443000, 618000, 972000,
            1290000, 1620000, 1710000,
        )),
    )
)  # fmt: skip

PHILLY = Preset(
    nodes=_PHILLY_NODES,
    groups={
        name: tuple(Shape(gpus, jobs) for gpus, jobs in sizes.items()) for name, sizes in _PHILLY_GROUPS.items()
    },
    classes=_PHILLY_CLASSES,
    gangs=True,
    typed_share=0.0,
    types=(("GPU24", 1848), ("GPU12", 642)),  # by the number of GPUs: the log has no constraints
    # Twelve whole weeks from 25 September, nine hours behind the log's own clock.
    hours=(
        761, 624, 556, 508, 438, 364, 430, 536, 560, 650, 570, 583,
        697, 668, 739, 829, 651, 687, 762, 549, 823, 1058, 1189, 856,
    ),
    weekdays=(2392, 2654, 3273, 3229, 2042, 1118, 1380),
    # From 20 September on, when the subset begins in earnest; two gaps of more than a day are left out.
    gap_s=118,
    gaps=(
        .004, .004, .004, .0041, .0123, .0233, .0383, .0573, .0875, .144, .266, 1.36, 5.11, 11, 18, 27, 57, 613,
    ),
)  # fmt: skip

PRESETS = {"openb": OPENB, "philly": PHILLY}
