"""One question to all estimators of a quantity, in their order; the first that has an answer gives it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from presage.estimators import ESTIMATORS
from presage.estimators._base import (
    NOTHING_KNOWN,
    Estimate,
    EstimateRequest,
    Estimator,
    Knowledge,
    UnsupportedError,
)
from presage.estimators.plugins.guarding import ask_guarded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from presage.estimators.repository import Repository


def ask(
    request: EstimateRequest,
    knowledge: Knowledge = NOTHING_KNOWN,
    *,
    names: Iterable[str] = (),
    repository: Repository | None = None,
    job_key: str | None = None,
) -> Estimate:
    """Return the first answer; those who had none are named in its details with their reasons.

    `names` are the estimators to ask, in this order; all of the registry if empty. With a `repository`, those that
    were added to it are asked first, the answer is stored, under `job_key` if there is one, and so is what shadows
    would have said. Raises UnsupportedError with every reason if none has an answer, UnknownNameError for a name
    that is not registered.
    """
    leading, shadows = _candidates(request, knowledge, names, repository)
    answer = _first_answer(leading, request)
    if repository is not None:
        repository.follow(request, answer, shadows, job_key=job_key)
    return answer


def _first_answer(estimators: Iterable[Estimator], request: EstimateRequest) -> Estimate:
    declined: dict[str, str] = {}
    for estimator in estimators:
        try:
            answer = ask_guarded(estimator, request)
        except UnsupportedError as error:
            declined[estimator.name] = error.problem
            continue
        return replace(answer, details={**answer.details, "declined": declined}) if declined else answer
    reasons = "; ".join(f"{name}: {reason}" for name, reason in declined.items()) or "no estimator is installed"
    raise UnsupportedError(f"Nobody can estimate the {request.quantity.value} ({reasons})")


def _candidates(
    request: EstimateRequest, knowledge: Knowledge, names: Iterable[str], repository: Repository | None
) -> tuple[list[Estimator], list[Estimator]]:
    """Return who is to be asked, and whose answers are only stored."""
    asked = list(names)
    if repository is not None and not asked:
        from presage.estimators.repository import Role

        found = repository.estimators_for(request.quantity, knowledge)
        return [each for each, role in found if role is Role.IN_CHARGE], [
            each for each, role in found if role is Role.SHADOW
        ]
    kinds = [ESTIMATORS.get(name) for name in asked] if asked else list(ESTIMATORS.load_all().values())
    return [kind(knowledge) for kind in kinds if kind.quantity is request.quantity], []
