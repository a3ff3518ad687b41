"""What the planes of this process have done so far, counted for those who keep them running."""

from __future__ import annotations

import threading
from collections import defaultdict


class Figures:
    """Counts by name and cluster; any thread may count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], float] = defaultdict(float)

    def add(self, name: str, cluster: str, amount: float = 1) -> None:
        """Count something that was done with a cluster."""
        with self._lock:
            self._counts[name, cluster] += amount

    def all(self) -> dict[tuple[str, str], float]:
        """Return the counts so far."""
        with self._lock:
            return dict(self._counts)


FIGURES = Figures()
"""Of this process."""
