"""Processors (or GPUs) that stay idle while jobs that would fit wait: scheduling that does not do its work.

For every job, the time before its start is measured during which enough of its place and of the machine was idle
all along. What such jobs could have used is summed up over time: an episode is the time during which that is more
than a tenth of what the place has, and its size is in hours of the whole place. Reservations, limits of users and
cycles of the scheduler make episodes everywhere; so only those count that are far larger than this site's usual
ones, and only where several jobs, of several users, waited so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import polars as pl

from presage.foundation.anomalies._base import HIGHEST_SCORE, Anomaly, Detector, missing
from presage.foundation.anomalies._surprise import looked_at, tail_surprise
from presage.foundation.anomalies.stalled_queue import waited_until
from presage.wording import counted

if TYPE_CHECKING:
    from presage.foundation.anomalies._history import Bools, Floats, Ints
    from presage.foundation.anomalies.knowledge import Knowledge
    from presage.traces import Trace

_BIN_MS = 300_000.0
_MOST_BINS = 400_000
_SPARE = 0.05
_LEAST_IDLE_MS = 3_600_000.0
_SHARE = 0.1
_LEAST_JOBS = 3
_LEAST_IN_PLACE = 20
_LEAST_USERS = 2
_USUAL, _SCALE = 2.5, 0.6  # of ln(1 + hours)


class IdleProcessors(Detector):
    """Finds times at which work waits beside idle processors."""

    name: ClassVar[str] = "idle-processors"
    family: ClassVar[str] = "waits"

    def needs(self, trace: Trace) -> str | None:
        if trace.jobs.select(pl.max_horizontal("cpus_alloc", "cpus_req", "gpus_req").is_null().all()).item():
            return "the trace has no sizes of jobs (cpus_req, cpus_alloc)"
        waits = missing(trace, submit_ms="submit times", start_ms="starts", wait_s="waits")
        if waits is None and not (trace.jobs["wait_s"] > 0).any():
            return "no job of the trace waited (wait_s)"
        return waits

    def find(self, known: Knowledge) -> list[Anomaly]:
        clock = _Clock.of(known)
        if clock is None:
            return []
        until = waited_until(known)
        accelerated = np.nan_to_num(known.gpus) > 0
        amount = np.where(accelerated, known.gpus, known.cpus)
        found: list[_Episode] = []
        for kind in (False, True):
            among = (accelerated == kind) & (amount > 0)
            if not among.any():
                continue
            size = known.trace.manifest.machine.gpus if kind else known.trace.manifest.machine.cpus
            machine = _Use.of(known, clock, amount, among, size or math.inf)
            places, counts = np.unique(known.places[among], return_counts=True)
            for place in places[counts >= _LEAST_IN_PLACE]:
                here = among & (known.places == place)
                alone = here.sum() == among.sum()
                own = machine if alone else _Use.of(known, clock, amount, here, size or math.inf)
                rows = np.flatnonzero(here & (until >= known.queued_ms))
                found += _episodes(clock, own, machine, rows, amount[rows], known.queued_ms[rows], until[rows])
        return self._surprising(known, found, until)

    def _surprising(self, known: Knowledge, found: list[_Episode], until: Floats) -> list[Anomaly]:
        """Return the findings about episodes that are large for this site, by several users' jobs."""
        sizes = np.array([episode.hours for episode in found])
        ends = np.array([episode.end_ms for episode in found])
        over = tail_surprise(np.log1p(sizes), ends, usual=_USUAL, scale=_SCALE)
        over -= looked_at(ends, np.ones(len(ends), np.bool_))
        least_users = min(_LEAST_USERS, len(np.unique(known.users)))
        findings = []
        for place in np.flatnonzero(over >= known.min_score):
            rows = found[place].rows[~known.explained[self.family][found[place].rows]]
            users = len(np.unique(known.users[rows]))
            if len(rows) >= _LEAST_JOBS and users >= least_users:
                findings.append(self._finding(known, found[place], rows, float(over[place]), users, until))
        return findings

    def _finding(
        self, known: Knowledge, episode: _Episode, rows: Ints, score: float, users: int, until: Floats
    ) -> Anomaly:
        sort, place = known.place_name(int(rows[0]))
        what = "GPUs" if np.nan_to_num(known.gpus[rows[0]]) > 0 else "processors"
        longest_s = float(np.max(until[rows] - known.queued_ms[rows])) / 1000
        reason = (
            f"{sort} {place}: {episode.idle:,.0f} {what} on average were idle "
            f"{known.between(episode.start_ms, episode.end_ms)} while {len(rows):,} jobs of "
            f"{counted(users, 'user')} that fit waited, up to "
            f"{longest_s / 3600:,.1f} h: a scheduler that is stuck, a reservation, or a machine that is down"
        )
        return Anomaly(
            self.name, sort, place, int(episode.start_ms), int(episode.end_ms), min(score, HIGHEST_SCORE), reason,
            evidence=known.ids(rows), jobs=len(rows),
            numbers={
                "idle": round(episode.idle, 1), "hours_of_all": round(episode.hours, 2), "jobs": len(rows),
                "users": users, "longest_wait_s": longest_s,
            },
            rows=tuple(rows.tolist()),
        )  # fmt: skip


@dataclass(frozen=True)
class _Episode:
    """A time during which jobs waited beside processors that they could have had."""

    start_ms: float
    end_ms: float
    """When the last of these jobs started, or now."""
    hours: float
    """What was needlessly idle, in hours of the whole place."""
    idle: float
    rows: Ints


def _episodes(
    clock: _Clock, own: _Use, machine: _Use, rows: Ints, amount: Floats, queued: Floats, until: Floats
) -> list[_Episode]:
    """Return the episodes of one place, whose jobs are `rows`."""
    steps = own.idle_steps(machine, clock, amount, queued, until)
    needless = np.flatnonzero(steps * clock.step_ms >= _LEAST_IDLE_MS)
    last = clock.step(until[needless])
    first = last - steps[needless]
    change = np.zeros(clock.steps + 1)
    np.add.at(change, first, amount[needless])
    np.add.at(change, last, -amount[needless])
    wanted = np.cumsum(change)[:-1]
    usable = np.minimum(wanted, np.maximum(own.capacity - own.highest[0], 0))
    busy = np.nan_to_num(usable / own.capacity) >= _SHARE
    edges = np.flatnonzero(np.diff(np.r_[False, busy, False]))
    found = []
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        inside = (first < end) & (last > begin)
        hours = float((usable[begin:end] / own.capacity[begin:end]).sum()) * clock.step_ms / 3_600_000
        at_ms = float(until[needless][inside].max())
        found.append(
            _Episode(
                clock.first_ms + begin * clock.step_ms, at_ms, hours, float(usable[begin:end].mean()),
                rows[needless][inside],
            )
        )  # fmt: skip
    return found


@dataclass(frozen=True)
class _Clock:
    """Time in equal steps."""

    first_ms: float
    step_ms: float
    steps: int

    @classmethod
    def of(cls, known: Knowledge) -> _Clock | None:
        first, last = np.nanmin(np.append(known.queued_ms, np.inf)), known.now_ms
        if not (np.isfinite(first) and np.isfinite(last) and last > first):
            return None
        step_ms = max(_BIN_MS, (last - first) / _MOST_BINS)
        return cls(float(first), float(step_ms), int((last - first) // step_ms) + 1)

    def step(self, at_ms: Floats) -> Ints:
        """Return the step in which each instant lies."""
        return np.clip((at_ms - self.first_ms) // self.step_ms, 0, self.steps - 1).astype(np.int64)


@dataclass(frozen=True)
class _Use:
    """The most that was in use during each step, what there seems to be, and tables for stretches of steps.

    There seems to be what was in use at most until then, and no more than the whole machine has.
    """

    highest: list[Floats]
    """`highest[k][i]` is the most in use during the 2**k steps from i on."""
    capacity: Floats

    @classmethod
    def of(cls, known: Knowledge, clock: _Clock, amount: Floats, among: Bools, size: float) -> _Use:
        last = np.where(known.running, known.now_ms, known.end_ms)
        begun = np.flatnonzero(among & (last >= known.start_ms))
        last = last[begun]
        time = np.concatenate([known.start_ms[begun], last])
        change = np.concatenate([amount[begun], -amount[begun]])
        order = np.lexsort((change, time))  # who ends makes room first
        used = np.cumsum(change[order])
        step = clock.step(time[order])
        most = np.zeros(clock.steps)
        np.maximum.at(most, step, used)
        # What was in use when a step began counts for it too.
        ends = np.searchsorted(step, np.arange(clock.steps), side="left") - 1
        most = np.maximum(most, np.where(ends >= 0, used[ends], 0.0)) if len(used) else most
        highest = [most]
        while 2 ** len(highest) <= clock.steps:
            half = 2 ** (len(highest) - 1)
            shorter = highest[-1]
            highest.append(np.maximum(shorter[:-half], shorter[half:]))
        return cls(highest, np.minimum(np.maximum.accumulate(most), size))

    def idle_steps(
        self, machine: _Use, clock: _Clock, amount: Floats, queued_ms: Floats, until_ms: Floats
    ) -> Ints:
        """Return for how many whole steps before `until_ms` each amount was free, here and on the machine."""
        begin, place = clock.step(queued_ms), clock.step(until_ms)
        end = place.copy()
        room = self.capacity[end] * (1 - _SPARE) - amount
        room_of_all = machine.capacity[end] * (1 - _SPARE) - amount
        for power in reversed(range(len(self.highest))):
            earlier = place - 2**power
            inside = earlier > begin
            earlier = np.minimum(np.maximum(earlier, 0), len(self.highest[power]) - 1)
            fits = (self.highest[power][earlier] <= room) & (machine.highest[power][earlier] <= room_of_all)
            place = np.where(inside & fits, place - 2**power, place)
        return end - place
