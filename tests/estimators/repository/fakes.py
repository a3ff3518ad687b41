"""An estimator as an installed package would have it, whose answers a test can choose."""

from __future__ import annotations

from presage.estimators import Basis, Estimate, EstimateRequest, Estimator, Quantity, Spread, UnsupportedError
from presage.estimators._base import NOTHING_KNOWN, Knowledge
from presage.estimators.workloads import ScriptWorkload


class FakeWalltime(Estimator):
    """Says what its class says."""

    name = "fake-walltime"
    quantity = Quantity.WALLTIME
    version = "1"
    factor = 1.0
    asked = 0

    def estimate(self, request: EstimateRequest) -> Estimate:
        type(self).asked += 1
        if not isinstance(request.workload, ScriptWorkload) or request.workload.walltime_s is None:
            raise UnsupportedError("it knows scripts with a limit alone")
        spread = Spread.around(request.workload.walltime_s * self.factor, 1.5)
        return Estimate(self.quantity, spread, Basis.STATED, self.name, self.version)


class Rude(FakeWalltime):
    """Raises what nobody expects."""

    def estimate(self, request: EstimateRequest) -> Estimate:
        raise ZeroDivisionError("on purpose")


class Unborn(FakeWalltime):
    """Cannot be made."""

    def __init__(self, knowledge: Knowledge = NOTHING_KNOWN) -> None:
        raise OSError("never")
