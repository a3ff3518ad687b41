"""What simulating needs besides the core of the package."""

from __future__ import annotations

from presage.errors import MissingDependencyError


def require_numba() -> None:
    """Raise MissingDependencyError, which says how to install it, where numba is not there."""
    try:
        import numba  # noqa: F401
    except ModuleNotFoundError:
        raise MissingDependencyError("numba", extra="simulate", purpose="Simulating") from None
