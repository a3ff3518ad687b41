"""A wait that somebody named."""

from __future__ import annotations

from presage.estimators._base import Basis, Estimate, EstimateRequest, Estimator, Quantity, UnsupportedError


class StatedWait(Estimator):
    """The wait that was stated for a partition, `system/partition`, or for a whole system."""

    name = "stated-wait"
    quantity = Quantity.WAIT

    def estimate(self, request: EstimateRequest) -> Estimate:
        if request.target is None:
            raise UnsupportedError("Nobody stated a wait for the machine that asks")
        place = f"{request.target.system}/{request.target.partition}"
        for key in (place, request.target.system):
            if key in self.knowledge.stated_waits_s:
                spread = self.knowledge.stated_waits_s[key]
                note = f"Somebody stated the wait of {key}"
                return Estimate(self.quantity, spread, Basis.STATED, self.name, self.version, (note,))
        raise UnsupportedError(f"Nobody stated a wait for {place}")
