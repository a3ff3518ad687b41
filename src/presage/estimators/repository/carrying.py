"""Predictions as documents that travel with a job, so that whoever learns how it ended can settle them."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from presage.errors import InputError
from presage.estimators._base import EstimateRequest
from presage.estimators.plugins.contract import read_answer, read_request, write_answer, write_request
from presage.estimators.refits.estimating import carried

if TYPE_CHECKING:
    from collections.abc import Iterable

    from presage.estimators._base import Estimate
    from presage.estimators.workloads import ScriptWorkload, Target, TrainingWorkload

log = logging.getLogger(__name__)

_MOST_CHARS = 100
MOST_PREDICTIONS = 8


@dataclass(frozen=True)
class Carried:
    """A question with its answer."""

    request: EstimateRequest
    answer: Estimate


def write_predictions(
    workload: TrainingWorkload | ScriptWorkload, target: Target, answers: Iterable[Estimate | None]
) -> tuple[dict[str, Any], ...]:
    """Return what was answered about a job, as JSON has it; what JSON cannot carry is left out.

    It has what learning from it needs, and nothing else of what an answer may say.
    """
    documents = []
    for answer in answers:
        if answer is None:
            continue
        try:
            question = json.loads(write_request(EstimateRequest(answer.quantity, workload, target)))
            documents.append({"request": question, "answer": json.loads(write_answer(carried(answer)))})
        except InputError as error:  # a name that is not Unicode, for example
            log.info("A prediction of the %s is not kept: %s", answer.quantity.value, error)
    return tuple(documents)


def read_predictions(documents: Any) -> list[Carried]:
    """Return the predictions in some documents, one of each quantity. Raises InputError saying what is wrong."""
    documents = list(documents)
    if len(documents) > MOST_PREDICTIONS:
        raise InputError(f"There are {len(documents)} predictions", expected=f"at most {MOST_PREDICTIONS}")
    found = [_read_prediction(each) for each in documents]
    return list({each.answer.quantity: each for each in found}.values())


def _read_prediction(document: Any) -> Carried:
    try:
        request, answer = document["request"], document["answer"]
        names = [str(answer[key]) for key in ("estimator", "version")]
        texts = [json.dumps(each, allow_nan=False).encode() for each in (request, answer)]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise InputError("It is no prediction", expected="a request and an answer, by name") from None
    if not all(0 < len(name) <= _MOST_CHARS and name.isprintable() for name in names):
        raise InputError("The estimator of a prediction has no name", expected=f"up to {_MOST_CHARS} characters")
    asked = read_request(texts[0])
    told = read_answer(texts[1], quantity=asked.quantity, estimator=names[0], version=names[1])
    return Carried(asked, told)
