"""Slurm, through slurmrestd: nothing of Slurm is needed on this machine but the address of that daemon.

Written for and tested with Slurm 22.05, whose OpenAPI plug-ins are v0.0.36 to v0.0.38. Later ones name and shape
things otherwise.
"""

from __future__ import annotations

from presage.connectors.slurm.rest.connector import SlurmRestConnector

__all__ = ["SlurmRestConnector"]
