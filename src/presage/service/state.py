"""What the service works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from presage.clusters.catalogue import Catalogue
    from presage.orchestrator.store import Store
    from presage.service.tokens import Tokens


@dataclass(frozen=True)
class State:
    """The rooms behind the endpoints, on one database."""

    store: Store
    tokens: Tokens
    catalogue: Catalogue
    clusters: tuple[str, ...] = ()
    """Names that places may use."""
