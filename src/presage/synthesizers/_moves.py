"""Where jobs go that may not have the run time that they have: to a shorter one, or to a longer one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.synthesizers.columns import multiples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers.columns import FloatArray, IntArray

    Flags = NDArray[np.bool_]

NOWHERE = -1
_FAR, _HARDLY = 1e12, 1e-12


@dataclass(frozen=True)
class Ways:
    """Where jobs may go: run times, in steps, that the log does not have; `NOWHERE` where there is none."""

    here: IntArray
    shorter: IntArray
    longer: IntArray

    @property
    def any(self) -> Flags:
        """Whether there is any."""
        found: Flags = (self.shorter != NOWHERE) | (self.longer != NOWHERE)
        return found

    def of(self, places: IntArray) -> Ways:
        """Return those of some of the jobs."""
        return Ways(self.here[places], self.shorter[places], self.longer[places])

    def nearer(self, step_s: float, rng: np.random.Generator) -> FloatArray:
        """Return numbers below 0 where longer is nearer than shorter, by the factor, or all there is.

        Where both are equally many steps away it would always be the longer one, so that chance decides.
        """
        shorter, here, longer = (
            np.log1p(np.maximum(each, 0) * step_s) for each in (self.shorter, self.here, self.longer)
        )
        even = self.longer - self.here == self.here - self.shorter
        found = np.where(even, _HARDLY * rng.choice([-1, 1], len(even)), longer + shorter - 2 * here)
        found = np.where(self.longer == NOWHERE, np.inf, found)
        return np.where(self.shorter == NOWHERE, -np.inf, found)

    def gone(self, longer: Flags) -> IntArray:
        """Return the run times where each job has gone its way, or stayed where there is none."""
        gone = np.where(longer, self.longer, self.shorter)
        return np.where(gone == NOWHERE, self.here, gone)


class _Group(NamedTuple):
    """Jobs that come from one range and have the same two to go to."""

    shorter: int
    here: int
    longer: int
    jobs: IntArray
    """Those first that are nearer to the longer one."""


def which_longer(
    ways: Ways, ends_s: FloatArray, step_s: float, excess: FloatArray, free: float, rng: np.random.Generator
) -> Flags:
    """Return which jobs become longer, so that the distribution of run times is as near to the log's as can be.

    `excess` is how many jobs too many ran up to each of `ends_s`, beside the log's shares; so many as `free` do
    not matter. Where there is a choice a job goes to the nearer side.
    """
    nearer = ways.nearer(step_s, rng)
    nowhere = np.zeros(len(nearer), np.bool_)
    passed = np.column_stack(
        [
            range_of(multiples(each, step_s), ends_s)
            for each in (ways.gone(nowhere), ways.here, ways.gone(~nowhere))
        ]
    )
    kinds, which, counts = np.unique(passed, axis=0, return_inverse=True, return_counts=True)
    order = np.lexsort((rng.random(len(nearer)), nearer, which.ravel()))
    parts = np.split(order, np.cumsum(counts)[:-1])
    groups = [
        _Group(shorter, here, longer, jobs)
        for (shorter, here, longer), jobs in zip(kinds.tolist(), parts, strict=True)
    ]
    # First to see about how near they can be: the largest groups last, which have the most to even out. Then short
    # jobs choose first, with all that room, so that where they part from long ones it is they that become shorter.
    _, left = _decide(sorted(groups, key=lambda each: len(each.jobs)), nearer, excess, free)
    longer, _ = _decide(sorted(groups, key=lambda each: each.here), nearer, excess, float(np.abs(left).max()))
    return longer


def _decide(
    groups: list[_Group], nearer: FloatArray, excess: FloatArray, within: float
) -> tuple[Flags, FloatArray]:
    """Return which jobs become longer, group by group, and what `excess` is then.

    Each group keeps it `within`, or as little beyond as it can.
    """
    longer, excess = np.zeros(len(nearer), np.bool_), excess.copy()
    for group in groups:
        below, above = excess[group.shorter : group.here], excess[group.here : group.longer]
        many = _how_many(nearer[group.jobs], below.max(initial=-_FAR), above.min(initial=_FAR), within)
        longer[group.jobs[:many]] = True
        below += len(group.jobs) - many
        above -= many
    return longer, excess


def _how_many(nearer: FloatArray, highest: float, lowest: float, within: float) -> int:
    """Return how many jobs become longer: those that are nearer to it, or as many as keep excesses within bounds.

    Those that become shorter add to what is `highest`, the others take from what is `lowest`: with `many` longer
    ones these become highest + jobs - many, at most `within`, and lowest - many, at least -`within`. Where both
    cannot be, as much is allowed as there is with as many as leave both equally far off.
    """
    jobs = len(nearer)
    least, most = int(np.isneginf(nearer).sum()), jobs - int(np.isposinf(nearer).sum())
    even = min(max((highest + jobs + lowest) / 2, least), most)
    within = max(within, highest + jobs - even, even - lowest)
    wanted = int((nearer < 0).sum())
    many: int = round(min(max(wanted, highest + jobs - within, least), lowest + within, most))
    return many


def range_of(run_s: FloatArray, ends_s: FloatArray) -> IntArray:
    """Return the range of each run time; beyond the last end it is the last."""
    return np.minimum(np.searchsorted(ends_s, run_s, "left"), len(ends_s) - 1)


def shares_up_to(run_s: FloatArray, ends_s: FloatArray) -> FloatArray:
    """Return which share of the jobs ran up to the end of each range."""
    shares: FloatArray = np.bincount(range_of(run_s, ends_s), minlength=len(ends_s)).cumsum() / len(run_s)
    return shares
