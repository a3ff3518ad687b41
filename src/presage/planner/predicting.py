"""What a plan predicts, so that it can be compared with what then happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from presage.estimators._base import Basis, Estimate, Quantity
from presage.estimators.repository.carrying import write_predictions

if TYPE_CHECKING:
    from presage.planner.options import Option


def predictions_of(option: Option) -> tuple[dict[str, Any], ...]:
    """Return what an option's estimates say of it, as documents that travel with the job."""
    target = option.placement.target(option.request_s)
    answers = (option.walltime, option.memory, option.wait, _cost(option))
    return write_predictions(option.workload, target, answers)


def _cost(option: Option) -> Estimate | None:
    if option.cost is None or option.cost.p50 <= 0:
        return None
    basis = option.walltime.basis if option.walltime is not None else Basis.STATED
    return Estimate(Quantity.COST, option.cost, basis, "charge", "1")
