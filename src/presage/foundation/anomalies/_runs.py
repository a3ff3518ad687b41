"""Who ran where and how it ended: the bipartite graph of runs and nodes, and how likely failures were."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from presage.foundation.anomalies._history import Bools, Floats, History, Ints
from presage.foundation.anomalies._surprise import DAY_MS
from presage.foundation.anomalies.knowledge import FAILURES, Knowledge
from presage.traces.schema import Outcome

_ENDED = [Outcome.COMPLETED.value, Outcome.TIMEOUT.value, *FAILURES]
_WEIGHT = 10.0
_PRIOR = 0.05
_LATEST = 20


@dataclass(frozen=True)
class Runs:
    """Stretches of running that ended well or badly, in the order of their ends.

    A job has one, or with a log of attempts several. Who was cancelled or preempted tells nothing and is left out.
    """

    row: Ints
    """Row of the job table."""
    end_ms: Floats
    failed: Bools
    user: Ints
    nodes: pl.Series
    """The lists of nodes."""

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class Touches:
    """The edges of the graph: which run touched which node, by run and so in the order of time."""

    run: Ints
    node: Ints
    names: list[str]


def runs_of(known: Knowledge) -> Runs:
    """Return the runs of the jobs: from attempts where a job has any, else from the job itself."""
    jobs = known.trace.jobs.with_row_index("row")
    own = jobs.select(
        pl.col("row").cast(pl.Int64),
        pl.Series("end_ms", known.end_ms),
        "outcome",
        "node_list",
    )
    attempts = known.trace.attempts
    if len(attempts):
        tried = attempts.join(jobs.select("job_id", "row"), on="job_id", how="inner", maintain_order="left")
        own = own.join(tried.select(pl.col("row").cast(pl.Int64)), on="row", how="anti", maintain_order="left")
        rows = tried.select(
            pl.col("row").cast(pl.Int64), pl.col("end_ms").cast(pl.Float64), "outcome", "node_list"
        )
        own = pl.concat([own, rows])
    ended = pl.col("outcome").is_in(_ENDED) & pl.col("end_ms").is_finite()
    kept = own.filter(ended).sort("end_ms", maintain_order=True)
    row = kept["row"].to_numpy()
    failed = kept.select(pl.col("outcome").is_in(FAILURES)).to_series().to_numpy().astype(np.bool_)
    return Runs(row, kept["end_ms"].to_numpy(), failed, known.users[row], kept["node_list"])


def touches_of(runs: Runs) -> Touches:
    """Return the edges between runs and nodes; a node that a run lists twice is touched once."""
    edges = (
        pl.DataFrame({"run": np.arange(len(runs)), "node": runs.nodes})
        .filter(pl.col("node").list.len() > 0)
        .explode("node")
        .drop_nulls()
        .unique(maintain_order=True)
    )
    names = edges["node"].unique(maintain_order=True)
    codes = edges.join(
        pl.DataFrame({"node": names, "code": np.arange(len(names))}), on="node", how="left", maintain_order="left"
    )["code"]
    return Touches(edges["run"].to_numpy(), codes.to_numpy().astype(np.int64), names.to_list())


def usual_rates(runs: Runs) -> Floats:
    """Return each user's share of failures in all their earlier runs, drawn towards everybody's where these are
    few.
    """
    place = np.arange(len(runs), dtype=np.float64)
    failed = runs.failed.astype(np.float64)
    earlier = np.concatenate([[0.0], np.cumsum(failed)[:-1]])
    of_all = (earlier + _WEIGHT * _PRIOR) / (place + _WEIGHT)
    past = History(runs.user, place)
    since, until = past.first(runs.user), past.before(runs.user, place)
    return (past.total(failed, since, until) + _WEIGHT * of_all) / (until - since + _WEIGHT)


def recent_rates(runs: Runs, usual: Floats) -> Floats:
    """Return how likely each run was to fail, from the user's usual rate and their latest runs."""
    place = np.arange(len(runs), dtype=np.float64)
    bad, number = _latest(runs, runs.user, place, runs.user, place, _recent_since(runs))
    return _blend(bad, number, usual)


def rates_elsewhere(runs: Runs, edges: Touches, usual: Floats) -> tuple[Floats, Floats]:
    """Return, for each edge, how likely the run was to fail wherever it ran, and how many runs tell so.

    That is the user's usual rate, corrected by those of their latest runs that did not touch this node: a broken
    program fails everywhere, and a bad node only here.
    """
    order, user = edges.run.astype(np.float64), runs.user[edges.run]
    since = _recent_since(runs)[edges.run]
    bad, number = _latest(runs, runs.user, np.arange(len(runs), dtype=np.float64), user, order, since)
    pair = np.unique(user * np.int64(len(edges.names) + 1) + edges.node, return_inverse=True)[1].astype(np.int64)
    bad_here, number_here = _latest(runs, pair.ravel(), order, pair.ravel(), order, since)
    number = np.maximum(number - number_here, 0)
    return _blend(bad - bad_here, number, usual[edges.run]), number


def _recent_since(runs: Runs) -> Floats:
    """Return, for each run, the run with which the user's latest begin: so many, and not older than a day."""
    place = np.arange(len(runs), dtype=np.float64)
    past = History(runs.user, place)
    back = np.maximum(past.before(runs.user, place) - _LATEST, past.first(runs.user))
    by_number = past.order[back].astype(np.float64) if len(runs) else place
    return np.maximum(by_number, np.searchsorted(runs.end_ms, runs.end_ms - DAY_MS))


def _latest(
    runs: Runs, group: Ints, order: Floats, asked: Ints, asked_order: Floats, since: Floats
) -> tuple[Floats, Floats]:
    """Return failures and runs of groups from `since` until each run asked for; `order` has places of runs."""
    past = History(group, order)
    begin, end = past.before(asked, since), past.before(asked, asked_order)
    failed = runs.failed[order.astype(np.int64)].astype(np.float64)
    return past.total(failed, begin, end), (end - begin).astype(np.float64)


def _blend(bad: Floats, number: Floats, usual: Floats) -> Floats:
    # A few runs that went well do not make the next failure a surprise; a few that failed excuse it.
    blended = (np.maximum(bad, 0) + _WEIGHT / 2 * usual) / (np.maximum(number, 0) + _WEIGHT / 2)
    return np.maximum(blended, usual)
