"""The only code that talks to a cluster: jobs go in, what became of them comes out; and what there is.

`Connector` is what every kind can do. What only some can do (estimate starts, read history, discover) is a class
of its own that a kind also derives from, so that `isinstance(connector, Discovers)` answers whether it can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.registry import Registry, Spec

if TYPE_CHECKING:
    from presage.connectors._base import (
        Connector,
        Discovers,
        EstimatesStarts,
        HoldsJobs,
        JobStatus,
        KeepsMessages,
        ReadsHistory,
        SharesFiles,
        SignalsJobs,
        Submission,
    )

__all__ = [
    "CONNECTORS",
    "Connector",
    "Discovers",
    "EstimatesStarts",
    "HoldsJobs",
    "JobStatus",
    "KeepsMessages",
    "ReadsHistory",
    "SharesFiles",
    "SignalsJobs",
    "Submission",
]

_HERE = "presage.connectors"

CONNECTORS: Registry[type[Connector]] = Registry(
    "connector",
    "presage.connectors",
    [
        Spec("local", f"{_HERE}.local:LocalConnector", "processes on this machine, with limits and a queue"),
        Spec(
            "simulated", f"{_HERE}.simulated:SimulatedConnector", "a cluster in simulated time that runs nothing"
        ),
        Spec("slurm", f"{_HERE}.slurm:SlurmConnector", "Slurm, through its own commands"),
        Spec("slurm-rest", f"{_HERE}.slurm.rest:SlurmRestConnector", "Slurm, through slurmrestd"),
        Spec("tapis", f"{_HERE}.tapis:TapisConnector", "Tapis v3, which runs containers on many sites' clusters"),
    ],
)


def __getattr__(name: str) -> object:
    """Load the types only when somebody asks: the runner of a local job must stay small."""
    if name in __all__:
        from presage.connectors import _base

        return getattr(_base, name)
    raise AttributeError(f"module 'presage.connectors' has no attribute {name!r}")
