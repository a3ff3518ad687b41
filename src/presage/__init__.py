"""Presage: learn how a cluster behaves, tell what will happen to a job, and schedule better.

| room | says |
|---|---|
| `presage.traces` | what happened: the job table, readers, writers, cleaning, statistics, workload models |
| `presage.clusters` | what there is: systems, partitions, limits, prices |
| `presage.policies` | who goes next, and where |
| `presage.simulator` | what would happen |
| `presage.connectors` | the only code that talks to a cluster |
| `presage.foundation` | what will happen: forecasts, load, anomalies |
| `presage.estimators` | what a job will need: memory, wall time, wait, cost |
| `presage.planner` | where and when to run it |
| `presage.orchestrator` | runs the plan to its end |
| `presage.service` | all of it over HTTP |
| `presage.helper` | `estimate`, `plan`, `submit`, `watch`, for notebooks |
| `presage.client` | what training loops use; needs no other room |
| `presage.config` | the settings, from TOML and the environment |
| `presage.registry` | how every family finds its kinds by name |
| `presage.errors` | the one error tree |
| `presage.testing` | contract suites for plug-in authors |

Importing this package is cheap: it loads no table, plotting or learning library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["Trace", "__version__", "estimate", "plan", "read_trace", "submit", "track", "watch"]

if TYPE_CHECKING:
    from presage.client import track
    from presage.helper import estimate, plan, submit, watch
    from presage.traces import Trace, read_trace

_HOMES = {
    "Trace": "traces",
    "estimate": "helper",
    "plan": "helper",
    "read_trace": "traces",
    "submit": "helper",
    "track": "client",
    "watch": "helper",
}


def __getattr__(name: str) -> object:
    """Load a room only when somebody asks for it."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"presage.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'presage' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
