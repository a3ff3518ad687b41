"""Profiles of steps that were traced before, as JSON files in the user's cache."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from presage.errors import InputError
from presage.estimators.training.profile import PROFILE_VERSION, StepProfile, parse_profile

if TYPE_CHECKING:
    from presage.estimators.training.isolation import Tracer
    from presage.estimators.workloads import TrainingWorkload

log = logging.getLogger(__name__)

TRACING_VERSION = 1
"""Rises with every change to what tracing counts, so that what was counted otherwise is not found again."""


def cache_folder() -> Path:
    """Return where profiles are kept: `presage/profiles` in the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "presage" / "profiles"


class ProfileCache:
    """Profiles by key. Several processes may use one folder; a damaged entry is as good as none."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else cache_folder()

    def get(self, key: str) -> StepProfile | None:
        """Return the profile that was put there under `key`, None if there is none of this version."""
        try:
            profile = parse_profile(json.loads(self._path(key).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, InputError) as error:
            log.warning("The profile %s is traced anew, because its file cannot be used: %s", key[:16], error)
            return None
        return profile if profile.version == PROFILE_VERSION else None

    def put(self, key: str, profile: StepProfile) -> None:
        """Keep a profile; where that is not possible, go on without and say so in the log."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self.folder, suffix=".partial")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as stream:
                    json.dump(profile.as_dict(), stream)
                Path(temporary).replace(self._path(key))
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        except OSError as error:
            log.warning("A profile cannot be kept in %s: %s", self.folder, error)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def profile_key(workload: TrainingWorkload, *, device: str) -> str:
    """Return a hash of everything that decides what tracing a step gives.

    That is the text of the network, its inputs, the options, the device, and the versions of torch and of what
    counts. Runs none of the user's code. Raises InputError where there is no such network.
    """
    from presage.estimators.training.sources import load_source

    source = load_source(workload.model, workload.inputs, workload.input_kinds)
    decisive = [
        source.digest, workload.inputs, workload.input_kinds, asdict(workload.options), device, _torch_version(),
        PROFILE_VERSION, TRACING_VERSION,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def profile_step(
    workload: TrainingWorkload,
    *,
    device: str = "cpu",
    tracer: Tracer | None = None,
    cache: ProfileCache | None = None,
) -> StepProfile:
    """Return what a step takes with the kernels of a `cpu` or a `gpu`: from the cache, or traced and put there.

    Raises InputError where the network cannot be traced, MissingDependencyError where it must be and torch is not
    installed.
    """
    from presage.estimators.training.isolation import shared_tracer

    kept = cache if cache is not None else ProfileCache()
    key = profile_key(workload, device=device)
    profile = kept.get(key)
    if profile is None:
        profile = (tracer or shared_tracer()).profile(workload, device=device)
        kept.put(key, profile)
    return profile


def _torch_version() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""
