"""Orders that need to know more than the queue: who runs, who used how much, what was done so far.

Only the detailed simulator (`presage.simulator.detailed`) knows all that. Symbols as in `presage.policies.orders`.
An order that preempts interrupts running jobs with a higher score for a waiting one that does not fit. Each names
the backfilling and the placement it is used with where a policy does not say.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from presage.policies.orders import Order
from presage.registry import Registry, Spec

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class ClusterOrder(Order):
    """An order that the detailed engine knows by `code`; its fields are settings, all of them numbers."""

    code: ClassVar[int]
    preempts: ClassVar[bool] = False
    by_priority: ClassVar[bool] = False
    """Whether jobs of higher priority in the trace go before all others."""
    backfilling: ClassVar[str] = "none"
    placement: ClassVar[str] = "first-fit"

    def numbers(self, capacity: int) -> FloatArray:
        """Return the settings as the engine wants them, for a machine of `capacity` processors or GPUs."""
        return np.array([float(getattr(self, field.name)) for field in fields(self)])


@dataclass(frozen=True)
class Srtf(ClusterOrder):
    """Shortest remaining time first: what is believed to end soonest goes first, also before what runs."""

    formula: ClassVar[str] = "r - done"
    code: ClassVar[int] = 10
    preempts: ClassVar[bool] = True
    backfilling: ClassVar[str] = "skip"


@dataclass(frozen=True)
class Tiresias(ClusterOrder):
    """Discretised two-dimensional least attained service (Gu et al., NSDI 2019).

    Jobs fall from one queue to the next when the processor or GPU seconds that they have held pass a threshold;
    jobs of a higher queue interrupt those of lower ones, within a queue first come goes first. Run times are not
    used.
    """

    formula: ClassVar[str] = "number of thresholds that p·(time held) has passed"
    code: ClassVar[int] = 11
    preempts: ClassVar[bool] = True
    backfilling: ClassVar[str] = "skip"
    first_s: float = 3_600.0
    """Threshold between the first and the second queue, in processor or GPU seconds."""
    second_s: float = 36_000.0


@dataclass(frozen=True)
class Multifactor(ClusterOrder):
    """The weighted sum of Slurm's priority/multifactor with its classic fair share."""

    formula: ClassVar[str] = (
        "-(age·min(1, w/max_age) + size·p/P + fair_share·2^(-users·used share) + qos·priority/highest)"
    )
    code: ClassVar[int] = 12
    backfilling: ClassVar[str] = "easy"
    age: float = 1_000.0
    size: float = 0.0
    fair_share: float = 10_000.0
    qos: float = 1_000.0
    """Weight of the trace's priority, divided by the highest one."""
    max_age_s: float = 7 * 86_400.0
    half_life_s: float = 7 * 86_400.0
    """After this long, use counts half."""
    small_first: float = 0.0
    """1: small jobs gain by their size, not large ones."""

    def numbers(self, capacity: int) -> FloatArray:
        return np.append(super().numbers(capacity), float(capacity))


@dataclass(frozen=True)
class Drf(ClusterOrder):
    """Dominant resource fairness (Ghodsi et al., NSDI 2011): next is the user with the smallest dominant share."""

    formula: ClassVar[str] = "largest share of a resource that the user holds"
    code: ClassVar[int] = 13
    backfilling: ClassVar[str] = "skip"


@dataclass(frozen=True)
class Qssf(ClusterOrder):
    """Quasi-shortest service first (Hu et al., SC 2021), on what the user's jobs took so far.

    The mean run time of the user's jobs that ended before this one arrived, or its request if there are none. The
    paper mixes in similar names; here the user alone counts.
    """

    formula: ClassVar[str] = "p · mean run time of the user's ended jobs"
    code: ClassVar[int] = 14
    backfilling: ClassVar[str] = "skip"


@dataclass(frozen=True)
class Volcano(ClusterOrder):
    """As Volcano's default actions: priority, then dominant share; gangs start whole; nodes are packed."""

    formula: ClassVar[str] = "priority, then largest share of a resource that the user holds"
    code: ClassVar[int] = 15
    by_priority: ClassVar[bool] = True
    backfilling: ClassVar[str] = "skip"
    placement: ClassVar[str] = "best-fit"


@dataclass(frozen=True)
class Priority(ClusterOrder):
    """The trace's priorities, first come first served among equals; higher ones interrupt lower ones."""

    formula: ClassVar[str] = "priority, then s"
    code: ClassVar[int] = 16
    preempts: ClassVar[bool] = True
    by_priority: ClassVar[bool] = True
    backfilling: ClassVar[str] = "skip"


_HERE = "presage.policies.cluster_orders"

CLUSTER_ORDERS: Registry[type[ClusterOrder]] = Registry(
    "ordering rule",
    "presage.cluster_orders",
    [
        Spec("srtf", f"{_HERE}:Srtf", "shortest remaining time first, interrupting others"),
        Spec("tiresias", f"{_HERE}:Tiresias", "least attained service in queues, interrupting others"),
        Spec("multifactor", f"{_HERE}:Multifactor", "Slurm's age, size, fair share and QOS"),
        Spec("drf", f"{_HERE}:Drf", "the user with the smallest dominant share first"),
        Spec("qssf", f"{_HERE}:Qssf", "size times what the user's jobs took so far"),
        Spec("volcano", f"{_HERE}:Volcano", "priority, then dominant share, packed"),
        Spec("priority", f"{_HERE}:Priority", "the trace's priorities, interrupting lower ones"),
    ],
)
