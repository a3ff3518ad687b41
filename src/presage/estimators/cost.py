"""What a run will cost: the target's charge rule over the distribution of its wall time."""

from __future__ import annotations

from presage.clusters.charges import cost_of
from presage.estimators._base import Basis, Estimate, EstimateRequest, Estimator, Quantity, UnsupportedError
from presage.estimators.spread import Spread


class Charge(Estimator):
    """Answers from the request's `walltime` and the `charge` of its target; it knows of no other prices."""

    name = "charge"
    quantity = Quantity.COST

    def estimate(self, request: EstimateRequest) -> Estimate:
        target, walltime = request.target, request.walltime
        if target is None or target.charge is None:
            raise UnsupportedError("nobody said by which rule the job is charged")
        if walltime is None:
            raise UnsupportedError("the cost follows from the wall time, which is not known")
        rule = target.charge
        low, middle, high = (
            cost_of(rule, target.share, target.node_type, run_s, spot=target.spot)
            for run_s in (walltime.p10, walltime.p50, walltime.p90)
        )
        shortest = f"At least {rule.minimum_s:g} s are charged" if walltime.p10 < rule.minimum_s else ""
        return Estimate(
            self.quantity, Spread(low, middle, high), Basis.MODELLED, self.name, self.version,
            notes=(shortest,) if shortest else (), details={"currency": rule.currency, "spot": target.spot},
        )  # fmt: skip
