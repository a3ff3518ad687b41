"""Slurm, through its own commands: no part of it is linked, and no daemon or right is needed beyond a user's."""

from __future__ import annotations

from presage.connectors.slurm.connector import SlurmConnector

__all__ = ["SlurmConnector"]
