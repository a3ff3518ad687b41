"""One question to all estimators of a quantity, in their order; the first that has an answer gives it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from presage.estimators import ESTIMATORS
from presage.estimators._base import (
    NOTHING_KNOWN,
    Estimate,
    EstimateRequest,
    Estimator,
    Knowledge,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


def ask(request: EstimateRequest, knowledge: Knowledge = NOTHING_KNOWN, *, names: Iterable[str] = ()) -> Estimate:
    """Return the first answer; those who had none are named in its details with their reasons.

    `names` are the estimators to ask, in this order; all of the registry if empty. Raises UnsupportedError with
    every reason if none has an answer, UnknownNameError for a name that is not registered.
    """
    declined: dict[str, str] = {}
    for estimator in _candidates(request, knowledge, names):
        try:
            answer = estimator.estimate(request)
        except UnsupportedError as error:
            declined[estimator.name] = error.problem
            continue
        return replace(answer, details={**answer.details, "declined": declined}) if declined else answer
    reasons = "; ".join(f"{name}: {reason}" for name, reason in declined.items()) or "no estimator is installed"
    raise UnsupportedError(f"Nobody can estimate the {request.quantity.value} ({reasons})")


def _candidates(request: EstimateRequest, knowledge: Knowledge, names: Iterable[str]) -> list[Estimator]:
    asked = list(names)
    kinds = [ESTIMATORS.get(name) for name in asked] if asked else list(ESTIMATORS.load_all().values())
    return [kind(knowledge) for kind in kinds if kind.quantity is request.quantity]
