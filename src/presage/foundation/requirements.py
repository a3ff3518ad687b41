"""What forecasting and training need besides the core of the package."""

from __future__ import annotations

from importlib.util import find_spec

from presage.errors import MissingDependencyError


def require_numba() -> None:
    """Raise MissingDependencyError, which says how to install it, where numba is not there."""
    if find_spec("numba") is None:
        raise MissingDependencyError("numba", extra="forecast", purpose="Forecasting")


def require_torch() -> None:
    """Raise MissingDependencyError, which says how to install it, where torch is not there."""
    if find_spec("torch") is None:
        raise MissingDependencyError("torch", extra="torch", purpose="Training a model")
