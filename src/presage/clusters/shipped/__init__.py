"""Systems that come with Presage, as examples and to plan with before anything is set up."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from presage.clusters.systems import System


def shipped_systems() -> dict[str, System]:
    """Return the systems that come with Presage, by name. Needs no database."""
    return dict(_read_all())


@cache
def _read_all() -> dict[str, System]:
    from presage.clusters.documents import read_system

    documents = [item for item in files(__name__).iterdir() if item.name.endswith(".toml")]
    systems = [read_system(item.read_text(encoding="utf-8"), item.name) for item in documents]
    return {system.name: system for system in sorted(systems, key=lambda system: system.name)}
