"""How a policy does on the last part of a log, beside the best rule that its first part would have picked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from presage.errors import UsageError
from presage.learning.outcomes import Outcome, ratio_of
from presage.learning.self_watch import REQUESTED, SelfWatch
from presage.learning.static_rules import FIRST_COME, HIGH_LOAD, best_static, label
from presage.simulator.guided import Decider
from presage.simulator.look_ahead import LookAhead, schedule_looking_ahead
from presage.simulator.metrics import measure

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from presage.learning.cases import Case
    from presage.learning.learned_policy import LearnedPolicy
    from presage.simulator.metrics import Metrics

    Ints = NDArray[np.int64]
    AnyPolicy = LearnedPolicy | Decider | LookAhead

LOOK_AHEAD = "look-ahead"


def name_of(policy: AnyPolicy) -> str:
    """Return what a policy is called; a rule with its guard, as `saf/A`."""
    if isinstance(policy, LookAhead):
        return LOOK_AHEAD
    return label(policy) if isinstance(policy, Decider) else policy.name


def starts_of(case: Case, policy: AnyPolicy) -> tuple[Ints, float]:
    """Return when each job starts, and the share of the time for which the policy went by requests.

    A rule goes by requests; all others by forecasts, unless a policy that watches itself finds requests better.
    """
    if isinstance(policy, Decider):
        return case.run(policy, "requested"), 0.0
    if isinstance(policy, LookAhead):
        known = [case.forecasts]
        return schedule_looking_ahead(case.jobs, case.processors, policy, known, users=case.users)[0], 0.0
    if not policy.watches:
        return case.run(policy.decider), 0.0
    start_ms, switches = SelfWatch().watched_run(case, policy.decider)
    return start_ms, float((switches.source == REQUESTED).mean())


@dataclass(frozen=True)
class Schedule:
    """What one policy made of a case."""

    name: str
    outcome: Outcome
    metrics: Metrics
    by_requests: float = 0.0
    """The share of the time for which a policy that watches itself went by requests."""

    @classmethod
    def of(cls, case: Case, policy: AnyPolicy) -> Schedule:
        """Run a policy; a decider without forecasts goes by requests."""
        return cls.from_starts(name_of(policy), case, *starts_of(case, policy))

    @classmethod
    def from_starts(cls, name: str, case: Case, start_ms: Ints, by_requests: float = 0.0) -> Schedule:
        """Return what the starts come to."""
        outcome, metrics = Outcome.of(case, start_ms), measure(case.jobs, start_ms, case.processors)
        return cls(name, outcome, metrics, by_requests)


@dataclass(frozen=True)
class Evaluation:
    """A policy on the test part of a log, and what it is compared with there."""

    policy: Schedule
    static: Schedule
    """The best safe rule without forecasts, picked before the test part."""
    first_come: Schedule
    load: float

    def as_dict(self) -> dict[str, Any]:
        """Return all figures, those of the policy at the top."""
        own, line = self.policy.metrics, self.first_come.metrics
        ratio, interval = ratio_of(self.policy.outcome, self.static.outcome)
        return {
            "policy": self.policy.name,
            **_figures(own),
            "ratio_to_best_static": ratio,
            "ci95": list(interval),
            "best_static": {"rule": self.static.name, **_figures(self.static.metrics)},
            "ratio_to_fcfs": {
                "mean_bounded_slowdown": own.mean_bounded_slowdown / line.mean_bounded_slowdown,
                "p99_wait_s": over(own.p99_wait_s, line.p99_wait_s),
                "max_wait_s": over(own.max_wait_s, line.max_wait_s),
                "mean_response_s": own.mean_response_s / line.mean_response_s,
            },
            "share_by_requests": self.policy.by_requests,
            "load": self.load,
            "jobs": own.jobs,
        }


def over(one: float, other: float) -> float | None:
    """Return a ratio; None where there is nothing to compare with."""
    return one / other if other > 0 else None


def _figures(metrics: Metrics) -> dict[str, float]:
    names = ("mean_bounded_slowdown", "mean_wait_s", "p99_wait_s", "max_wait_s", "mean_response_s", "utilization")
    return {name: getattr(metrics, name) for name in names}


def split_case(case: Case, split: float, begins_at: float) -> tuple[Case, Case]:
    """Return what comes before and behind a share of a log whose case begins at another share of it."""
    if not begins_at < split < 1:
        raise UsageError(
            f"A log that is known from {begins_at:g} on cannot be split at {split:g}",
            expected="a share between them and 1, like 0.6",
        )
    at = (split - begins_at) / (1 - begins_at)
    return case.between(0, at), case.between(at, 1)


def evaluate_policy(policy: AnyPolicy, train: Case, test: Case, *, high_load: bool = False) -> Evaluation:
    """Run a policy on `test`, at a load of 0.9 if `high_load`; the rule to beat is picked on `train`."""
    static = best_static(train)
    case = test.at_load(HIGH_LOAD) if high_load else test
    first_come, best = Schedule.of(case, FIRST_COME), Schedule.of(case, static)
    return Evaluation(Schedule.of(case, policy), best, first_come, case.load)
