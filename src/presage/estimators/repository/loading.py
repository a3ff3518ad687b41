"""From a manifest and its files to an estimator that can be asked."""

from __future__ import annotations

import importlib
import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from presage.errors import InputError
from presage.estimators import ESTIMATORS
from presage.estimators._base import (
    NOTHING_KNOWN,
    Estimate,
    EstimateRequest,
    Estimator,
    Knowledge,
    Quantity,
)
from presage.estimators.plugins._runners import find_runner
from presage.estimators.plugins.container import ContainerEstimator
from presage.estimators.plugins.guarding import ask_guarded
from presage.estimators.plugins.http import HttpEstimator
from presage.estimators.plugins.manifest import Kind
from presage.estimators.plugins.program import ProgramEstimator
from presage.estimators.repository.pulling import ARCHIVE, Stated, pulled

if TYPE_CHECKING:
    from presage.estimators.plugins.manifest import Manifest

log = logging.getLogger(__name__)


def load_plugin(
    manifest: Manifest, folder: Path, knowledge: Knowledge = NOTHING_KNOWN, *, runner: str | None = None
) -> Estimator:
    """Return the estimator that a manifest describes, with its files in `folder` where it has any.

    Raises InputError for a class that is not installed as described, UnknownNameError for the runner.
    """
    if manifest.kind is Kind.HTTP:
        return HttpEstimator(manifest, knowledge)
    if manifest.kind is Kind.PYTHON:
        return _load_class(manifest, knowledge)
    if manifest.kind is Kind.PROGRAM:
        return ProgramEstimator(manifest, folder, knowledge)
    named = None if runner is None else find_runner(runner)
    return ContainerEstimator(manifest, folder / ARCHIVE, folder.parent / "unpacked", knowledge, runner=named)


def registered_kinds() -> dict[str, type[Estimator]]:
    """Return the estimators of the registry by name; what is registered and is none is logged and left out."""
    found = {}
    for name, kind in ESTIMATORS.load_all().items():
        if (
            isinstance(kind, type)
            and issubclass(kind, Estimator)
            and isinstance(getattr(kind, "quantity", None), Quantity)
            and isinstance(getattr(kind, "version", None), str)
        ):
            found[name] = kind
        else:
            log.warning("What is registered as %s is no estimator and is left out", name)
    return found


def load_registered(name: str, knowledge: Knowledge = NOTHING_KNOWN) -> Estimator | None:
    """Return an estimator of the registry, None if it cannot be made, which is logged."""
    kind = ESTIMATORS.get(name)
    try:
        return kind(knowledge)
    except Exception as error:
        if kind.__module__.startswith("presage."):
            raise
        log.warning("The estimator %s is left out: %s: %s", name, type(error).__name__, error)
        return None


def try_source(
    source: str, request: EstimateRequest, stated: Stated | None = None, *, runner: str | None = None
) -> Estimate:
    """Return the answer of an estimator that is not added. Raises UnsupportedError, and as `pulled` does."""
    with (
        tempfile.TemporaryDirectory(prefix="presage-", ignore_cleanup_errors=True) as home,
        pulled(source, stated or Stated(), Path(home)) as found,
    ):
        return ask_guarded(load_plugin(found.manifest, found.files or Path(home), runner=runner), request)


def _load_class(manifest: Manifest, knowledge: Knowledge) -> Estimator:
    module_name, _, attribute = manifest.target.partition(":")
    try:
        estimator = getattr(importlib.import_module(module_name), attribute)(knowledge)
    except Exception as error:  # noqa: BLE001  (code of strangers may raise anything when it is loaded)
        raise InputError(f"{manifest.target} cannot be loaded: {type(error).__name__}: {error}") from None
    if not isinstance(estimator, Estimator) or str(estimator.version) != manifest.version:
        installed = getattr(estimator, "version", None)
        raise InputError(
            f"{manifest.target} is installed in version {installed}, not {manifest.version}",
            remedy=f"Add python:{manifest.name} again, or install the version that was added",
        )
    return estimator
