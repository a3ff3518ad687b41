"""Systems, estimates and plans to test with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from presage.clusters.charges import ChargeRule
from presage.clusters.systems import Limits, NodeType, Partition, Scheduler, Staging, System
from presage.estimators import Basis, Estimate, Quantity, ScriptWorkload, Spread, UnsupportedError
from presage.planner import Assumptions, Constraints, Counts, Plans, Stated, StatedEstimates, Variant, make_plans
from presage.planner.constraints import UNCONSTRAINED
from presage.planner.options import USUAL

HOUR = 3600.0
GIB = 1 << 30

CPU = NodeType("cpu", cores=40, memory_bytes=178 * GIB, count=8)
GPU = NodeType("gpu", cores=40, memory_bytes=363 * GIB, count=4, gpus=2, gpu="v100-32")
LAB = System(
    "lab",
    Scheduler.SLURM,
    (CPU, GPU),
    (
        Partition("batch", ("cpu",), Limits(max_walltime_s=24 * HOUR)),
        Partition("accelerated", ("gpu",), Limits(max_walltime_s=24 * HOUR)),
        Partition("test", ("gpu",), Limits(max_walltime_s=HOUR, user_submitted_jobs=2), development=True),
    ),
    charge=ChargeRule(core_hour=0.01, gpu_hour=0.5),
)
JOB = Variant(ScriptWorkload("job"))
ONE_GPU = Counts(gpus=(0, 1))


def exact(**hours: float) -> dict[str, Spread]:
    """Return certain times by partition of the lab."""
    return {f"lab/{name}": Spread.exactly(amount * HOUR) for name, amount in hours.items()}


def plans_for(
    stated: Stated,
    *systems: System,
    counts: Counts = ONE_GPU,
    constraints: Constraints = UNCONSTRAINED,
    assumptions: Assumptions = USUAL,
    variants: tuple[Variant, ...] = (JOB,),
) -> Plans:
    return make_plans(
        variants, systems or (LAB,), StatedEstimates(stated),
        counts=counts, constraints=constraints, assumptions=assumptions,
    )  # fmt: skip


def cloud(**changes: Any) -> System:
    """Return an offer with hourly and spot prices, to which data must be brought."""
    node = NodeType("vm", cores=8, memory_bytes=64 * GIB, gpus=1, gpu="l4")
    given: dict[str, Any] = {
        "charge": ChargeRule(node_hour=2.0, spot_node_hour=0.5),
        "staging": Staging(bandwidth_bytes_s=100e6, startup_s=300.0, price_per_gib=0.1),
    }
    return System("cloud", Scheduler.CLOUD, (node,), (Partition("vms", ("vm",)),), **(given | changes))


@dataclass
class Counting:
    """Estimates that count how often they were asked."""

    asked: list[tuple[str, str, str]] = field(default_factory=list)
    without: frozenset[str] = frozenset()

    def memory(self, workload: Any, target: Any) -> Estimate:
        return self._answer(Quantity.MEMORY, target, GIB)

    def walltime(self, workload: Any, target: Any) -> Estimate:
        return self._answer(Quantity.WALLTIME, target, HOUR)

    def wait(self, workload: Any, target: Any) -> Estimate:
        return self._answer(Quantity.WAIT, target, 60.0)

    def _answer(self, quantity: Quantity, target: Any, amount: float) -> Estimate:
        self.asked.append((quantity.value, target.partition, target.node_type.name))
        if quantity.value in self.without:
            raise UnsupportedError(f"no {quantity.value} today")
        return Estimate(quantity, Spread.exactly(amount), Basis.STATED, "counting", "1")
