"""Plug-ins that are OCI images: run without a network, nothing to write to, by whatever runs them here."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from presage.errors import InputError, PresageError
from presage.estimators._base import NOTHING_KNOWN, Knowledge
from presage.estimators.plugins._base import ProcessEstimator
from presage.estimators.plugins._images import read_image
from presage.estimators.plugins._process import Finished, ProcessFailedError, run_limited, small_environment
from presage.estimators.plugins._runners import (
    RUNNERS,
    TOOL_VARIABLES,
    Container,
    Runner,
    choose_runner,
    find_runner,
)
from presage.estimators.plugins.contract import read_refusal

if TYPE_CHECKING:
    from pathlib import Path

    from presage.estimators.plugins.manifest import Manifest

__all__ = ["RUNNERS", "ContainerEstimator", "find_runner", "save_image"]

_PULLING_S = 900.0


class ContainerEstimator(ProcessEstimator):
    """An OCI archive that is run once for each question.

    `runner` is the one to use; by default the first of podman, apptainer and bubblewrap that runs the image here.
    """

    def __init__(
        self,
        manifest: Manifest,
        archive: Path,
        unpacked: Path,
        knowledge: Knowledge = NOTHING_KNOWN,
        *,
        runner: Runner | None = None,
    ) -> None:
        super().__init__(manifest, knowledge)
        self.archive = archive
        self.unpacked = unpacked
        self.runner = runner

    def run(self, document: bytes) -> Finished:
        try:
            container = Container(self.archive, read_image(self.archive), self.unpacked)
        except PresageError as error:
            raise ProcessFailedError(str(error)) from None
        runner = self.runner or choose_runner(container, self.manifest.limits)
        return runner.run(container, document, self.manifest.limits)


def save_image(reference: str, archive: Path) -> None:
    """Write the image that podman or buildah knows by a reference, or can pull, as an OCI archive.

    Raises InputError with what they say if it cannot be had.
    """
    if reference.startswith("-") or not reference:
        raise InputError(f"{reference!r} is no image", expected="a reference like localhost/half:1.0")
    reasons = []
    for tool, save in _SAVING.items():
        found = shutil.which(tool)
        if found is None:
            reasons.append(f"{tool} is not installed")
            continue
        saving = [found, *(word.format(reference=reference, archive=archive) for word in save)]
        problem = _problem_of(saving)
        if problem:  # it is not there yet
            problem = _problem_of([found, "pull", "--quiet", reference]) or _problem_of(saving)
        if not problem:
            return
        reasons.append(f"{tool}: {problem}")
    raise InputError(
        f"The image {reference!r} cannot be had ({'; '.join(reasons)})",
        remedy="Build or pull it with podman or buildah, or give an OCI archive",
    )


_SAVING = {
    "podman": ("save", "--quiet", "--format=oci-archive", "-o", "{archive}", "{reference}"),
    "buildah": ("push", "--quiet", "{reference}", "oci-archive:{archive}"),
}


def _problem_of(command: list[str]) -> str:
    """Return why a command failed; empty if it did not."""
    environment = small_environment(*TOOL_VARIABLES, "REGISTRY_AUTH_FILE")
    try:
        done = run_limited(command, b"", timeout_s=_PULLING_S, environment=environment)
    except ProcessFailedError as error:
        return str(error)
    return "" if done.exit_code == 0 else read_refusal(done.stderr)
