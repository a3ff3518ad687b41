"""The model that comes with Presage, read once."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from presage.foundation.model import Model


@cache
def shipped_model() -> Model:
    """Return the model. Raises MissingDependencyError without numba."""
    from presage.foundation.model import Model
    from presage.foundation.requirements import require_numba

    require_numba()
    return Model.load()
