"""What a site should change: candidates beside the policy in use on the latest weeks, and whether it lasts.

Of many candidates the best looks better than it is. So the weeks before are run too: how their winner does in the
latest weeks, by which it was not chosen, is told beside the recommendation.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import InputError, UsageError
from presage.foundation.versions import Attempt, VersionStore
from presage.learning.cases import FEWEST_JOBS
from presage.learning.evaluation import Schedule, name_of, over
from presage.learning.learned_policy import LearnedPolicy
from presage.learning.outcomes import ratio_of
from presage.learning.static_rules import FIRST_COME, static_deciders
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from presage.learning.cases import Case
    from presage.learning.evaluation import AnyPolicy

WEEKS = 8.0
_WEEK_MS = 7 * 86_400_000


@dataclass(frozen=True)
class Standing:
    """How a candidate would have done in some weeks; ratios are to the policy in use, below 1 is better."""

    name: str
    mean_bounded_slowdown: float
    ratio: float
    """Of mean bounded slowdowns."""
    low: float | None
    high: float | None
    """The 95 % interval of the ratio, by paired blocks of jobs; None with too few jobs."""
    p99_wait_ratio: float | None
    max_wait_ratio: float | None
    """None where the policy in use lets nobody wait."""
    safe: bool
    """Whether nobody waits much longer than if all waited in line."""

    @property
    def is_better(self) -> bool:
        """Whether it is safe, and surely better than the policy in use."""
        return self.safe and self.high is not None and self.high < 1

    @property
    def is_worse(self) -> bool:
        """Whether it is not safe, or surely worse."""
        return not self.safe or (self.low is not None and self.low > 1)

    def __str__(self) -> str:
        interval = "" if self.low is None else f" ({self.low:.2f} to {self.high:.2f})"
        return f"{self.ratio:.2f}{interval}"


@dataclass(frozen=True)
class Period:
    """Some weeks of a log: the policy in use, and how each candidate would have done."""

    jobs: int
    load: float
    mean_bounded_slowdown: float
    """Of the policy in use."""
    standings: tuple[Standing, ...]
    """In the order of the candidates."""

    @classmethod
    def of(
        cls,
        case: Case,
        present: AnyPolicy,
        candidates: Sequence[AnyPolicy],
        progress: Callable[[], None] = lambda: None,
    ) -> Period:
        """Run all on the same weeks, each from an empty machine; `progress` is called after each candidate."""
        in_use, line = Schedule.of(case, present), Schedule.of(case, FIRST_COME)
        standings = []
        for candidate in candidates:
            standings.append(_standing(Schedule.of(case, candidate), in_use, line))
            progress()
        return cls(len(case), case.load, in_use.outcome.slowdown, tuple(standings))

    def ranking(self) -> list[int]:
        """Return the places of the candidates that are safe, the lowest ratio first."""
        safe = [at for at, standing in enumerate(self.standings) if standing.safe]
        return sorted(safe, key=lambda at: self.standings[at].ratio)

    @property
    def winner(self) -> int | None:
        """The place of the best of those that are safe and surely better."""
        return next((at for at in self.ranking() if self.standings[at].is_better), None)


def _standing(own: Schedule, in_use: Schedule, line: Schedule) -> Standing:
    ratio, (low, high) = ratio_of(own.outcome, in_use.outcome)
    return Standing(
        own.name, own.outcome.slowdown, ratio, low, high,
        over(own.outcome.p99_wait_s, in_use.outcome.p99_wait_s),
        over(own.outcome.max_wait_s, in_use.outcome.max_wait_s),
        own.outcome.is_safe(line.outcome),
    )  # fmt: skip


@dataclass(frozen=True)
class Recommendation:
    """What to change, and what speaks for it."""

    present: str
    weeks: float
    latest: Period
    before: Period | None
    """The weeks before, if the log has enough of them."""
    choice: int | None
    """The place of the candidate to change to; None: change nothing."""

    @property
    def change_to(self) -> str | None:
        """The name of the candidate to change to."""
        return None if self.choice is None else self.latest.standings[self.choice].name

    @property
    def earlier_winner(self) -> Standing | None:
        """How the best of the weeks before did in the latest ones; None if none was surely better there."""
        winner = self.before.winner if self.before else None
        return None if winner is None else self.latest.standings[winner]

    @property
    def holds(self) -> bool | None:
        """Whether the best of the weeks before is surely better in the latest ones too; None if there was none."""
        return None if self.earlier_winner is None else self.earlier_winner.is_better

    @property
    def says(self) -> str:
        """The recommendation in words."""
        return f"{self._nothing() if self.choice is None else self._change(self.choice)} {self._drift()}"

    def _nothing(self) -> str:
        if self.latest.winner is not None:
            best = self.latest.standings[self.latest.winner]
            return (
                f"Change nothing yet: on {self._latest()} {best.name} is surely better than {self.present}, with "
                f"{best} times its slowdown, but in the {_span(self.weeks)} before it was worse or not safe."
            )
        first = f"Change nothing: on {self._latest()} no safe candidate is surely better than {self.present}."
        ranking = self.latest.ranking()
        if not ranking:
            return first
        best = self.latest.standings[ranking[0]]
        return f"{first} The best of those that are safe is {best.name}, with {best} times its slowdown."

    def _change(self, choice: int) -> str:
        to = self.latest.standings[choice]
        change = f"Change from {self.present} to {to.name}: on {self._latest()} the mean bounded slowdown is"
        return f"{change} {to} times as high{_waits(to)}."

    def _latest(self) -> str:
        return f"the latest {_span(self.weeks)} ({counted(self.latest.jobs, 'job')}, load {self.latest.load:.2f})"

    def _drift(self) -> str:
        if self.before is None:
            return "The log has too few jobs before that to tell whether this lasts."
        winner = self.earlier_winner
        if winner is None:
            return f"In the {_span(self.weeks)} before, none was surely better."
        still = "is still better" if winner.is_better else "is not surely better any more"
        if not winner.safe:
            still = "is not safe any more"
        return f"The best of the {_span(self.weeks)} before, {winner.name}, {still}: {winner}."

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        winner = self.earlier_winner
        return {
            "present": self.present,
            "change_to": self.change_to,
            "says": self.says,
            "weeks": self.weeks,
            "holds": self.holds,
            "earlier_winner": None if winner is None else winner.name,
            "latest": asdict(self.latest),
            "before": None if self.before is None else asdict(self.before),
        }


def _span(weeks: float) -> str:
    return "week" if weeks == 1 else f"{weeks:.3g} weeks"


def _waits(standing: Standing) -> str:
    if standing.p99_wait_ratio is None or standing.max_wait_ratio is None:
        return ""
    return (
        f", the wait that one job in a hundred exceeds {standing.p99_wait_ratio:.2f} times and the longest wait "
        f"{standing.max_wait_ratio:.2f} times as long"
    )


def recommend(
    case: Case,
    *,
    present: AnyPolicy = FIRST_COME,
    candidates: Sequence[AnyPolicy] | None = None,
    weeks: float = WEEKS,
    progress: Callable[[], None] = lambda: None,
) -> Recommendation:
    """Return whether to change from the policy in use, and to which candidate.

    That is the one with the lowest bounded slowdown of those that are safe and surely better on the latest weeks,
    and were neither unsafe nor surely worse on as many weeks before. By default the candidates are all rules with
    each guard, which go by requests, and the policy `default`, which goes by forecasts. `progress` is called after
    each run of a candidate. Raises InputError if the latest weeks have too few jobs.
    """
    if candidates is None:
        candidates = [*(rule for rule in static_deciders() if rule.guard), LearnedPolicy.load("default")]
    candidates = [each for each in candidates if each != present]
    last, earlier = latest_weeks(case, weeks)
    latest = Period.of(last, present, candidates, progress)
    before = None if earlier is None else Period.of(earlier, present, candidates, progress)
    good = [
        at
        for at in latest.ranking()
        if latest.standings[at].is_better and not (before and before.standings[at].is_worse)
    ]
    return Recommendation(name_of(present), weeks, latest, before, good[0] if good else None)


def latest_weeks(case: Case, weeks: float) -> tuple[Case, Case | None]:
    """Return the jobs of the latest weeks, and those of as many weeks before if there are enough of them.

    Raises InputError if the latest weeks have too few jobs, UsageError if the weeks are no time.
    """
    if not 0 < weeks < np.inf:
        raise UsageError(f"{weeks} weeks are no time to compare policies on", expected="a number above 0")
    submit_ms = case.jobs.submit_ms
    begins_ms = submit_ms[-1] - np.array([2 * weeks, weeks]) * _WEEK_MS
    earlier, later = (int(at) for at in np.searchsorted(submit_ms, begins_ms, side="right"))
    if len(case) - later < FEWEST_JOBS:
        raise InputError(
            f"The latest {_span(weeks)} have only {counted(len(case) - later, 'job')} to compare policies by",
            expected=f"at least {FEWEST_JOBS}",
            remedy="Compare them on more weeks",
        )
    enough = later - earlier >= FEWEST_JOBS
    return case.select(slice(later, None)), case.select(slice(earlier, later)) if enough else None


class PolicyStore(VersionStore[LearnedPolicy]):
    """The policies of one cluster over time: which one is in use, which were tried, and the way back."""

    noun = "policy"
    writer = "presage policy"

    def __init__(self, folder: str | Path, first: str = "default") -> None:
        super().__init__(folder)
        self._first = first

    def is_one(self) -> bool:
        """Return whether the folder is a store, and not one of other things; an empty one is a new store."""
        return self._state.is_file() or not any(self.folder.iterdir())

    def _load(self, path: Path | None) -> LearnedPolicy:
        return LearnedPolicy.load(self._first if path is None else path)

    def propose(
        self, policy: LearnedPolicy, case: Case, *, weeks: float = WEEKS, now: datetime | None = None
    ) -> Attempt:
        """Run a policy beside the one in use on the latest weeks, and let it take over if it is surely better.

        It must not have been learned from these weeks. Returns what was tried, as it is remembered here. Raises
        InputError if the latest weeks have too few jobs; then nothing is remembered.
        """
        last, earlier = latest_weeks(case, weeks)
        in_use, version = self.current(), self.next_version()
        periods = {"latest": last} if earlier is None else {"latest": last, "before": earlier}
        standings = {name: Period.of(period, in_use, [policy]).standings[0] for name, period in periods.items()}
        attempt = Attempt(
            version=version,
            replaces=self.current_version(),
            made=(now or datetime.now(UTC)).isoformat(timespec="seconds"),
            took_over=standings["latest"].is_better,
            reason=_reason(standings["latest"]),
            jobs=len(last),
            figures={name: _figures(standing) for name, standing in standings.items()},
        )
        self.record(
            attempt, replace(policy, about={**policy.about, "version": version, "replaces": attempt.replaces})
        )
        return attempt


def _reason(standing: Standing) -> str:
    if not standing.safe:
        return f"not safe on the latest jobs: some would wait much longer than in line (slowdown {standing} times)"
    verdict = "better" if standing.is_better else "worse" if standing.is_worse else "not surely better"
    return f"{verdict} on the latest jobs (slowdown {standing} times)"


def _figures(standing: Standing) -> dict[str, float | None]:
    names = ("mean_bounded_slowdown", "ratio", "low", "high", "p99_wait_ratio", "max_wait_ratio")
    return {name: getattr(standing, name) for name in names}
