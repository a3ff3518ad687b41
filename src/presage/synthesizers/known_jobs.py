"""Jobs of the log: a trace should not tell them again.

A drawn job that is equal to one of the log, in user, request, outcome and run time, was drawn by chance or by
memory; either way it gets another run time. So does one of four jobs in a row of a user that have the sizes,
limits and run times of four in the log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from presage.synthesizers._moves import NOWHERE, Ways, shares_up_to, which_longer
from presage.synthesizers.columns import RUN, SIZE, multiples, step_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from presage.synthesizers.columns import Columns, FloatArray, IntArray, JobTable

    Flags = NDArray[np.bool_]
    Keys = NDArray[np.uint64]

COMMON = 50
"""What at least that many of the log have, be it a job or four in a row, gives nobody away."""
IN_A_ROW = 4
MOST_STEPS = 0.99
"""Which share of the run times are multiples of a step where that is how finely they are told."""
FREE_SHARE = 0.005
"""How far off the log's the distribution of run times may be before it matters."""
ROUNDS = 20
"""How often jobs in a row are looked for, at most: with one of them moved, others may be the log's."""
_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


@dataclass(frozen=True)
class KnownJobs:
    """What jobs a log has, as digests, and how its run times are distributed."""

    jobs: Keys
    """One for each job that is not equal to another, in ascending order."""
    common_jobs: Flags
    """Which of them at least `COMMON` jobs of the log have."""
    rows: Keys
    """One for each `IN_A_ROW` jobs in a row of a user, in ascending order."""
    common_rows: Flags
    ends_s: FloatArray
    """Where ranges of run times end."""
    shares: FloatArray
    """Which share of the log's jobs ran up to there."""
    step_s: float
    """What nearly all of its run times are multiples of: jobs are compared, and moved, by that."""

    @classmethod
    def of(cls, columns: Columns, table: JobTable, ends_s: FloatArray) -> KnownJobs:
        """Return those of a log that `columns` were made for."""
        step_s = step_of(table.numbers[RUN], MOST_STEPS)
        log = _Compared.of_log(columns, table, step_s)
        jobs, job_counts = np.unique(log.keys(), return_counts=True)
        rows, row_counts = np.unique(log.rows()[0], return_counts=True)
        shares = shares_up_to(log.run_s, ends_s)
        return cls(jobs, job_counts >= COMMON, rows, row_counts >= COMMON, ends_s, shares, step_s)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> KnownJobs:
        """Return what `to_arrays` described; KeyError and TypeError mean that it is damaged."""
        known: dict[str, Any] = {**arrays, "step_s": float(arrays["step_s"])}
        return cls(**known)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what `from_arrays` reads."""
        return {**vars(self), "step_s": np.array(self.step_s)}

    def count(self, columns: Columns, jobs: pl.DataFrame) -> int:
        """Return how many jobs are equal to one of the log. See `avoid`."""
        return int(self._copied(_Compared.of_drawn(columns, jobs, self.step_s))[0].sum())

    def avoid(self, columns: Columns, jobs: pl.DataFrame, share: float, rng: np.random.Generator) -> pl.DataFrame:
        """Return jobs with run times with which they are not equal to those of the log, as near as can be.

        `jobs` have the canonical columns of what was drawn, in the order of their arrival, as they will be told.
        Those stay that are common in the log, up to `share` of all, and four of these in a row that are common in
        a row; and jobs that have nowhere to go, because the log has them with every run time up to their limit, or
        where they ran to their limit, with every one that is beyond it and allowed.
        """
        drawn = _Compared.of_drawn(columns, jobs, self.step_s)
        copied, common = self._copied(drawn)
        kept = np.zeros(len(drawn), np.bool_)
        kept[rng.permutation(np.flatnonzero(common))[: int(share * len(drawn))]] = True
        found = self._with_parted_rows(self._with_moved(drawn, np.flatnonzero(copied & ~kept), rng), kept, rng)
        run_s = np.where(found.run == drawn.run, jobs[RUN].to_numpy(), found.run_s)
        return jobs.with_columns(pl.Series(RUN, run_s))

    def _copied(self, jobs: _Compared) -> tuple[Flags, Flags]:
        """Return which jobs are equal to one of the log, and which to one that is common there."""
        copied, places = _find(self.jobs, jobs.keys())
        return copied, copied & self.common_jobs[places]

    def _with_moved(self, jobs: _Compared, moved: IntArray, rng: np.random.Generator) -> _Compared:
        """Return the jobs with other run times for some of them, distributed as in the log as far as can be."""
        if not len(moved):
            return jobs
        ways = self._ways(jobs, moved)
        excess = (shares_up_to(jobs.run_s, self.ends_s) - self.shares) * len(jobs)
        longer = which_longer(ways, self.ends_s, jobs.step_s, excess, FREE_SHARE * len(jobs), rng)
        return jobs.moved(moved, ways.gone(longer))

    def _ways(self, jobs: _Compared, which: IntArray) -> Ways:
        """Return where some of the jobs may go."""
        # Equal jobs have the same ways.
        _, first, same = np.unique(jobs.keys()[which], return_index=True, return_inverse=True)
        shorter, longer = (self._nearest(jobs, which[first], towards) for towards in (-1, 1))
        return Ways(jobs.run[which], shorter[same.ravel()], longer[same.ravel()])

    def _nearest(self, jobs: _Compared, which: IntArray, towards: int) -> IntArray:
        """Return the nearest run times on one side that the log does not have; `NOWHERE` where it has all."""
        but_run, at = jobs.keys_but_run()[which], jobs.run[which]
        least, most = jobs.least[which], jobs.most[which]
        begins = _mixed(but_run, at)
        order = np.argsort(begins)
        found, heir_of = np.full(len(at), NOWHERE), np.arange(len(at))
        left = np.arange(len(at))
        while len(left):
            at[left] += towards
            left = left[(at[left] >= least[left]) & (at[left] <= most[left])]
            here = _mixed(but_run[left], at[left])
            taken, _ = _find(self.jobs, here)
            found[left[~taken]] = at[left[~taken]]
            # Where another one begins it goes where that one goes, or dense logs would take for ever.
            left, here = left[taken], here[taken]
            met, places = _find(begins[order], here)
            heir_of[left[met]] = order[places[met]]
            left = left[~met]
        while (heir_of != heir_of[heir_of]).any():
            heir_of = heir_of[heir_of]
        return found[heir_of]

    def _with_parted_rows(self, jobs: _Compared, kept: Flags, rng: np.random.Generator) -> _Compared:
        """Return the jobs with run times moved until no four in a row are the log's.

        But for common ones that are `kept`, and for such as have nowhere to go.
        """
        for _ in range(ROUNDS if len(self.rows) else 0):
            keys, rows = jobs.rows()
            copied, places = _find(self.rows, keys)
            copied &= ~(self.common_rows[places] & kept[rows].all(axis=1))
            members = np.unique(rows[copied])
            ways = self._ways(jobs, members)
            can_go = np.zeros(len(jobs), np.bool_)
            can_go[members] = ways.any
            moved = _one_of_each(rows[copied], can_go)
            if not len(moved):
                break
            ways = ways.of(np.searchsorted(members, moved))
            jobs = jobs.moved(moved, ways.gone(ways.nearer(jobs.step_s, rng) < 0))
            kept[moved] = False
        return jobs


@dataclass(frozen=True)
class _Compared:
    """Jobs in the order of their arrival, as they are compared with those of a log."""

    codes: dict[str, IntArray]
    """By column; -1 for what no job of the log has."""
    step_s: float
    run: IntArray
    """Run times, in steps."""
    least: FloatArray
    """How short each may become: nothing, or its limit where it reaches that."""
    most: FloatArray
    """How long each may become: less than its limit, or where it reaches that, as far beyond as limits allow."""

    @classmethod
    def of_log(cls, columns: Columns, log: JobTable, step_s: float) -> _Compared:
        """Return the jobs that `columns` were made for."""
        same = dict.fromkeys(columns.constants, np.zeros(len(log), np.int64))
        return cls._unbound({**log.codes, **same}, step_s, log.numbers[RUN])

    @classmethod
    def of_drawn(cls, columns: Columns, jobs: pl.DataFrame, step_s: float) -> _Compared:
        """Return jobs with canonical columns, also such as were drawn for another machine."""
        found = cls._unbound(columns.codes_of(jobs), step_s, jobs[RUN].to_numpy())
        if not columns.limits_hold:
            return found
        limit = jobs["limit_s"].fill_null(np.inf).to_numpy() / step_s
        reached = found.run >= limit
        over = np.floor(limit + columns.grace_s / step_s)
        return replace(
            found,
            least=np.where(reached, np.ceil(limit), 0.0),
            most=np.where(reached, np.maximum(found.run, over), np.ceil(limit) - 1),
        )

    @classmethod
    def _unbound(cls, codes: dict[str, IntArray], step_s: float, run_s: FloatArray) -> _Compared:
        run = np.rint(run_s / step_s).astype(np.int64)
        return cls(codes, step_s, run, np.zeros(len(run)), np.full(len(run), np.inf))

    def __len__(self) -> int:
        return len(self.run)

    @property
    def run_s(self) -> FloatArray:
        """The run times in seconds."""
        return multiples(self.run, self.step_s)

    def moved(self, which: IntArray, run: IntArray) -> _Compared:
        """Return the jobs with other run times for some of them."""
        every = self.run.copy()
        every[which] = run
        return replace(self, run=every)

    def keys(self) -> Keys:
        """Return a number for each job that others have only if they are equal but for the gap."""
        return _mixed(self.keys_but_run(), self.run)

    def keys_but_run(self) -> Keys:
        """Return the same for jobs that may have other run times."""
        return _digest([self.codes[name] for name in sorted(self.codes)], len(self))

    def rows(self) -> tuple[Keys, IntArray]:
        """Return a number for each `IN_A_ROW` jobs in a row of a user, and which they are: (rows, IN_A_ROW)."""
        user = self.codes.get("user", np.zeros(len(self), np.int64))
        order = np.argsort(user, kind="stable")
        rows = order[np.arange(max(len(self) - IN_A_ROW + 1, 0))[:, None] + np.arange(IN_A_ROW)]
        rows = rows[user[rows[:, 0]] == user[rows[:, -1]]]
        requests = [self.codes[name] for name in (SIZE, "limit_s") if name in self.codes]
        alike = _mixed(_digest(requests, len(self)), self.run)
        return _digest(list(alike[rows].T), len(rows)), rows


def _one_of_each(rows: IntArray, can_go: Flags) -> IntArray:
    """Return jobs, in ascending order, so that each row has one of them: the last of those that can go."""
    chosen: set[int] = set()
    for row in rows.tolist():
        if chosen.isdisjoint(row):
            chosen.update([job for job in row if can_go[job]][-1:])
    return np.array(sorted(chosen), np.int64)


def _find(keys: Keys, wanted: Keys) -> tuple[Flags, IntArray]:
    """Return which of the wanted are among `keys`, which are in ascending order and not none, and where."""
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return keys[places] == wanted, places


def _digest(parts: list[IntArray] | list[Keys], jobs: int) -> Keys:
    """Return a number for each job that others have only if all parts are equal."""
    keys = np.zeros(jobs, np.uint64)
    for part in parts:
        keys = _mixed(keys, part)
    return keys


def _mixed(keys: Keys, parts: IntArray | Keys) -> Keys:
    """Return the keys of jobs of which one more part is known."""
    keys = (keys ^ parts.astype(np.uint64)) * _FACTOR
    return keys ^ (keys >> _SHIFT)
