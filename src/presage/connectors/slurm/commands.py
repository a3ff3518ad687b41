"""Slurm's commands, run one at a time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from presage.connectors._programs import run_program
from presage.connectors.slurm.words import UNREACHABLE, is_busy
from presage.errors import ClusterBusyError, ClusterRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S = 60.0
# Times as seconds since 1970 and no zone to guess; a job would inherit these, so `sbatch` does without them.
_CLOCK = {"SLURM_TIME_FORMAT": "%s", "TZ": "UTC0"}


@dataclass(frozen=True)
class SlurmCommands:
    """How the commands are run: in which environment (None: this process's own) and how long at most."""

    environment: Mapping[str, str] | None = None
    timeout_s: float = TIMEOUT_S

    def run(self, program: str, *arguments: str) -> str:
        """Return what a command prints; times in it are seconds since 1970. Raises ConnectorError."""
        return self._run({**self.ambient(), **_CLOCK}, program, *arguments)[0]

    def remark(self, program: str, *arguments: str) -> str:
        """Return what a command says on its standard error, with times as in `run`. Raises ConnectorError."""
        return self._run({**self.ambient(), **_CLOCK}, program, *arguments)[1]

    def submit(self, *arguments: str) -> str:
        """Return what `sbatch` prints, run in the environment that the job may inherit. Raises ConnectorError."""
        return self._run(self.ambient(), "sbatch", *arguments)[0]

    def ambient(self) -> dict[str, str]:
        """Return the environment without our own settings, which are no business of a job."""
        given = os.environ if self.environment is None else self.environment
        return {name: value for name, value in given.items() if not name.startswith("PRESAGE_")}

    def _run(self, environment: Mapping[str, str], program: str, *arguments: str) -> tuple[str, str]:
        try:
            return run_program(
                [program, *arguments],
                environment=environment,
                timeout_s=self.timeout_s,
                remedy="Install Slurm's commands here (package slurm-client), or go to a login node",
                unreachable=UNREACHABLE,
                elsewhere="Run it where Slurm's own commands work, on a login node; `sinfo` shows whether they do",
            )
        except ClusterRefusedError as error:
            if not is_busy(error.problem):
                raise
            raise ClusterBusyError(error.problem, remedy="Submit it again when fewer jobs wait") from None
