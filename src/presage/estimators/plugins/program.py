"""Plug-ins that are programs: a subprocess with limits, and with the rights of whoever asks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from presage.estimators._base import NOTHING_KNOWN, Knowledge
from presage.estimators.plugins._base import ProcessEstimator
from presage.estimators.plugins._process import Finished, run_limited, small_environment
from presage.estimators.plugins.contract import API

if TYPE_CHECKING:
    from pathlib import Path

    from presage.estimators.plugins.manifest import Manifest

_OWN_PYTHON = "python3"


class ProgramEstimator(ProcessEstimator):
    """A command that is run once for each question, in the folder of its manifest.

    It is limited in time, memory and output, and inherits a handful of environment variables. That keeps mistakes
    in, not malice: what comes from strangers belongs in a container.
    """

    def __init__(self, manifest: Manifest, folder: Path, knowledge: Knowledge = NOTHING_KNOWN) -> None:
        super().__init__(manifest, knowledge)
        self.folder = folder

    def run(self, document: bytes) -> Finished:
        limits = self.manifest.limits
        return run_limited(
            command_in(self.manifest.entrypoint, self.folder),
            document,
            timeout_s=limits.timeout_s,
            memory_bytes=limits.memory_bytes,
            environment={**small_environment(), "PRESAGE_ESTIMATOR_API": str(API)},
            folder=self.folder,
        )


def command_in(entrypoint: tuple[str, ...], folder: Path) -> list[str]:
    """Return the command of an entry point: it begins with our own Python, a file of the folder, or a command."""
    first, *rest = entrypoint
    if first == _OWN_PYTHON:
        return [sys.executable, *rest]
    own = folder / first
    return [str(own.resolve()) if own.is_file() else first, *rest]
