"""Estimators of other people, asked so that their failures stay theirs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from presage.errors import PresageError
from presage.estimators._base import Estimate, EstimateRequest, UnsupportedError
from presage.estimators.plugins.contract import BrokenPluginError, printable, read_answer, write_answer

if TYPE_CHECKING:
    from presage.estimators._base import Estimator

log = logging.getLogger(__name__)


def ask_guarded(estimator: Estimator, request: EstimateRequest) -> Estimate:
    """Return the answer of an estimator; one of another package is checked as any plug-in's.

    Raises UnsupportedError if it has none. Whatever else one of another package raises, and an answer of its that
    is none, is logged with its name and becomes a BrokenPluginError, so that the next one is asked. Those of
    Presage also raise InputError, for what no other could use either.
    """
    if type(estimator).__module__.startswith("presage."):
        return estimator.estimate(request)
    try:
        answer = estimator.estimate(request)
        document = write_answer(answer)
        return read_answer(
            document, quantity=request.quantity, estimator=estimator.name, version=estimator.version
        )
    except UnsupportedError:
        raise
    except PresageError as error:
        problem = error.problem
    except Exception as error:  # noqa: BLE001  (code of strangers may raise anything, and must not end an estimate)
        problem = f"{type(error).__name__}: {error}"
    shown = printable(problem)
    log.warning("The estimator %s %s is broken: %s", estimator.name, estimator.version, shown)
    raise BrokenPluginError(f"it is broken: {shown}")
