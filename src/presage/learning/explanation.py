"""A learned policy in words and numbers: what it reads, which way that moves a job, and where it comes from."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from presage.policies.queue_scorer import OF_THE_JOB, OF_THE_QUEUE

if TYPE_CHECKING:
    from presage.learning.learned_policy import LearnedPolicy

_DOUBLED = {
    "log_expected_run": "a job expected to run twice as long",
    "log_typical_run": "a job that would typically run twice as long",
    "log_requested": "a job that requests twice the time",
    "log_processors": "a job of twice the processors",
    "log_waited": "a job that has waited 12 h instead of 4 h",
    "log_expected_slowdown": "a job with twice the slowdown",
}
_FROM_NOTHING = {
    "share_of_machine": "a job that needs the whole machine",
    "user_share": "a job whose user has used all of the machine of late",
    "fits": "a job that would fit right now",
}


@dataclass(frozen=True)
class Term:
    """One of the numbers that a policy reads of a job."""

    name: str
    weight: float
    """What a unit of it adds to the score; the lowest score goes first."""
    means: str


@dataclass(frozen=True)
class Explanation:
    """What there is to say of a policy."""

    name: str
    says: str
    terms: list[Term]
    units: int
    """Hidden units beside the weighted sum."""
    about: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation for JSON."""
        return asdict(self)


def explain_policy(policy: LearnedPolicy) -> Explanation:
    """Return what a policy reads, the weightiest first, and its rules besides."""
    terms = [
        Term(name, float(weight), _meaning(name, float(weight)))
        for name, weight in zip(OF_THE_JOB, policy.scorer.weights, strict=True)
    ]
    terms.sort(key=lambda term: -abs(term.weight))
    units = len(policy.scorer.out)
    guard = policy.guard
    longest = (
        f"{guard.base_s / 3600:g} h and {guard.backlog:g} times as long as the queue's requests fill the machine"
    )
    says = [
        f"{policy.name}: jobs are started in the order of a score, with EASY backfilling by requests.",
        f"The oldest job goes first once it has waited {longest}.",
    ]
    if policy.watches:
        says.append("While the last four weeks would have gone better by requests, it goes by them.")
    if units:
        says.append(f"{units} hidden units, which see the whole queue, correct the weighted sum below.")
    return Explanation(policy.name, "\n".join(says), terms, units, policy.about)


def _meaning(name: str, weight: float) -> str:
    """Say which way a weight moves a job."""
    if abs(weight) < 1e-9:
        return "it does not matter"
    way = "goes later" if weight > 0 else "goes earlier"
    if name in _FROM_NOTHING:
        return f"{_FROM_NOTHING[name]} {way}"
    # In the measure of the expected run: the factor by which that would have to change to the same effect.
    return f"{_DOUBLED[name]} {way} (score x {2 ** abs(weight):.2g})" if math.isfinite(weight) else way


def policy_document(policy: LearnedPolicy) -> dict[str, Any]:
    """Return all that a policy is, for JSON: enough to write it again in another language."""
    scorer = policy.scorer
    return {
        "name": policy.name,
        "reads_of_the_job": list(OF_THE_JOB),
        "reads_of_the_queue": list(OF_THE_QUEUE),
        "score": "weights · job + out · tanh(hidden · [job, queue, attended mean, 1]); the lowest goes first",
        "weights": scorer.weights.tolist(),
        "hidden": scorer.hidden.tolist(),
        "out": scorer.out.tolist(),
        "attention": scorer.attention.tolist(),
        "guard": asdict(policy.guard),
        "watches": policy.watches,
        "about": policy.about,
    }
