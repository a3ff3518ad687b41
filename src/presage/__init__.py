"""Presage: learn how a cluster behaves, tell what will happen to a job, and schedule better.

| room | says |
|---|---|
| `presage.traces` | what happened: the job table, readers, writers, cleaning, statistics, workload models |
| `presage.policies` | who goes next, and where |
| `presage.simulator` | what would happen |
| `presage.foundation` | what will happen: forecasts, load, anomalies |
| `presage.config` | the settings, from TOML and the environment |
| `presage.registry` | how every family finds its kinds by name |
| `presage.errors` | the one error tree |
| `presage.testing` | contract suites for plug-in authors |

Importing this package is cheap: it loads no table, plotting or learning library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["Trace", "__version__", "read_trace"]

if TYPE_CHECKING:
    from presage.traces import Trace, read_trace


def __getattr__(name: str) -> object:
    """Load the trace room only when somebody asks for it."""
    if name in {"Trace", "read_trace"}:
        from presage import traces

        return getattr(traces, name)
    raise AttributeError(f"module 'presage' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
