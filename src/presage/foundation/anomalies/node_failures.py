"""Nodes and racks whose jobs fail more often than their users' jobs do elsewhere.

Jobs and nodes form a bipartite graph. Each edge carries the outcome of the job and how likely it was to fail
anywhere (see `rates_elsewhere`). A node is bad while a constant high probability explains its edges much better
than these. A job over many nodes accuses all of them: the most suspicious one is believed first, its failures are
explained by it, and the others are judged anew without them. Racks go before nodes where several of their nodes
are concerned.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import polars as pl

from presage.foundation.anomalies._base import HIGHEST_SCORE, Anomaly, Detector, missing
from presage.foundation.anomalies._runs import Runs, Touches, rates_elsewhere, usual_rates
from presage.foundation.anomalies._surprise import ODDS, Streak, looked_at, streaks
from presage.wording import counted

if TYPE_CHECKING:
    from presage.foundation.anomalies._history import Floats, Ints
    from presage.foundation.anomalies.knowledge import Knowledge
    from presage.traces import Trace

_LEAST_FAILURES = 3
_LEAST_NODES_OF_RACK = 3
_TELLING_RUNS = 3
_DOING_WELL = 0.3
_LEAST_RATIO = 2.0  # of failures to those expected
_ONE_NODE = 0.6
_CANDIDATES = 2_000
_LARGEST_RACK = 128
_LAST_NUMBER = re.compile(r"[-_.]?[a-z]{0,2}\d+$", re.IGNORECASE)


class NodeFailures(Detector):
    """Finds nodes and racks on which jobs fail that would not elsewhere."""

    name: ClassVar[str] = "node-failures"
    family: ClassVar[str] = "failures"

    def needs(self, trace: Trace) -> str | None:
        if trace.attempts["node_list"].null_count() < len(trace.attempts):
            return missing(trace, user="users")
        return missing(trace, outcome="outcomes", node_list="lists of nodes", user="users")

    def find(self, known: Knowledge) -> list[Anomaly]:
        runs, edges = known.runs, known.touches
        usual = usual_rates(runs)
        racks = racks_of(known.trace, edges)
        of_racks = [] if racks is None else self._judged(known, runs, racks.edges, usual, racks)
        return of_racks + self._judged(known, runs, edges, usual, None)

    def _judged(
        self, known: Knowledge, runs: Runs, edges: Touches, usual: Floats, racks: Racks | None
    ) -> list[Anomaly]:
        """Return findings about nodes, or about `racks` if the edges are theirs."""
        suspects = _Suspects.of(runs, edges, usual, known.min_score)
        findings = []
        for streak in suspects.candidates(known.min_score)[:_CANDIDATES]:
            stretch = np.arange(streak.first, streak.last + 1)
            failed = runs.failed[suspects.run[stretch]]
            told = known.explained[self.family][runs.row[suspects.run[stretch]]]
            stretch = stretch[~(failed & told)]
            score = suspects.score(stretch)
            if score < known.min_score or not suspects.telling(stretch):
                continue
            bad = suspects.run[stretch][runs.failed[suspects.run[stretch]]]
            if racks is not None and not racks.spread_out(bad, int(suspects.node[streak.first])):
                continue
            findings.append(_finding(known, suspects, stretch, score, "node" if racks is None else "rack"))
            known.explained[self.family][runs.row[bad]] = True
        return findings


@dataclass(frozen=True)
class _Suspects:
    """The edges by node and then by time, with what could be expected of each."""

    runs: Runs
    names: list[str]
    node: Ints
    run: Ints
    expected: Floats
    elsewhere: Floats
    price: Floats

    @classmethod
    def of(cls, runs: Runs, edges: Touches, usual: Floats, min_score: float) -> _Suspects:
        """Return the edges of nodes that are worth a closer look.

        These are the ones with streaks of failures by the users' usual rates; the closer look adds excuses.
        """
        end_ms = runs.end_ms[edges.run]
        price = looked_at(end_ms, np.ones(len(end_ms), np.bool_))
        order = np.argsort(edges.node, kind="stable")
        node, run = edges.node[order], edges.run[order]
        found = streaks(node, runs.failed[run], usual[run], price[order], min_score)
        guilty = np.zeros(len(edges.names), np.bool_)
        guilty[[node[streak.first] for streak in found]] = True
        kept = np.flatnonzero(guilty[edges.node])
        near = Touches(edges.run[kept], edges.node[kept], edges.names)
        expected, elsewhere = rates_elsewhere(runs, near, usual)
        order = np.argsort(near.node, kind="stable")
        columns = (near.node[order], near.run[order], expected[order], elsewhere[order], price[kept][order])
        return cls(runs, edges.names, *columns)

    def candidates(self, min_score: float) -> list[Streak]:
        """Return the streaks of failures, the most surprising first."""
        return streaks(self.node, self.runs.failed[self.run], self.expected, self.price, min_score)

    def score(self, stretch: Ints) -> float:
        """Return the surprise of these edges of one node."""
        failed = self.runs.failed[self.run[stretch]]
        if failed.sum() < _LEAST_FAILURES:
            return 0.0
        likely = np.clip(self.expected[stretch], 1e-4, 1 - 1e-4)
        ratios = [
            np.where(failed, np.log10(odds / likely), np.log10((1 - odds) / (1 - likely))).sum() for odds in ODDS
        ]
        return min(float(max(ratios) - self.price[stretch[-1]] - np.log10(len(ODDS))), HIGHEST_SCORE)

    def telling(self, stretch: Ints) -> bool:
        """Return whether it can be the node: no user has most of the failures, or one that does well elsewhere."""
        bad = stretch[self.runs.failed[self.run[stretch]]]
        if len(bad) < max(_LEAST_FAILURES, _LEAST_RATIO * self.expected[stretch].sum()):
            return False
        users, counts = np.unique(self.runs.user[self.run[bad]], return_counts=True)
        own = bad[self.runs.user[self.run[bad]] == users[np.argmax(counts)]]
        well = np.median(self.elsewhere[own]) >= _TELLING_RUNS and np.median(self.expected[own]) <= _DOING_WELL
        return bool(len(own) <= len(bad) / 2 or well)


@dataclass(frozen=True)
class Racks:
    """The edges between runs and racks, those between runs and nodes, and the rack of each node (-1: unknown)."""

    edges: Touches
    nodes: Touches
    of_node: Ints

    def spread_out(self, bad: Ints, rack: int) -> bool:
        """Return whether runs failed on several nodes of a rack, none of which explains most of them."""
        firsts = np.searchsorted(self.nodes.run, bad)
        lasts = np.searchsorted(self.nodes.run, bad, side="right")
        touched = self.nodes.node[np.concatenate([np.arange(*ends) for ends in zip(firsts, lasts, strict=True)])]
        counts = np.bincount(touched[self.of_node[touched] == rack])
        return bool((counts > 0).sum() >= _LEAST_NODES_OF_RACK and counts.max() <= _ONE_NODE * len(bad))


def racks_of(trace: Trace, nodes: Touches) -> Racks | None:
    """Return the racks of the nodes, or None if they cannot be told.

    They are told by the nodes table, else by names: `cpn-f15-06` is in `cpn-f15`, if that makes several groups of
    a size that racks have.
    """
    told = {node: rack for node, rack in trace.nodes.select("node_id", "rack").iter_rows() if rack is not None}
    racks = [told.get(name) if told else rack_in(name) for name in nodes.names]
    sizes = Counter(rack for rack in racks if rack is not None)
    if len(sizes) < 2 or (not told and max(sizes.values()) > _LARGEST_RACK):
        return None
    names = sorted(sizes)
    number = {name: code for code, name in enumerate(names)}
    of_node = np.array([-1 if rack is None else number[rack] for rack in racks], np.int64)
    kept = (
        pl.DataFrame({"run": nodes.run, "rack": of_node[nodes.node]})
        .filter(pl.col("rack") >= 0)
        .unique(maintain_order=True)
    )
    return Racks(Touches(kept["run"].to_numpy(), kept["rack"].to_numpy(), names), nodes, of_node)


def rack_in(name: str) -> str | None:
    """Return the rack that the name of a node tells of: what stands before its last number, if it has another."""
    shorter = _LAST_NUMBER.sub("", name)
    return shorter if shorter and any(letter.isdigit() for letter in shorter) else None


def _finding(known: Knowledge, suspects: _Suspects, stretch: Ints, score: float, subject: str) -> Anomaly:
    runs = suspects.runs
    members = suspects.run[stretch]
    bad = members[runs.failed[members]]
    expected = float(suspects.expected[stretch].sum())
    name = suspects.names[int(suspects.node[stretch[0]])]
    start_ms, end_ms = runs.end_ms[members[0]], runs.end_ms[members[-1]]
    users = len(np.unique(runs.user[bad]))
    reason = (
        f"{subject} {name}: {len(bad):,} of {len(members):,} runs failed "
        f"{known.between(start_ms, end_ms)}, of {counted(users, 'user')}; what these do elsewhere lets expect "
        f"{expected:.1f}"
    )
    return Anomaly(
        NodeFailures.name, subject, name, int(start_ms), int(end_ms), score, reason,
        evidence=known.ids(runs.row[bad]), jobs=len(np.unique(runs.row[bad])),
        numbers={"failed": len(bad), "runs": len(members), "expected": round(expected, 3), "users": users},
        rows=tuple(runs.row[bad].tolist()),
    )  # fmt: skip
