"""Values in the JSON of Slurm, whose shape changed over the years: a word became a list, a number an object."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from presage.traces.readers._cells import MAX_EPOCH_S
from presage.traces.readers.slurm.node_lists import expand_nodes
from presage.traces.readers.slurm.records import note_unread_texts
from presage.traces.readers.slurm.texts import INFINITE_32, MISSING, NO_VALUE_32, NO_VALUE_64

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.readers.slurm.texts import Tres


class Json:
    """A JSON value that is asked for parts which it may lack, or have in another type."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def at(self, *path: str) -> Any:
        """Return what stands there, None if there is nothing."""
        value = self._value
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def text(self, *path: str) -> str | None:
        """Return a text that is not blank."""
        value = self.at(*path)
        if not isinstance(value, str) or not value.strip():
            return None
        return value.strip().encode("utf-8", errors="replace").decode()

    def number(self, *path: str) -> float | None:
        """Return a number, bare or as {"set": …, "infinite": …, "number": …}; infinity is math.inf."""
        value = self.at(*path)
        if isinstance(value, dict):
            if value.get("infinite") is True:
                return math.inf
            value = value.get("number") if value.get("set") is not False else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if value in {NO_VALUE_32, NO_VALUE_64} or math.isnan(value):
            return None
        return math.inf if value == INFINITE_32 else float(min(max(value, -(2**63)), 2**63))

    def integer(self, *path: str) -> int | None:
        """Return a finite number, rounded."""
        value = self.number(*path)
        return round(value) if value is not None and abs(value) < 2**63 else None

    def time_ms(self, *path: str) -> int | None:
        """Return a time in milliseconds; 0 is how Slurm says "not yet"."""
        seconds = self.number(*path)
        return round(seconds * 1000) if seconds and 0 < seconds <= MAX_EPOCH_S else None

    def objects(self, *path: str) -> list[Json]:
        """Return the objects of a list."""
        value = self.at(*path)
        return [Json(item) for item in value if isinstance(item, dict)] if isinstance(value, list) else []

    def words(self, *path: str) -> list[str]:
        """Return the texts of a list, or the one that stands there alone."""
        value = self.at(*path)
        return [word for word in (value if isinstance(value, list) else [value]) if isinstance(word, str) and word]


def not_negative(value: float | None) -> float | None:
    """Return the value; None if it is negative or beyond all counting."""
    return value if value is not None and 0 <= value < 2.0**63 else None


def node_names(text: str | None, into: TraceBuilder) -> list[str] | None:
    """Return the names in a list of nodes; one that cannot be read is counted."""
    if text is None or text in MISSING:
        return None
    names = _expanded(text)
    if names is None:
        note_unread_texts(1, "node_lists", into)
    return names


def given_columns(given: Tres, nodes: str | None, into: TraceBuilder) -> dict[str, Any]:
    """Return the columns of what a job was given, and on which nodes."""
    return {
        "cpus_alloc": given.cpus,
        "nodes_alloc": given.nodes,
        "mem_alloc_bytes": given.mem_bytes,
        "gpus_alloc": given.gpus,
        "gpu_type": given.gpu_type,
        "alloc_known": given.cpus is not None,
        "has_start": True,
        "has_nodes": nodes is not None and nodes not in MISSING,
        "node_list": node_names(nodes, into),
    }


@lru_cache(maxsize=10_000)
def _expanded(text: str) -> list[str] | None:
    return expand_nodes(text)
