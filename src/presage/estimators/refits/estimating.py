"""Estimators of trainings with corrections: what the model says, as jobs like it taught."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from presage.estimators._base import (
    NOTHING_KNOWN,
    Basis,
    Estimate,
    EstimateRequest,
    Estimator,
    Knowledge,
    Quantity,
    UnsupportedError,
)
from presage.estimators.refits.kinds import kind_of
from presage.estimators.spread import Spread
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from presage.estimators.refits.fitting import Correction
    from presage.estimators.repository.predictions import Prediction

CORRECTION = "correction"
"""In the details of an answer: what was done to it, and what it was before."""


@dataclass(frozen=True)
class Base:
    """An estimator whose answers are corrected, and the name under which that is done."""

    quantity: Quantity
    estimator: str
    name: str

    def make(self, knowledge: Knowledge = NOTHING_KNOWN) -> Estimator:
        """Return the estimator itself."""
        from presage.estimators import ESTIMATORS

        return ESTIMATORS.get(self.estimator)(knowledge)


BASES = {
    Quantity.WALLTIME: Base(Quantity.WALLTIME, "training-walltime", "refitted-walltime"),
    Quantity.MEMORY: Base(Quantity.MEMORY, "training-memory", "refitted-memory"),
}
"""By quantity. Scripts are estimated from their own past, which is asked anew each time."""


class Refitted(Estimator):
    """Answers as its base does, corrected by what happened to jobs of the kind, or not at all.

    `details` has the factor, the number of jobs, and the answer `before`.
    """

    def __init__(
        self, base: Base, version: str, corrections: Mapping[str, Correction], knowledge: Knowledge = NOTHING_KNOWN
    ) -> None:
        super().__init__(knowledge)
        self.name = base.name
        self.quantity = base.quantity
        self.version = version
        self._base = base
        self._corrections = corrections

    def estimate(self, request: EstimateRequest) -> Estimate:
        kind = kind_of(request)
        correction = None if kind is None else self._corrections.get(kind.digest)
        if correction is None:
            raise UnsupportedError("Nothing was learned from jobs of this kind")
        answer = self._base.make(self.knowledge).estimate(request)
        jobs = counted(correction.jobs, "job")
        note = f"Corrected by what happened to {jobs} like it: {correction.factor:.2f} times what the model says."
        told = {
            "factor": correction.factor, "jobs": correction.jobs, "estimator": answer.estimator,
            "version": answer.version, "before": answer.spread.as_dict(),
        }  # fmt: skip
        return Estimate(
            self.quantity, correction.applied(answer.spread), _basis(answer.basis), self.name, self.version,
            (*answer.notes, note), {**answer.details, CORRECTION: told},
        )  # fmt: skip


def uncorrected(prediction: Prediction, base: Base, version: str) -> Spread | None:
    """Return what the base said when the prediction was made; None if it, in this version, had no part in it."""
    told = prediction.details.get(CORRECTION)
    if isinstance(told, dict) and prediction.estimator == base.name:
        if (told.get("estimator"), told.get("version")) != (base.estimator, version):
            return None
        try:
            return Spread(**told["before"])
        except (KeyError, TypeError, ValueError):  # which came with an order, from anybody
            return None
    return prediction.spread if (prediction.estimator, prediction.version) == (base.estimator, version) else None


def carried(answer: Estimate) -> Estimate:
    """Return an answer with no more than what is needed to learn from it later."""
    kept = {key: value for key, value in answer.details.items() if key == CORRECTION}
    return replace(answer, notes=(), details=kept)


def _basis(basis: Basis) -> Basis:
    """Return what a corrected answer rests on: it has been checked against measurements now."""
    return Basis.MODELLED if basis is Basis.UNVERIFIED else basis
