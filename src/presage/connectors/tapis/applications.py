"""Applications of Tapis: a container image and how to run it, under a name and a version."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from presage.errors import ClusterRefusedError, UsageError

if TYPE_CHECKING:
    from presage.connectors.tapis.client import TapisClient

INSIDE = ("python3", "-m", "presage.connectors.tapis.inside")
MAX_ID_CHARS = 80
MAX_VERSION_CHARS = 64
_NOT_FOUND = 404
_CONFLICT = 409


class Runtime(StrEnum):
    """What runs the container."""

    SINGULARITY = "SINGULARITY"
    DOCKER = "DOCKER"


@dataclass(frozen=True)
class Application:
    """An image in which the scripts of jobs are run.

    The image must have a `python3` with Presage, and no entry point of its own, or one that runs the arguments it
    gets. Without an image the application must be registered already.
    """

    app_id: str = "presage-job"
    version: str = "1"
    image: str | None = None
    runtime: Runtime = Runtime.SINGULARITY
    command: tuple[str, ...] = INSIDE
    """What runs the job inside the container; empty if the image's entry point does."""
    container_arguments: tuple[str, ...] = ()
    """Arguments of the container runtime, `--bind /scratch` for example."""

    def __post_init__(self) -> None:
        for what, text, most in (
            ("name", self.app_id, MAX_ID_CHARS),
            ("version", self.version, MAX_VERSION_CHARS),
            ("image", self.image or "-", 4096),
        ):
            if not 1 <= len(text) <= most or not text.isprintable():
                raise UsageError(
                    f"{text[:40]!r} cannot be the {what} of an application", expected=f"up to {most} characters"
                )
        if self.runtime not in set(Runtime):
            raise UsageError(f"{self.runtime[:40]!r} runs no containers", expected="SINGULARITY or DOCKER")


def register(client: TapisClient, application: Application) -> bool:
    """Return whether an application was created; False: it is there already.

    Raises ClusterRefusedError if one of the same name and version is there with another image, or none is there
    and no image was named.
    """
    if _is_registered(client, application):
        return False
    if application.image is None:
        raise ClusterRefusedError(
            f"Tapis has no application {application.app_id!r} of version {application.version!r}",
            remedy="Name its container image, and it is created",
        )
    answer = client.ask("POST", "apps", body=_definition(application), accepted=[_CONFLICT])
    if answer.status == _CONFLICT and not _is_registered(client, application):  # another was quicker
        raise ClusterRefusedError(f"Tapis said no ({_CONFLICT}): {answer.message}")
    return answer.status != _CONFLICT


def _is_registered(client: TapisClient, application: Application) -> bool:
    path = ("apps", application.app_id, application.version)
    answer = client.ask("GET", *path, accepted=[_NOT_FOUND])
    if answer.status == _NOT_FOUND:
        return False
    found = answer.result if isinstance(answer.result, dict) else {}
    image, runtime = found.get("containerImage"), found.get("runtime")
    if application.image is not None and (image, runtime) != (application.image, str(application.runtime)):
        raise ClusterRefusedError(
            f"The application {application.app_id!r}, version {application.version!r}, is {image} with {runtime}",
            expected=f"{application.image} with {application.runtime}",
            remedy="Choose another version for the new image",
        )
    return True


def _definition(application: Application) -> dict[str, Any]:
    definition: dict[str, Any] = {
        "id": application.app_id,
        "version": application.version,
        "description": "Runs the scripts of jobs that Presage submits",
        "runtime": str(application.runtime),
        "containerImage": application.image,
        "jobType": "BATCH",
        "tags": ["presage"],
    }
    if application.runtime == Runtime.SINGULARITY:
        definition["runtimeOptions"] = ["SINGULARITY_RUN"]
    return definition
