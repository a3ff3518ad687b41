"""One function per kind of anomaly that changes a few jobs so that it is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.foundation.anomalies._history import Bools, Floats, Ints, codes_of
from presage.foundation.anomalies.node_failures import rack_in
from presage.traces.schema import OUTCOME, Outcome, size

if TYPE_CHECKING:
    from presage.traces import Trace

Made = tuple[str, str, Ints, float, float]
"""Subject, name, rows, start and end of an anomaly."""
Injector = Callable[["Draft", np.random.Generator], Made | None]

HOUR_MS = 3_600_000.0
DAY_MS = 24 * HOUR_MS
_TRIES = 40


class Draft:
    """The columns of a trace that injectors change, as arrays; nan is null."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        jobs = trace.jobs
        self.submit = _floats(jobs, "submit_ms")
        self.start = _floats(jobs, "start_ms")
        self.end = _floats(jobs, "end_ms")
        self.run = _floats(jobs, "run_s")
        self.limit = _floats(jobs, "limit_s")
        self.cpu_used = _floats(jobs, "cpu_used_s")
        self.cpus = jobs.select(size().fill_null(1.0)).to_series().to_numpy()
        self.outcome = np.array(jobs["outcome"].cast(pl.String).to_list(), dtype=object)
        self.partition = np.array(jobs["partition"].to_list(), dtype=object)
        self.users = codes_of(jobs, "user")
        self.named = jobs["user"].is_not_null().to_numpy()
        self.places = codes_of(jobs, "cluster", "partition", "queue")
        self.shapes = codes_of(
            jobs.with_columns(size().alias("_size")), "user", "_size", "limit_s", "queue", "partition"
        )
        self.nodes = jobs["node_list"].to_list() if jobs["node_list"].null_count() < len(jobs) else None
        self.taken: Bools = np.zeros(len(jobs), np.bool_)

    def trace(self) -> Trace:
        """Return the trace as it has become."""
        jobs = self._trace.jobs
        wait = np.where(np.isfinite(self.start), (self.start - self.submit) / 1000, np.nan)
        changed = jobs.with_columns(
            *(_series(name, values, jobs.schema[name]) for name, values in self._columns(wait).items()),
            pl.Series("outcome", self.outcome.tolist(), dtype=OUTCOME),
            pl.Series("partition", self.partition.tolist(), dtype=pl.String),
        )
        return self._trace.with_jobs(changed)

    def _columns(self, wait: Floats) -> dict[str, Floats]:
        known = self._trace.manifest.has.get("waits", False)
        waits = {"wait_s": wait} if known else {}
        return {
            "start_ms": self.start, "end_ms": self.end, "run_s": self.run, "limit_s": self.limit,
            "cpu_used_s": self.cpu_used, **waits,
        }  # fmt: skip

    def name(self, column: str, row: int) -> str:
        """Return one cell as text."""
        return str(self._trace.jobs[column][row])

    def free(self) -> Bools:
        """Jobs that ran and that nothing has been done to."""
        ran = np.isfinite(self.start) & np.isfinite(self.end) & (self.run > 0)
        return np.asarray(~self.taken & ran & self.named, np.bool_)

    def shift(self, rows: Ints, start: Floats) -> None:
        """Let jobs start at other times and run as long as they did."""
        self.start[rows] = start
        self.end[rows] = start + self.run[rows] * 1000

    def last(self, rows: Ints, run_s: Floats) -> None:
        """Let jobs run for so long."""
        self.run[rows] = run_s
        self.end[rows] = self.start[rows] + run_s * 1000


def bad_place(draft: Draft, rng: np.random.Generator) -> Made | None:
    """Four in five of 15 to 30 consecutive jobs fail on one node, or every third time on a rack told by names."""
    rack = _failing(draft, rng, "rack", rack_in) if rng.random() < 1 / 3 else None
    return rack or _failing(draft, rng, "node", str)


def _failing(
    draft: Draft, rng: np.random.Generator, subject: str, place_of: Callable[[str], str | None]
) -> Made | None:
    if draft.nodes is None:
        return None
    free = draft.free() & (draft.outcome == Outcome.COMPLETED.value)
    candidates = np.flatnonzero(free).tolist()
    for row in _drawn(free, rng):
        place = place_of(str(rng.choice(draft.nodes[row]))) if draft.nodes[row] else None
        if place is None:
            continue
        touching = [
            each for each in candidates if any(place_of(node) == place for node in draft.nodes[each] or ())
        ]
        rows = np.array(touching, np.int64)
        rows = rows[np.argsort(draft.end[rows], kind="stable")]
        number = int(rng.integers(15, 31))
        if len(rows) < 3 * number:
            continue
        begin = int(rng.integers(len(rows) // 3, len(rows) - number))
        window = rows[begin : begin + number]
        bad = window[rng.random(number) < 0.8]
        if len(np.unique(draft.users[bad])) < 2:
            continue
        draft.outcome[bad] = Outcome.FAILED.value
        return subject, place, bad, draft.end[window].min(), draft.end[window].max()
    return None


def cascade(draft: Draft, rng: np.random.Generator) -> Made | None:
    """Four to eight running jobs of several users, connected through their nodes, fail within five minutes."""
    if draft.nodes is None:
        return None
    free = draft.free() & (draft.outcome == Outcome.COMPLETED.value)
    for drawn in _drawn(free, rng):
        at = draft.start[drawn] + 600_000
        alive = np.flatnonzero(free & (draft.start < at) & (draft.end > at))
        members = _connected(draft, alive.tolist(), rng)
        if len(members) < 4 or len(np.unique(draft.users[members])) < 2:
            continue
        rows = np.array(members[:8], np.int64)
        end = at + np.sort(rng.uniform(0, 300_000, len(rows)))
        draft.outcome[rows] = Outcome.FAILED.value
        draft.last(rows, (end - draft.start[rows]) / 1000)
        return "nodes", "", rows, float(end[0]), float(end[-1])
    return None


def _connected(draft: Draft, alive: list[int], rng: np.random.Generator) -> list[int]:
    assert draft.nodes is not None  # noqa: S101  (its callers have checked)
    if not alive:
        return []
    members = [int(rng.choice(alive))]
    reached = set(draft.nodes[members[0]] or ())
    grown = True
    while grown and len(members) < 8:
        grown = False
        for row in alive:
            if row not in members and reached.intersection(draft.nodes[row] or ()):
                members.append(row)
                reached.update(draft.nodes[row])
                grown = True
    return members


def user_burst(draft: Draft, rng: np.random.Generator) -> Made | None:
    """Nine in ten of 15 to 30 consecutive jobs of a user who seldom fails fail."""
    free = draft.free() & (draft.outcome == Outcome.COMPLETED.value)
    for drawn in _drawn(free, rng):
        user = draft.users[drawn]
        rows = np.flatnonzero(free & (draft.users == user))
        rows = rows[np.argsort(draft.end[rows], kind="stable")]
        number = int(rng.integers(15, 31))
        failures = ((draft.users == user) & (draft.outcome == Outcome.FAILED.value)).sum()
        if len(rows) < 4 * number or failures > 0.2 * len(rows):
            continue
        begin = int(rng.integers(len(rows) // 2, len(rows) - number))
        window = rows[begin : begin + number]
        bad = window[rng.random(number) < 0.9]
        draft.outcome[bad] = Outcome.FAILED.value
        return "user", draft.name("user", int(bad[0])), bad, draft.end[window].min(), draft.end[window].max()
    return None


def stalled_run(draft: Draft, rng: np.random.Generator) -> Made | None:
    """A job hangs for 20 to 100 times the run of its equals until it is stopped, and hardly uses a processor."""
    row = _repeated(draft, rng)
    if row is None:
        return None
    rows = np.array([row])
    draft.last(rows, draft.run[rows] * rng.uniform(20, 100) + 3600)
    draft.cpu_used[row] *= 0.5  # it worked for a while, and then no more
    draft.outcome[row] = Outcome.TIMEOUT.value
    return "job", draft.name("job_id", row), rows, draft.start[row], draft.end[row]


def odd_run(draft: Draft, rng: np.random.Generator) -> Made | None:
    """A job takes 20 to 50 times as long as its equals, working all the time, and ends well."""
    row = _repeated(draft, rng)
    if row is None:
        return None
    rows = np.array([row])
    run_s = draft.run[row] * rng.uniform(20, 50) + 3600
    draft.cpu_used[row] *= run_s / draft.run[row]
    draft.last(rows, np.array([run_s]))
    return "job", draft.name("job_id", row), rows, draft.start[row], draft.end[row]


def _repeated(draft: Draft, rng: np.random.Generator) -> int | None:
    """Return a job that ended well behind at least eight of the same user and request, whose runs are alike."""
    ended_well = [outcome in {None, Outcome.COMPLETED.value} for outcome in draft.outcome]
    free = draft.free() & np.array(ended_well, np.bool_)
    for row in _drawn(free, rng):
        same = np.flatnonzero(free & (draft.shapes == draft.shapes[row]) & (draft.end < draft.start[row]))
        latest = np.sort(draft.run[same[np.argsort(draft.end[same], kind="stable")][-11:]])
        if len(latest) >= 8 and latest[-2] <= 3 * latest[1] and draft.run[row] <= 3 * latest[len(latest) // 2]:
            return row
    return None


def waster(draft: Draft, rng: np.random.Generator) -> Made | None:
    """A user asks for twenty times the time that is needed, for months; where CPU time is known, uses a
    twentieth.
    """
    free = draft.free()
    for drawn in _drawn(free, rng):
        user = draft.users[drawn]
        rows = np.flatnonzero(free & (draft.users == user))
        days = len(np.unique(draft.end[rows] // DAY_MS))
        share = (draft.run * draft.cpus)[rows].sum() / np.nansum(draft.run * draft.cpus)
        if days < 10 or share < 0.01 or draft.taken[draft.users == user].any():
            continue
        if np.isfinite(draft.cpu_used[rows]).all():
            draft.cpu_used[rows] = draft.run[rows] * draft.cpus[rows] / 20
        elif np.isfinite(draft.limit[rows]).all():
            draft.limit[rows] = 20 * np.quantile(draft.run[rows], 0.9)
        else:
            continue
        return "user", draft.name("user", int(rows[0])), rows, draft.end[rows].min(), draft.end[rows].max()
    return None


def stalled_wait(draft: Draft, rng: np.random.Generator) -> Made | None:
    """A job waits for two to five days while at least fifteen comparable ones pass it."""
    free = draft.free()
    sizes = np.log2(np.maximum(draft.cpus, 1)).astype(np.int64)
    for row in _drawn(free, rng):
        start = draft.submit[row] + rng.uniform(2, 5) * DAY_MS
        alike = (draft.places == draft.places[row]) & (sizes == sizes[row])
        passing = alike & (draft.submit > draft.submit[row]) & (draft.start < start)
        usual = (draft.start - draft.submit)[alike & (draft.start < start)][-25:]
        if passing.sum() < 15 or not len(usual) or np.median(usual) > 6 * HOUR_MS:
            continue
        rows = np.array([row])
        draft.shift(rows, np.array([start]))
        return "job", draft.name("job_id", row), rows, draft.submit[row], start
    return None


def idle_machine(draft: Draft, rng: np.random.Generator) -> Made | None:
    """For 18 to 30 hours nothing is started in a place; what would have been starts then."""
    free = draft.free()
    for row in _drawn(free, rng):
        begin = draft.start[row]
        end = begin + rng.uniform(18, 30) * HOUR_MS
        here = free & (draft.places == draft.places[row])
        rows = np.flatnonzero(here & (draft.start >= begin) & (draft.start < end))
        if len(rows) < 10 or len(np.unique(draft.users[rows])) < 3:
            continue
        draft.shift(rows, end + rng.uniform(0, 300_000, len(rows)))
        kept = next(
            sort for sort in ("partition", "queue", "cluster", "job_id") if draft.name(sort, row) != "None"
        )
        return kept, draft.name(kept, row), rows, begin, end + 300_000
    return None


def inverted_queue(draft: Draft, rng: np.random.Generator) -> Made | None:
    """In a place, for a week, every second job of equal ones starts an hour after the fourth behind it."""
    free = draft.free()
    for row in _drawn(free, rng):
        begin = draft.submit[row]
        week = np.flatnonzero(
            free
            & (draft.places == draft.places[row])
            & (draft.submit >= begin)
            & (draft.submit < begin + 7 * DAY_MS)
        )
        week = week[np.lexsort((draft.submit[week], draft.shapes[week]))]
        fourth = np.minimum(np.arange(len(week)) + 4, len(week) - 1)
        same = (draft.shapes[week] == draft.shapes[week[fourth]]) & (np.arange(len(week)) + 4 < len(week))
        later = draft.submit[week[fourth]] > draft.submit[week]
        chosen = np.flatnonzero(same & later & (np.arange(len(week)) % 2 == 0))
        rows = week[chosen]
        if len(rows) < 20 or len(np.unique(draft.users[rows])) < 2:
            continue
        start = draft.start[week[fourth[chosen]]] + HOUR_MS
        draft.shift(rows, np.maximum(start, draft.start[rows]))
        kept = next(
            sort for sort in ("partition", "queue", "cluster", "job_id") if draft.name(sort, row) != "None"
        )
        return kept, draft.name(kept, row), rows, float(draft.start[rows].min()), float(draft.start[rows].max())
    return None


def broken_partition(draft: Draft, rng: np.random.Generator) -> Made | None:
    """12 to 25 jobs of a fortnight go to a partition that starts none, and are cancelled after two to four
    days.
    """
    free = draft.free() & (draft.outcome == Outcome.COMPLETED.value)
    for drawn in _drawn(free, rng):
        begin = draft.submit[drawn]
        rows = np.flatnonzero(free & (draft.submit >= begin) & (draft.submit < begin + 14 * DAY_MS))
        number = int(rng.integers(12, 26))
        if len(rows) < 4 * number:
            continue
        rows = np.sort(rng.choice(rows, number, replace=False))
        name = f"broken{int(rng.integers(1_000_000)):06d}"
        draft.partition[rows] = name
        draft.start[rows], draft.run[rows] = np.nan, np.nan
        draft.end[rows] = draft.submit[rows] + rng.uniform(2, 4, number) * DAY_MS
        draft.outcome[rows] = Outcome.CANCELLED.value
        return "partition", name, rows, float(draft.submit[rows].min()), float(draft.end[rows].max())
    return None


INJECTORS: dict[str, Injector] = {
    "node-failures": bad_place,
    "failure-cascade": cascade,
    "user-failures": user_burst,
    "stalled-run": stalled_run,
    "run-time": odd_run,
    "stalled-queue": stalled_wait,
    "wasteful-request": waster,
    "unusable-partition": broken_partition,
    "priority-inversion": inverted_queue,
    "idle-processors": idle_machine,
}
"""By the kind that should find it; those that touch many jobs come last."""


def _drawn(free: Bools, rng: np.random.Generator) -> list[int]:
    """Return a few of the rows that may be taken, in random order."""
    rows = np.flatnonzero(free)
    return [int(row) for row in rng.choice(rows, min(_TRIES, len(rows)), replace=False)] if len(rows) else []


def _floats(jobs: pl.DataFrame, column: str) -> Floats:
    return jobs[column].cast(pl.Float64).fill_null(float("nan")).to_numpy().astype(np.float64)


def _series(name: str, values: Floats, dtype: pl.DataType) -> pl.Series:
    series = pl.Series(name, values).fill_nan(None)
    return series.round().cast(dtype) if dtype == pl.Int64 else series
