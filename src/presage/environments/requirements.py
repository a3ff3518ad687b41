"""What the environments need besides the core of the package."""

from __future__ import annotations

from importlib import import_module

from presage.errors import MissingDependencyError


def require_learn() -> None:
    """Raise MissingDependencyError, which says how to install it, where numba or Gymnasium is not there."""
    for name in ("numba", "gymnasium"):
        try:
            import_module(name)
        except ModuleNotFoundError:
            raise MissingDependencyError(name, extra="learn", purpose="Learning in environments") from None
