"""Processors and nodes that fail and come back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ProcessorChanges:
    """When a machine loses or regains processors: instants in order, and by how many."""

    at_ms: Ints
    by: Ints
    """Negative where they fail."""

    def check(self, processors: int) -> None:
        """Raise UsageError unless the machine always has from none to all of its processors, and all at last."""
        if len(self.at_ms) != len(self.by) or (np.diff(self.at_ms) < 0).any():
            raise UsageError("Failures and repairs are not in order", expected="one instant for each, ascending")
        there = processors + np.cumsum(self.by)
        if len(there) and (there.min() < 0 or there.max() > processors or there[-1] != processors):
            raise UsageError(
                f"Failures and repairs leave {there.min():,} to {there.max():,} of {processors:,} processors, "
                f"{there[-1]:,} at last",
                expected="from none to all of them, and all after the last repair",
            )


@dataclass(frozen=True)
class ProcessorFailures:
    """Groups of processors, like those of a node, that fail at random and are repaired.

    Times between failures of the whole machine and times to repair are exponential. Nothing fails after the last
    submit of an episode, and nothing that would be more than what is there.
    """

    every_s: float
    """Mean time between two failures."""
    repair_s: float
    """Mean time until what failed is there again."""
    processors: int = 1
    """How many fail at once."""

    def __post_init__(self) -> None:
        if not (self.every_s > 0 and self.repair_s > 0 and self.processors >= 1):
            raise UsageError(
                f"{self.processors} processors cannot fail every {self.every_s} s for {self.repair_s} s",
                expected="times above 0, and at least one processor",
            )

    def draw(self, rng: np.random.Generator, submit_ms: Ints, processors: int) -> ProcessorChanges:
        """Return the failures and repairs of one episode."""
        begin, end = int(submit_ms[0]), int(submit_ms[-1])
        down: list[int] = []
        changes: list[tuple[int, int]] = []
        at = begin + _after(rng, self.every_s)
        while at < end:
            down = [until for until in down if until > at]
            if (len(down) + 1) * self.processors <= processors:
                down.append(at + _after(rng, self.repair_s))
                changes += [(at, -self.processors), (down[-1], self.processors)]
            at += _after(rng, self.every_s)
        changes.sort(key=lambda change: (change[0], -change[1]))  # who comes back may fail at once
        at_ms, by = np.array(changes, np.int64).reshape(-1, 2).T
        return ProcessorChanges(at_ms.copy(), by.copy())


@dataclass(frozen=True)
class NodeChanges:
    """When nodes fail and come back: instants in order, which node, and -1 or 1."""

    at_ms: Ints
    node: Ints
    by: Ints

    def check(self, nodes: int) -> None:
        """Raise UsageError unless each node fails and comes back in turn, and all are there at last."""
        up = np.ones(nodes, np.bool_)
        fine = len(self.at_ms) == len(self.node) == len(self.by) and not (np.diff(self.at_ms) < 0).any()
        for node, by in zip(self.node.tolist(), self.by.tolist(), strict=False):
            fine = fine and 0 <= node < nodes and by == (-1 if up[node] else 1)
            if not fine:
                break
            up[node] = by == 1
        if not (fine and up.all()):
            raise UsageError(
                "Failures and repairs of nodes do not go together",
                expected="instants in order, and each node fails (-1) and comes back (1) in turn",
            )


@dataclass(frozen=True)
class NodeFailures:
    """Nodes that fail at random and are repaired.

    Times between failures of the whole cluster and times to repair are exponential. Nothing fails after the last
    submit of an episode, and the last node that is there does not.
    """

    every_s: float
    """Mean time between two failures."""
    repair_s: float
    """Mean time until a node is there again."""

    def __post_init__(self) -> None:
        if not (self.every_s > 0 and self.repair_s > 0):
            raise UsageError(
                f"Nodes cannot fail every {self.every_s} s for {self.repair_s} s", expected="times above 0"
            )

    def draw(self, rng: np.random.Generator, submit_ms: Ints, nodes: int) -> NodeChanges:
        """Return the failures and repairs of one episode."""
        until = np.full(nodes, -1, np.int64)
        changes: list[tuple[int, int, int]] = []
        at = int(submit_ms[0]) + _after(rng, self.every_s)
        while at < submit_ms[-1]:
            up = np.flatnonzero(until < at)
            if len(up) > 1:
                node = int(rng.choice(up))
                until[node] = at + _after(rng, self.repair_s)
                changes += [(at, node, -1), (int(until[node]), node, 1)]
            at += _after(rng, self.every_s)
        columns = np.array(sorted(changes), np.int64).reshape(-1, 3).T
        return NodeChanges(*(column.copy() for column in columns))


def _after(rng: np.random.Generator, mean_s: float) -> int:
    return max(1, round(rng.exponential(mean_s) * 1000))
