"""What the service works with."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from presage.service.answers import TooManyCallsError
from presage.service.offered import OfferedPolicies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from presage.clusters.catalogue import Catalogue
    from presage.orchestrator.store import Store
    from presage.service.callbacks import Callbacks
    from presage.service.tokens import Tokens

_MOST_AT_ONCE = 2
"""Calls that compute for seconds; the rest of the service stays quick beside them."""


class Seats:
    """So many at once, in all and of one user."""

    def __init__(self, most: int, of_one: int) -> None:
        self._most = most
        self._of_one = of_one
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def check(self, user: str) -> None:
        """Raise TooManyCallsError if there is none left."""
        if self._taken.total() >= self._most or self._taken[user] >= self._of_one:
            raise TooManyCallsError("Too many calls of this kind go on at once", remedy="Try again later")

    @contextmanager
    def taken(self, user: str) -> Iterator[None]:
        """Hold one for as long as the block lasts. Raises TooManyCallsError."""
        with self._lock:
            self.check(user)
            self._taken[user] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[user] -= 1
                if not self._taken[user]:
                    del self._taken[user]


@dataclass(frozen=True)
class State:
    """The rooms behind the endpoints, on one database."""

    store: Store
    tokens: Tokens
    callbacks: Callbacks
    catalogue: Catalogue
    clusters: tuple[str, ...] = ()
    """Names that places may use; any if empty."""
    policies: OfferedPolicies = field(default_factory=OfferedPolicies)
    computing: Seats = field(default_factory=lambda: Seats(_MOST_AT_ONCE, _MOST_AT_ONCE))
    streams: Seats = field(default_factory=lambda: Seats(200, 10))
