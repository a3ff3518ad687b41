"""Decisions of a schedule: who waited, what a scorer read of them, who went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.policies.queue_decision import Queue
from presage.policies.queue_scorer import OF_THE_JOB
from presage.simulator._guided import HALF_LIFE_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from presage.learning.cases import Case
    from presage.policies.queue_scorer import QueueScorer
    from presage.simulator.jobs import Jobs

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Decision:
    """One pass over the queue, at an instant when some job started."""

    rows: Ints
    """The jobs of the case that waited, in submit order."""
    starts: NDArray[np.bool_]
    of_jobs: Floats
    """(jobs, 9): what a scorer read of each, by forecasts."""
    of_queue: Floats


def sample_decisions(case: Case, start_ms: Ints, count: int, rng: np.random.Generator) -> list[Decision]:
    """Return up to `count` decisions of a schedule between two jobs or more, in the order of time."""
    instants = np.unique(start_ms)
    came = np.searchsorted(case.jobs.submit_ms, instants, side="right")
    went = np.searchsorted(np.sort(start_ms), instants, side="left")
    contested = instants[came - went >= 2]
    drawn = rng.choice(len(contested), min(count, len(contested)), replace=False)
    return [_decision_at(case, start_ms, int(contested[at])) for at in np.sort(drawn)]


def reads_at_submit(case: Case) -> Floats:
    """Return what a scorer reads of jobs that have not waited yet; the first five numbers do not change."""
    jobs = case.jobs
    nothing = np.zeros(len(jobs))
    queue = Queue(nothing, jobs.limit_ms / 1000, jobs.processors, nothing, case.processors, case.processors)
    return queue.reads(case.forecasts)[0]


def _decision_at(case: Case, start_ms: Ints, now_ms: int) -> Decision:
    jobs = case.jobs
    came = slice(0, int(np.searchsorted(jobs.submit_ms, now_ms, side="right")))
    rows = np.flatnonzero(start_ms[came] >= now_ms)
    end_ms = start_ms[came] + jobs.run_ms[came]
    holding = (start_ms[came] < now_ms) & (end_ms > now_ms)
    queue = Queue(
        (now_ms - jobs.submit_ms[rows]) / 1000, jobs.limit_ms[rows] / 1000, jobs.processors[rows],
        user_shares(jobs.select(came), case.users[came], end_ms, now_ms)[case.users[rows]],
        case.processors - int(jobs.processors[came][holding].sum()), case.processors,
    )  # fmt: skip
    return Decision(rows, start_ms[rows] == now_ms, *queue.reads(case.forecasts.select(rows)))


def user_shares(jobs: Jobs, users: Ints, end_ms: Ints, now_ms: int) -> Floats:
    """Return the share of each user in the work of the jobs that have ended; old work counts for less."""
    ended = np.flatnonzero(end_ms <= now_ms)
    work = jobs.run_ms[ended] * jobs.processors[ended] * np.exp2((end_ms[ended] - now_ms) / HALF_LIFE_MS)
    used = np.bincount(users[ended], work, minlength=int(users.max()) + 1)
    return np.asarray(used / max(used.sum(), 1.0), np.float64)


@dataclass(frozen=True)
class Pairs:
    """Jobs that started beside others that waited with them, and how a scorer told them apart."""

    ahead: Floats
    """(pairs, 9): what was read of the job that the scorer put first."""
    behind: Floats
    gap: Floats
    """By how much the scores differ, above 0."""

    def __len__(self) -> int:
        return len(self.gap)

    def select(self, rows: slice) -> Pairs:
        """Return some of the pairs."""
        return Pairs(self.ahead[rows], self.behind[rows], self.gap[rows])

    def agreement(self, gaps: Floats) -> Floats:
        """Return the share of pairs that scores put in the same order; `gaps` are theirs, behind less ahead.

        A tie counts half, so that 0.5 is what chance gives. `gaps` may have a row for each of several orders.
        """
        same = np.count_nonzero(gaps > _EQUAL, axis=-1) + np.count_nonzero(gaps >= -_EQUAL, axis=-1)
        return np.asarray(same / (2 * len(self)), np.float64)


_EQUAL = 1e-9


def pairs_of(
    decisions: Sequence[Decision], scorer: QueueScorer, per_decision: int, rng: np.random.Generator
) -> Pairs:
    """Return pairs of which at least one started, as many of each decision, but for those the scorer ties."""
    ahead, behind, gaps = [np.empty((0, len(OF_THE_JOB)))], [np.empty((0, len(OF_THE_JOB)))], [np.empty(0)]
    for decision in decisions:
        scores = scorer.scores(decision.of_jobs, decision.of_queue)
        one = rng.choice(np.flatnonzero(decision.starts), per_decision)
        other = (one + rng.integers(1, len(scores), per_decision)) % len(scores)
        gap = scores[other] - scores[one]
        first, second = np.where(gap > 0, one, other), np.where(gap > 0, other, one)
        told = np.abs(gap) > _EQUAL
        ahead.append(decision.of_jobs[first[told]])
        behind.append(decision.of_jobs[second[told]])
        gaps.append(np.abs(gap[told]))
    return Pairs(np.concatenate(ahead), np.concatenate(behind), np.concatenate(gaps))
