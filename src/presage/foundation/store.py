"""The models of one cluster over time: which one is in use, which were tried, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.foundation.model import Model
from presage.foundation.versions import SHIPPED, Attempt, VersionStore

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["SHIPPED", "Attempt", "ModelStore"]


class ModelStore(VersionStore[Model]):
    """A folder of models."""

    noun = "model"
    writer = "presage model update"

    def _load(self, path: Path | None) -> Model:
        return Model.load(path)
