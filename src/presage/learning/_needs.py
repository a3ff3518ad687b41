"""What learning by reinforcement needs beside the base install."""

from __future__ import annotations

from presage.errors import MissingDependencyError

PACKAGES = ("torch", "stable_baselines3", "sb3_contrib")


def told(missing: ModuleNotFoundError) -> ModuleNotFoundError | MissingDependencyError:
    """Return what to raise for a module that is not there: what to install if it is one of ours, else itself."""
    package = (missing.name or "").partition(".")[0]
    if package not in PACKAGES:
        return missing
    return MissingDependencyError(package, extra="rl", purpose="Learning by reinforcement")
