"""Rules that order a queue. The job with the lowest score goes first; ties go to the earlier submit, then job.

Symbols of the formulas: r run time the decision may use, in seconds, at least 1; p processors; s submit time in
seconds of the log's own clock (0 counts as 0.1, because of the logarithms); w seconds waited so far.

A static rule scores a job once, when it arrives. A dynamic rule scores the queue anew whenever a decision is due;
its scores are computed inside the simulator's engine, which knows it by `code`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from presage.registry import Registry, Spec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class JobView:
    """What an order may know of jobs: arrays of one length.

    Times are whole milliseconds, so that scores which are equal by the formula are equal in the computer too.
    """

    run_ms: IntArray
    """The run time that decisions may use: requested, predicted or true."""
    processors: IntArray
    submit_ms: IntArray
    """On the log's own clock."""

    @property
    def run_s(self) -> FloatArray:
        """Run times in seconds, at least 1."""
        return np.maximum(self.run_ms / 1000, 1.0)

    @property
    def log_submit(self) -> FloatArray:
        """The decimal logarithm of the submit second; second 0 counts as 0.1."""
        return np.log10(np.where(self.submit_ms > 0, self.submit_ms / 1000, 0.1))


class Order(ABC):
    """A rule that says who goes next."""

    formula: ClassVar[str]
    """The score in the symbols of this module."""


class StaticOrder(Order):
    """A rule whose score of a job never changes."""

    @abstractmethod
    def scores(self, jobs: JobView) -> FloatArray | IntArray:
        """Return one score per job; the lowest goes first."""


class DynamicOrder(Order):
    """A rule whose scores change with time, computed by the engine."""

    code: ClassVar[int]


class Fcfs(StaticOrder):
    """First come, first served."""

    formula = "s"

    def scores(self, jobs: JobView) -> IntArray:
        return jobs.submit_ms


class Sjf(StaticOrder):
    """Shortest job first."""

    formula = "r"

    def scores(self, jobs: JobView) -> IntArray:
        return jobs.run_ms


class Ljf(StaticOrder):
    """Longest job first."""

    formula = "-r"

    def scores(self, jobs: JobView) -> IntArray:
        return -jobs.run_ms


class Saf(StaticOrder):
    """Smallest area first."""

    formula = "r·p"

    def scores(self, jobs: JobView) -> IntArray:
        return jobs.run_ms * jobs.processors


class Laf(StaticOrder):
    """Largest area first."""

    formula = "-r·p"

    def scores(self, jobs: JobView) -> IntArray:
        return -jobs.run_ms * jobs.processors


class Sqf(StaticOrder):
    """Smallest area first, weighted by run time once more: short jobs count twice."""

    formula = "r·max(r, 10)·p"

    def scores(self, jobs: JobView) -> FloatArray:
        return jobs.run_s * np.maximum(jobs.run_s, 10) * jobs.processors


class F1(StaticOrder):
    """Learned by regression on simulated schedules (Carastan-Santos and de Camargo, 2017)."""

    formula = "log10(r)·p + 870·log10(s)"

    def scores(self, jobs: JobView) -> FloatArray:
        return np.log10(jobs.run_s) * jobs.processors + 870 * jobs.log_submit


class F2(StaticOrder):
    """Of the same family as F1."""

    formula = "√r·p + 25600·log10(s)"

    def scores(self, jobs: JobView) -> FloatArray:
        return np.sqrt(jobs.run_s) * jobs.processors + 25_600 * jobs.log_submit


class F3(StaticOrder):
    """Of the same family as F1."""

    formula = "r·p + 6860000·log10(s)"

    def scores(self, jobs: JobView) -> FloatArray:
        return jobs.run_s * jobs.processors + 6_860_000 * jobs.log_submit


class F4(StaticOrder):
    """Of the same family as F1."""

    formula = "r·√p + 530000·log10(s)"

    def scores(self, jobs: JobView) -> FloatArray:
        return jobs.run_s * np.sqrt(jobs.processors) + 530_000 * jobs.log_submit


class Wfp3(DynamicOrder):
    """Large jobs that waited long for their length first (Argonne)."""

    formula = "-(w/r)³·p"
    code = 0


class Unicep(DynamicOrder):
    """Small and short jobs first, the more the longer they wait."""

    formula = "-w / (log2(p)·r)"
    code = 1


class Lxf(DynamicOrder):
    """Largest expansion factor first."""

    formula = "-(w + r) / r"
    code = 2


_HERE = "presage.policies.orders"

ORDERS: Registry[type[Order]] = Registry(
    "ordering rule",
    "presage.orders",
    [
        Spec("fcfs", f"{_HERE}:Fcfs", "first come, first served"),
        Spec("sjf", f"{_HERE}:Sjf", "shortest job first"),
        Spec("ljf", f"{_HERE}:Ljf", "longest job first"),
        Spec("saf", f"{_HERE}:Saf", "smallest area (run time x processors) first"),
        Spec("laf", f"{_HERE}:Laf", "largest area first"),
        Spec("sqf", f"{_HERE}:Sqf", "smallest area first, run time counted twice"),
        Spec("f1", f"{_HERE}:F1", "regression on simulated schedules, log r"),
        Spec("f2", f"{_HERE}:F2", "regression on simulated schedules, root of r"),
        Spec("f3", f"{_HERE}:F3", "regression on simulated schedules, area"),
        Spec("f4", f"{_HERE}:F4", "regression on simulated schedules, root of p"),
        Spec("wfp3", f"{_HERE}:Wfp3", "large jobs that waited long for their length first"),
        Spec("unicep", f"{_HERE}:Unicep", "small short jobs first, ageing"),
        Spec("lxf", f"{_HERE}:Lxf", "largest expansion factor first"),
    ],
)
