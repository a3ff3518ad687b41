"""`presage simulate` under policies that go by forecasts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from presage.errors import UsageError

if TYPE_CHECKING:
    from presage.learning.evaluation import AnyPolicy
    from presage.learning.simulation import ForecastSimulation
    from presage.traces import Trace


def policy_by_forecasts(text: str) -> AnyPolicy | None:
    """Return the policy that a text names if it goes by forecasts: by name, or as a file or a store; else None."""
    from presage.policies import CLUSTER_ORDERS, ORDERS

    # Loading what learned policies need takes longer than many a simulation by a rule.
    if text in ORDERS or text in CLUSTER_ORDERS or not _may_be_one(text):
        return None
    from presage.foundation.requirements import require_numba
    from presage.learning.naming import policy_named
    from presage.simulator.guided import Decider

    require_numba()
    chosen = policy_named(text)
    return None if isinstance(chosen, Decider) else chosen


def _may_be_one(text: str) -> bool:
    known = ("default", "index", "look-ahead")
    return text in known or Path(text).suffix == ".safetensors" or Path(text).exists()


def check_alone(policy: str, **options: object) -> None:
    """Raise UsageError if an option is given that policies which go by forecasts have no use for."""
    for name, given in options.items():
        if given:
            raise UsageError(
                f"--{name.replace('_', '-')} says nothing to {policy}, which orders one pool of processors by "
                "forecasts",
                remedy="Leave it out, or name a rule",
            )


def simulate_case(trace: Trace, policy: AnyPolicy, processors: int | None) -> ForecastSimulation:
    """Forecast all jobs with the model that comes with Presage, and run a policy on them."""
    from presage.cli._cases import forecast_case
    from presage.cli.model import load_model
    from presage.learning.simulation import simulate_by_forecasts

    return simulate_by_forecasts(trace, forecast_case(trace, load_model(None), processors=processors), policy)
