"""Tapis v3, a service that runs containers on the clusters of many sites: its jobs, systems and applications."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from presage.connectors.tapis.applications import Application, Runtime
    from presage.connectors.tapis.connector import TapisConnector

__all__ = ["Application", "Runtime", "TapisConnector"]


def __getattr__(name: str) -> object:
    """Load the connector only when somebody asks: `inside` runs in containers that have Python and little else."""
    if name == "TapisConnector":
        from presage.connectors.tapis.connector import TapisConnector

        return TapisConnector
    if name in __all__:
        from presage.connectors.tapis import applications

        return getattr(applications, name)
    raise AttributeError(f"module 'presage.connectors.tapis' has no attribute {name!r}")
