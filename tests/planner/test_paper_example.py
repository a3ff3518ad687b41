"""The worked example of the iScheduler paper: its hours and waits go in, its costs and its ends come out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from presage.clusters.shipped import shipped_systems
from presage.estimators import Spread, TrainingOptions, TrainingWorkload
from presage.planner import Constraints, Counts, Plans, Stated, StatedEstimates, Strategy, Variant, make_plans
from tests.planner.making import HOUR

MIB = 1 << 20
RESERVED_MIB = {32: 3282, 64: 6220}
"""Of ResNet-50 at 224 × 224 in fp32 with AdamW, by batch, as Presage counts it."""
CPU_NODE, GPU_NODE = "osc-pitzer/serial/c48", "osc-pitzer/gpuserial/c48-2v100"


def example(batch: int) -> Plans:
    resnet = TrainingWorkload("resnet50", ((3, 224, 224),), samples=20_000, epochs=50)
    variant = Variant(replace(resnet, options=TrainingOptions(batch=batch)), f"batch {batch}")
    stated = Stated(
        Spread.exactly(RESERVED_MIB[batch] * MIB),
        {CPU_NODE: Spread.exactly(9 * HOUR), GPU_NODE: Spread.exactly(2 * HOUR)},
        {"osc-pitzer/serial": Spread.exactly(0), "osc-pitzer/gpuserial": Spread.exactly(26 * HOUR)},
    )
    return make_plans(
        [variant], [shipped_systems()["osc-pitzer"]], StatedEstimates(stated),
        counts=Counts(gpus=(0, 1), cores=28), constraints=Constraints(only=(CPU_NODE, GPU_NODE)),
    )  # fmt: skip


@pytest.mark.parametrize("batch", [32, 64])
def test_costs_and_completion_times_are_the_papers(batch: int) -> None:
    plans = example(batch)
    cpu, gpu = plans.options
    assert cpu.cost is not None
    assert gpu.cost is not None
    assert cpu.cost.p50 == pytest.approx(0.756)
    assert gpu.cost.p50 == pytest.approx(0.348)
    best, soonest = plans.plan(Strategy.BEST), plans.plan(Strategy.AVAILABILITY)
    assert best is not None
    assert soonest is not None
    assert (best.legs[0].partition, best.completion.p50) == ("gpuserial", 28 * HOUR)
    assert (soonest.legs[0].partition, soonest.completion.p50) == ("serial", 9 * HOUR)
    assert len(plans.front) == 2


def test_both_batches_fit_the_gpu_with_32_gb() -> None:
    for batch in RESERVED_MIB:
        gpu = example(batch).options[1]
        assert gpu.placement.gpu is not None
        assert gpu.placement.gpu.memory_bytes == 32 * 10**9
        assert gpu.fits
        assert gpu.memory is not None
        assert gpu.memory.spread.p90 < gpu.placement.gpu.memory_bytes / 4
