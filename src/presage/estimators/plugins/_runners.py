"""What runs a container: podman, apptainer, bubblewrap, no container at all, or Tapis elsewhere."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import json
import shutil
import tempfile
import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from presage.errors import ConfigError, ConnectorError, PresageError, UnknownNameError, UsageError
from presage.estimators.plugins._images import Image, unpack_image
from presage.estimators.plugins._process import Finished, ProcessFailedError, run_limited, small_environment
from presage.estimators.plugins.contract import (
    EXIT_BAD_REQUEST,
    EXIT_UNSUPPORTED,
    REQUEST_VARIABLE,
    printable,
    read_refusal,
)
from presage.estimators.plugins.manifest import LABEL
from presage.estimators.plugins.program import command_in

if TYPE_CHECKING:
    from presage.connectors.tapis.applications import Application
    from presage.estimators.plugins.manifest import Limits

NOBODY = "65534"
_STARTING_S = 15.0
"""What a tool may take beside the program: unpacking, mounting, cleaning up."""
_LOADING_S = 300.0
TOOL_VARIABLES = (
    "HOME", "USER", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS",
    "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "APPTAINER_CACHEDIR", "APPTAINER_TMPDIR",
)  # fmt: skip
_TOOL_FAILED = 125
_IN_QUEUE_S = 900.0
"""How long an answer may take that comes by way of a cluster's queue."""


@dataclass(frozen=True)
class Container:
    """An image on disk."""

    archive: Path
    image: Image
    unpacked: Path
    """Where its files may be unpacked."""


class Runner(ABC):
    """Runs the command of an image once: no network, nothing to write to, nobody's rights, limits."""

    name: str
    tool: str
    """The command that must be installed; empty: none."""
    is_tried: bool = True
    """Whether it may be chosen without being named."""

    @abstractmethod
    def run(self, container: Container, document: bytes, limits: Limits) -> Finished:
        """Return what the image's command did with the request. Raises ProcessFailedError."""

    def is_installed(self) -> bool:
        """Return whether its tool is to be found."""
        return not self.tool or shutil.which(self.tool) is not None

    def call(self, words: list[str], given: bytes, timeout_s: float, memory_bytes: int | None = None) -> Finished:
        """Return what the tool did. It works in a folder of its own: some leave files where they are called."""
        environment = small_environment(*TOOL_VARIABLES)
        tool = shutil.which(self.tool) or self.tool
        with tempfile.TemporaryDirectory(prefix="presage-", ignore_cleanup_errors=True) as folder:
            return run_limited(
                [tool, *words], given, timeout_s=timeout_s, environment=environment, folder=Path(folder),
                memory_bytes=memory_bytes,
            )  # fmt: skip


class Podman(Runner):
    """podman, with or without root. `options` come before its command, like `--runtime`."""

    name = "podman"
    tool = "podman"

    def __init__(self, *options: str) -> None:
        self.options = options

    def run(self, container: Container, document: bytes, limits: Limits) -> Finished:
        self._load(container)
        name = f"presage-{uuid.uuid4().hex}"
        words = [
            *self.options, "run", "--rm", "--interactive", "--name", name, "--pull=never", "--log-driver=none",
            "--network=none", "--read-only", "--read-only-tmpfs=false", "--cap-drop=all",
            "--security-opt=no-new-privileges", f"--user={NOBODY}:{NOBODY}", f"--memory={limits.memory_bytes}",
            f"--pids-limit={limits.processes}", f"--timeout={int(limits.timeout_s) + 1}",
            container.image.config_digest.partition(":")[2],
        ]  # fmt: skip
        try:
            finished = self.call(words, document, limits.timeout_s + _STARTING_S)
        except ProcessFailedError:
            with contextlib.suppress(ProcessFailedError):  # or it would go on without us
                self.call([*self.options, "rm", "--force", "--ignore", name], b"", _STARTING_S)
            raise
        if finished.exit_code == _TOOL_FAILED:
            raise ProcessFailedError(read_refusal(finished.stderr))
        return finished

    def _load(self, container: Container) -> None:
        known = container.image.config_digest.partition(":")[2]
        if self.call([*self.options, "image", "exists", known], b"", _STARTING_S).exit_code == 0:
            return
        loaded = self.call([*self.options, "load", "--quiet", "-i", str(container.archive)], b"", _LOADING_S)
        if loaded.exit_code != 0:
            raise ProcessFailedError(f"the image cannot be loaded: {read_refusal(loaded.stderr)}")


class Apptainer(Runner):
    """apptainer, as sites have it."""

    name = "apptainer"
    tool = "apptainer"

    def run(self, container: Container, document: bytes, limits: Limits) -> Finished:
        words = [
            "--quiet", "run", "--containall", "--cleanenv", "--no-home", "--no-privs", "--net", "--network=none",
            f"--memory={limits.memory_bytes}", f"--pids-limit={limits.processes}",
            f"oci-archive:{container.archive}",
        ]  # fmt: skip
        return self.call(words, document, limits.timeout_s + _STARTING_S)


class Bubblewrap(Runner):
    """bubblewrap over the unpacked image. It limits memory and time, not the number of processes."""

    name = "bubblewrap"
    tool = "bwrap"

    def run(self, container: Container, document: bytes, limits: Limits) -> Finished:
        root = _unpacked(container)
        image = container.image
        if not image.command:
            raise ProcessFailedError("the image has no entry point")
        variables = [word for pair in image.environment.items() for word in ("--setenv", *pair)]
        words = [
            "--ro-bind", str(root), "/", "--proc", "/proc", "--dev", "/dev", "--unshare-all", "--uid", NOBODY,
            "--gid", NOBODY, "--cap-drop", "ALL", "--die-with-parent", "--new-session", "--clearenv", *variables,
            "--chdir", image.working_folder, "--", *image.command,
        ]  # fmt: skip
        return self.call(words, document, limits.timeout_s, limits.memory_bytes)


class Subprocess(Runner):
    """No container: the command in the unpacked working folder, with our Python and the rights of whoever asks."""

    name = "subprocess"
    tool = ""
    is_tried = False

    def run(self, container: Container, document: bytes, limits: Limits) -> Finished:
        root = _unpacked(container)
        folder = (root / container.image.working_folder.lstrip("/")).resolve()
        if not container.image.command or not folder.is_relative_to(root.resolve()):
            raise ProcessFailedError("the image has no entry point that runs outside of it")
        return run_limited(
            command_in(container.image.command, folder),
            document,
            timeout_s=limits.timeout_s,
            memory_bytes=limits.memory_bytes,
            environment=small_environment(),
            folder=folder,
        )


class Tapis(Runner):
    """An application of the Tapis of the settings, whose image is not this one but the same one in a registry.

    The image says by labels that it reads requests from a variable (`presage.estimator.request="variable"`: Tapis
    gives it no standard input) and where it is to be had (`presage.estimator.published`; else it is looked for in
    the registry of the settings). The same question to the same image is one job, however often it is asked.
    """

    name = "tapis"
    tool = ""
    is_tried = False

    def run(self, container: Container, document: bytes, limits: Limits) -> Finished:
        from presage.connectors.tapis import TapisConnector
        from presage.connectors.tapis.payload import MAX_CHARS
        from presage.connectors.tapis.programs import run_image

        image = container.image
        if image.labels.get(f"{LABEL}request") != "variable":
            raise ProcessFailedError(
                f"its image does not say that it reads {REQUEST_VARIABLE}, by the label {LABEL}request=variable"
            )
        packed = base64.urlsafe_b64encode(gzip.compress(document, mtime=0)).decode()
        if len(packed) > MAX_CHARS:
            return Finished(EXIT_UNSUPPORTED, b"the request is too long for Tapis", b"")
        try:
            application = _application(image)
            asked = f"{application}\0{image.config_digest}\0{packed}"
            result = run_image(
                TapisConnector(application=application),
                f"estimate-{hashlib.sha256(asked.encode()).hexdigest()[:40]}",
                {REQUEST_VARIABLE: packed},
                memory_bytes=limits.memory_bytes,
                walltime_s=limits.timeout_s,
                timeout_s=limits.timeout_s + _IN_QUEUE_S,
            )
        except (ConnectorError, ConfigError, UsageError) as error:
            raise ProcessFailedError(str(error)) from None
        return Finished(result.exit_code, _answer_among(result.output), result.output)


_HELD_BACK = {
    "SINGULARITY": ("--containall",),
    "DOCKER": ("--network none", "--read-only", "--cap-drop all", f"--user {NOBODY}:{NOBODY}"),
}
"""What keeps a stranger's image from the home of whoever asks, as far as a site lets it be said."""


def _application(image: Image) -> Application:
    from presage.connectors.tapis.applications import Application
    from presage.connectors.tapis.defaults import TapisDefaults

    settings = TapisDefaults()
    name, version = (image.labels.get(f"{LABEL}{what}", "") for what in ("name", "version"))
    published = image.labels.get(f"{LABEL}published")
    if not published and settings.registry:
        published = f"{settings.registry.rstrip('/')}/{name}:{version}"
    return Application(
        app_id=f"estimator-{name}",
        version=version,
        image=published or None,
        runtime=settings.runtime,
        command=(),
        container_arguments=_HELD_BACK[settings.runtime],
    )


def _answer_among(printed: bytes) -> bytes:
    """Return the last line that is a document; all that was printed if none is."""
    for line in reversed(printed.splitlines()):
        with contextlib.suppress(ValueError, RecursionError):
            if isinstance(json.loads(line), dict):
                return line
    return printed


RUNNERS: dict[str, Runner] = {
    runner.name: runner for runner in (Podman(), Apptainer(), Bubblewrap(), Subprocess(), Tapis())
}
"""In the order in which they are tried."""
_working: dict[str, str] = {}
_HINT = "runner"
"""File beside the unpacked image, with the name of the runner that worked last time."""


def find_runner(name: str) -> Runner:
    """Return the runner of that name. Raises UnknownNameError."""
    if name not in RUNNERS:
        raise UnknownNameError("runner of containers", name, RUNNERS)
    return RUNNERS[name]


def choose_runner(container: Container, limits: Limits) -> Runner:
    """Return the first runner that really runs this image here, remembered for the life of the process; the next
    one tries it first.

    Raises ProcessFailedError with the reason of each if none does.
    """
    known = _working.get(container.image.config_digest)
    if known is not None:
        return RUNNERS[known]
    reasons = []
    hint = container.unpacked.with_name(_HINT)
    for runner in _in_order(hint):
        reason = why_not(runner, container, limits)
        if not reason:
            _working[container.image.config_digest] = runner.name
            with contextlib.suppress(OSError):
                hint.write_text(runner.name)
            return runner
        reasons.append(f"{runner.name}: {reason}")
    raise ProcessFailedError(f"nothing here runs its image ({'; '.join(reasons)})")


def _in_order(hint: Path) -> list[Runner]:
    """Return the runners that may be chosen, first the one that worked last time."""
    try:
        last = hint.read_text()
    except (OSError, ValueError):
        last = ""
    tried = [runner for runner in RUNNERS.values() if runner.is_tried]
    return sorted(tried, key=lambda runner: runner.name != last)


def why_not(runner: Runner, container: Container, limits: Limits) -> str:
    """Return why a runner does not run an image; empty if it does.

    The program is given an empty document, which it must refuse as a bad request: nothing else exits like that.
    """
    if not runner.is_installed():
        return f"{runner.tool} is not installed"
    try:
        finished = runner.run(container, b"{}", limits)
    except ProcessFailedError as error:
        return printable(str(error))
    if finished.exit_code == EXIT_BAD_REQUEST:
        return ""
    return f"exit code {finished.exit_code} for a bad request: {read_refusal(finished.stderr, finished.stdout)}"


def _unpacked(container: Container) -> Path:
    try:
        return unpack_image(container.archive, container.image, container.unpacked)
    except PresageError as error:
        raise ProcessFailedError(str(error)) from None
