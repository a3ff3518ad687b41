"""When nodes fail and come back: drawn once per seed, the same whatever the policy does."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from presage.simulator.detailed.conditions import Failures
    from presage.simulator.jobs import IntArray

_HOUR_MS = 3_600_000
_NODE, _RACK = 0, 1


class Outage(NamedTuple):
    """A node that is away from one instant to another."""

    node: int
    from_ms: int
    to_ms: int


def draw_outages(failures: Failures, racks: IntArray, begin_ms: int, end_ms: int) -> list[Outage]:
    """Return the failures that begin before `end_ms`; `racks` is the rack of every node.

    More time only adds outages: those before stay as they are.
    """
    outages: list[Outage] = []
    if failures.node_mtbf_h is not None:
        for node in range(len(racks)):
            spans = _spans(failures.seed, _NODE, node, failures.node_mtbf_h, failures.node_repair_h)
            outages += [Outage(node, *span) for span in _between(spans, begin_ms, end_ms)]
    if failures.rack_mtbf_h is not None:
        for rack in np.unique(racks).tolist():
            members = np.flatnonzero(racks == rack).tolist()
            spans = _spans(failures.seed, _RACK, rack, failures.rack_mtbf_h, failures.rack_repair_h)
            outages += [Outage(node, *span) for span in _between(spans, begin_ms, end_ms) for node in members]
    return outages


def _spans(seed: int, what: int, number: int, mtbf_h: float, repair_h: float) -> Iterator[tuple[float, float]]:
    """Give the outages of one node or rack without end, in milliseconds from 0."""
    rng = np.random.default_rng((seed, what, number))
    clock = 0.0
    while True:
        clock += rng.exponential(mtbf_h * _HOUR_MS)
        back = clock + rng.exponential(repair_h * _HOUR_MS)
        yield clock, back
        clock = back


def _between(spans: Iterator[tuple[float, float]], begin_ms: int, end_ms: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for down, up in spans:
        if begin_ms + down >= end_ms:
            return found
        found.append((begin_ms + int(down), begin_ms + int(up) + 1))
    return found
