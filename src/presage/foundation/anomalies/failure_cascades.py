"""Failures that follow each other over shared nodes within minutes: jobs of several users, connected.

Failed runs that touch the same node one after the other, at most ten minutes apart, are connected. A connected
part of three or more runs on two or more nodes is judged as a whole: were so many failures to be expected among
all runs that ended on these nodes meanwhile?
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from presage.foundation.anomalies._base import HIGHEST_SCORE, Anomaly, Detector
from presage.foundation.anomalies._runs import Runs, Touches, recent_rates, usual_rates
from presage.foundation.anomalies._surprise import looked_at
from presage.foundation.anomalies.node_failures import NodeFailures

if TYPE_CHECKING:
    from presage.foundation.anomalies._history import Floats, Ints
    from presage.foundation.anomalies.knowledge import Knowledge
    from presage.traces import Trace

WINDOW_MS = 600_000
_LEAST_RUNS = 3
_LEAST_NODES = 2
_LEAST_USERS = 2
_ONE_NODE = 0.7
_ODDS = 0.9
_NAMED = 3


class FailureCascades(Detector):
    """Finds failing jobs that are connected through their nodes."""

    name: ClassVar[str] = "failure-cascade"
    family: ClassVar[str] = "failures"

    def needs(self, trace: Trace) -> str | None:
        return NodeFailures().needs(trace)

    def find(self, known: Knowledge) -> list[Anomaly]:
        runs, edges = known.runs, known.touches
        likely = np.clip(recent_rates(runs, usual_rates(runs)), 1e-4, 1 - 1e-4)
        price = looked_at(runs.end_ms, runs.failed)
        bad = np.flatnonzero(runs.failed[edges.run] & ~known.explained[self.family][runs.row[edges.run]])
        label = connected(runs, edges, bad)
        order = np.argsort(label, kind="stable")
        begins = np.flatnonzero(np.r_[True, np.diff(label[order]) != 0]) if len(order) else order
        findings = []
        for part in np.split(bad[order], begins[1:]):
            members, nodes = np.unique(edges.run[part]), np.unique(edges.node[part])
            users = len(np.unique(runs.user[members]))
            if len(members) < _LEAST_RUNS or len(nodes) < _LEAST_NODES or users < _LEAST_USERS:
                continue
            # What hangs on one node is that node's failure, and told as such.
            if np.bincount(edges.node[part]).max() <= _ONE_NODE * len(members):
                findings += self._judged(known, runs, edges, likely, price, members, nodes)
        return findings

    def _judged(
        self,
        known: Knowledge,
        runs: Runs,
        edges: Touches,
        likely: Floats,
        price: Floats,
        members: Ints,
        nodes: Ints,
    ) -> list[Anomaly]:
        start_ms, end_ms = runs.end_ms[members[0]], runs.end_ms[members[-1]]
        begin, end = np.searchsorted(runs.end_ms, [start_ms, end_ms + 0.5])
        near = slice(*np.searchsorted(edges.run, [begin, end]))
        there = np.unique(edges.run[near][np.isin(edges.node[near], nodes)])
        well = there[~runs.failed[there]]
        gain = np.log10(_ODDS / likely[members]).sum() + np.log10((1 - _ODDS) / (1 - likely[well])).sum()
        score = min(float(gain - price[members[-1]]), HIGHEST_SCORE)
        if score < known.min_score:
            return []
        expected = float(likely[members].sum() + likely[well].sum())
        users = len(np.unique(runs.user[members]))
        names = [edges.names[node] for node in nodes[:_NAMED]]
        more = f" and {len(nodes) - _NAMED:,} more" if len(nodes) > _NAMED else ""
        reason = (
            f"{len(members):,} connected runs of {users:,} users failed on {len(nodes):,} nodes within "
            f"{(end_ms - start_ms) / 60_000:,.1f} min from {known.instant(start_ms)} on, {len(well):,} ended well "
            f"there; {expected:.1f} failures were to be expected"
        )
        known.explained[self.family][runs.row[members]] = True
        return [
            Anomaly(
                self.name, "nodes", ", ".join(names) + more, int(start_ms), int(end_ms), score, reason,
                evidence=known.ids(runs.row[members]), jobs=len(np.unique(runs.row[members])),
                numbers={
                    "failed": len(members), "nodes": len(nodes), "users": users, "expected": round(expected, 3),
                },
                rows=tuple(runs.row[members].tolist()),
            )
        ]  # fmt: skip


def connected(runs: Runs, edges: Touches, bad: Ints) -> Ints:
    """Return a label for each of the edges `bad`, equal where their runs are connected.

    Labels sink to the smallest run of a part: along nodes, along runs, and by jumping to the label of the label.
    """
    run, node = edges.run[bad], edges.node[bad]
    by_node = np.lexsort((run, node))
    one, other = run[by_node[:-1]], run[by_node[1:]]
    near = (node[by_node[:-1]] == node[by_node[1:]]) & (runs.end_ms[other] - runs.end_ms[one] <= WINDOW_MS)
    one, other = one[near], other[near]
    label = np.arange(len(runs))
    while True:
        lowest = np.minimum(label[one], label[other])
        before = label.copy()
        np.minimum.at(label, one, lowest)
        np.minimum.at(label, other, lowest)
        label = label[label]
        if np.array_equal(label, before):
            return label[run]
