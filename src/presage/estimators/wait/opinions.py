"""All answers to one question about a wait, so that a second opinion can stand beside the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from presage.errors import UsageError
from presage.estimators import ESTIMATORS
from presage.estimators._base import NOTHING_KNOWN, Quantity, UnsupportedError

if TYPE_CHECKING:
    from presage.estimators._base import Estimate, EstimateRequest, Knowledge


@dataclass(frozen=True)
class WaitOpinions:
    """Answers in the order in which estimators are asked, the first being the one to go by."""

    answers: tuple[Estimate, ...]
    declined: dict[str, str]
    """Who has no answer, and why."""

    @property
    def first(self) -> Estimate | None:
        """The answer to go by; None if nobody has one."""
        return self.answers[0] if self.answers else None

    def as_dict(self) -> dict[str, Any]:
        """Return the opinions as they are told to machines."""
        return {"answers": [each.as_dict() for each in self.answers], "declined": self.declined}


def wait_opinions(request: EstimateRequest, knowledge: Knowledge = NOTHING_KNOWN) -> WaitOpinions:
    """Return what every estimator of waits answers. Raises UsageError if the question is about something else."""
    if request.quantity is not Quantity.WAIT:
        raise UsageError(f"This is a question about {request.quantity.value}", expected="one about a wait")
    answers: list[Estimate] = []
    declined: dict[str, str] = {}
    for name, kind in ESTIMATORS.load_all().items():
        if kind.quantity is not Quantity.WAIT:
            continue
        try:
            answers.append(kind(knowledge).estimate(request))
        except UnsupportedError as error:
            declined[name] = error.problem
    return WaitOpinions(tuple(answers), declined)
