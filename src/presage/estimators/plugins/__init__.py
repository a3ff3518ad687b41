"""Estimators of other people, three ways with one contract: programs, OCI containers and HTTP servers.

The fourth way, a Python class of an installed package, is an entry point of the group `presage.estimators`.
"""

from __future__ import annotations

from presage.estimators.plugins.container import ContainerEstimator
from presage.estimators.plugins.contract import (
    API,
    BrokenPluginError,
    read_answer,
    read_request,
    write_answer,
    write_request,
)
from presage.estimators.plugins.guarding import ask_guarded
from presage.estimators.plugins.http import HttpEstimator
from presage.estimators.plugins.manifest import Kind, Limits, Manifest, read_manifest
from presage.estimators.plugins.program import ProgramEstimator

__all__ = [
    "API",
    "BrokenPluginError",
    "ContainerEstimator",
    "HttpEstimator",
    "Kind",
    "Limits",
    "Manifest",
    "ProgramEstimator",
    "ask_guarded",
    "read_answer",
    "read_manifest",
    "read_request",
    "write_answer",
    "write_request",
]
