"""A small invented system, and any system that hypothesis can think of."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from presage.clusters import (
    ChargeRule,
    GpuModel,
    Limits,
    NodeType,
    Partition,
    Scheduler,
    Staging,
    System,
    WholeNodes,
)

GIB = 2**30


def lab(**changes: Any) -> System:
    """Return a cluster with CPU nodes and GPU nodes."""
    described: dict[str, Any] = {
        "name": "lab",
        "scheduler": Scheduler.SLURM,
        "node_types": (
            NodeType("cpu", cores=64, memory_bytes=240 * GIB, count=12, sockets=2),
            NodeType("gpu", cores=32, memory_bytes=480 * GIB, count=2, gpus=4, gpu="a100-80"),
        ),
        "partitions": (
            Partition("batch", ("cpu",), Limits(max_nodes=8, max_walltime_s=172_800.0)),
            Partition("gpu", ("gpu",), Limits(max_walltime_s=86_400.0)),
        ),
    }
    return System(**described | changes)


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
COUNTS = st.integers(1, 10**7)
BYTES = st.one_of(st.integers(1, 10**18), st.integers(1, 5000).map(lambda gib: gib * GIB))
SECONDS = st.one_of(
    st.floats(0, 1e12), st.integers(0, 10**6).map(float), st.integers(1, 400).map(lambda h: 3600.0 * h)
)
AMOUNTS = st.floats(0, 1e15)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


CHARGES = st.builds(
    ChargeRule,
    currency=TEXTS, core_hour=AMOUNTS, gpu_hour=AMOUNTS, node_hour=AMOUNTS, spot_node_hour=maybe(AMOUNTS),
    memory_per_core_bytes=maybe(BYTES), whole_nodes=st.sampled_from(WholeNodes), minimum_s=SECONDS,
)  # fmt: skip


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    """Return limits that do not contradict each other."""
    nodes = sorted(draw(st.lists(COUNTS, min_size=2, max_size=2)))
    cores = sorted(draw(st.lists(COUNTS, min_size=2, max_size=2)))
    times = sorted(draw(st.lists(SECONDS, min_size=3, max_size=3)))
    return Limits(
        min_nodes=nodes[0], max_nodes=draw(st.sampled_from([None, nodes[1]])),
        min_cores=cores[0], max_cores=draw(st.sampled_from([None, cores[1]])),
        max_gpus=draw(maybe(st.integers(0, 99))), max_memory_bytes=draw(maybe(BYTES)),
        min_walltime_s=times[0], default_walltime_s=times[1],
        max_walltime_s=draw(st.sampled_from([None, times[2]])),
        user_running_jobs=draw(maybe(COUNTS)), user_submitted_jobs=draw(maybe(COUNTS)),
        user_nodes=draw(maybe(COUNTS)), user_cores=draw(maybe(COUNTS)), user_gpus=draw(maybe(COUNTS)),
    )  # fmt: skip


@st.composite
def systems(draw: st.DrawFn) -> System:
    """Return any system that does not contradict itself."""
    models = draw(
        st.lists(
            st.builds(
                GpuModel, NAMES, BYTES, AMOUNTS, st.dictionaries(TEXTS, AMOUNTS, max_size=3), st.tuples(NAMES)
            ),
            max_size=2, unique_by=lambda model: model.name,
        )
    )  # fmt: skip
    gpus = st.sampled_from([(0, ""), (2, "h100"), *((1, model.name) for model in models)])
    node_types = []
    for name in draw(st.lists(NAMES, max_size=3, unique=True)):
        number, gpu = draw(gpus)
        node_types.append(
            NodeType(
                name, draw(COUNTS), draw(BYTES), count=draw(maybe(st.integers(0, 10**5))), sockets=draw(COUNTS),
                cpu_model=draw(TEXTS), core_gflops=draw(maybe(AMOUNTS)), gpus=number, gpu=gpu,
                memory_bandwidth_bytes_s=draw(maybe(AMOUNTS)), local_disk_bytes=draw(maybe(BYTES)),
                features=tuple(draw(st.lists(TEXTS, max_size=3))),
            )
        )  # fmt: skip
    names = st.lists(st.sampled_from(node_types), unique_by=lambda each: each.name) if node_types else st.just([])
    partitions = [
        Partition(
            name, tuple(node_type.name for node_type in draw(names)), draw(limits()), draw(maybe(CHARGES)),
            *(draw(st.booleans()) for _ in range(4)),
        )
        for name in draw(st.lists(NAMES, max_size=3, unique=True))
    ]  # fmt: skip
    return System(
        name=draw(st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,20}\Z")),
        scheduler=draw(st.sampled_from(Scheduler)),
        node_types=tuple(node_types),
        partitions=tuple(partitions),
        charge=draw(CHARGES),
        description=draw(TEXTS),
        gpu_models=tuple(models),
        staging=draw(st.builds(Staging, maybe(AMOUNTS), SECONDS, AMOUNTS)),
        time_zone=draw(st.sampled_from([None, "UTC", "Europe/Berlin"])),
        policies=draw(st.dictionaries(TEXTS, TEXTS, max_size=3)),
        connection=draw(st.dictionaries(st.sampled_from(["host", "token_file"]), TEXTS)),
    )
