"""What all plug-ins outside of this process share: documents in and out, and what becomes of their failures."""

from __future__ import annotations

import logging
import signal
from abc import abstractmethod
from typing import TYPE_CHECKING

from presage.errors import InputError
from presage.estimators._base import (
    NOTHING_KNOWN,
    Estimate,
    EstimateRequest,
    Estimator,
    Knowledge,
    UnsupportedError,
)
from presage.estimators.plugins._process import Finished, ProcessFailedError
from presage.estimators.plugins.contract import (
    EXIT_ANSWER,
    EXIT_BAD_REQUEST,
    EXIT_UNSUPPORTED,
    BrokenPluginError,
    printable,
    read_answer,
    read_refusal,
    write_request,
)

if TYPE_CHECKING:
    from presage.estimators.plugins.manifest import Manifest

log = logging.getLogger(__name__)


class PluginEstimator(Estimator):
    """An estimator that is asked by documents.

    A failure (it crashes, takes too long, answers what is no answer) is logged with its name and raised as
    BrokenPluginError, which is an UnsupportedError: the next estimator is asked.
    """

    def __init__(self, manifest: Manifest, knowledge: Knowledge = NOTHING_KNOWN) -> None:
        super().__init__(knowledge)
        self.manifest = manifest
        self.name = manifest.name
        self.version = manifest.version
        self.quantity = manifest.quantity

    def estimate(self, request: EstimateRequest) -> Estimate:
        if request.quantity is not self.quantity:
            raise UnsupportedError(f"it estimates {self.quantity.value}, not {request.quantity.value}")
        try:
            document = write_request(request)
        except InputError as error:
            raise UnsupportedError(error.problem) from None
        try:
            answer = self.ask(document)
            return read_answer(answer, quantity=self.quantity, estimator=self.name, version=self.version)
        except InputError as error:
            raise self.broken(error.problem) from None

    @abstractmethod
    def ask(self, document: bytes) -> bytes:
        """Return the answer's document, unchecked. Raises UnsupportedError, through `broken` if it is broken."""

    def broken(self, problem: str) -> BrokenPluginError:
        """Return the error of a plug-in that is broken, after it was logged."""
        shown = printable(problem)
        log.warning("The estimator %s %s is broken: %s", self.name, self.version, shown)
        return BrokenPluginError(f"it is broken: {shown}")


class ProcessEstimator(PluginEstimator):
    """A plug-in that is a command: its exit code says what became of the question."""

    @abstractmethod
    def run(self, document: bytes) -> Finished:
        """Return what the command did with the request. Raises ProcessFailedError."""

    def ask(self, document: bytes) -> bytes:
        try:
            finished = self.run(document)
        except ProcessFailedError as error:
            raise self.broken(str(error)) from None
        if finished.exit_code == EXIT_ANSWER:
            return finished.stdout
        if finished.exit_code == EXIT_UNSUPPORTED:
            raise UnsupportedError(read_refusal(finished.stdout, finished.stderr))
        raise self.broken(f"{how_it_ended(finished)}: {read_refusal(finished.stderr, finished.stdout)}")


def how_it_ended(finished: Finished) -> str:
    """Return the exit code of a command in words."""
    if finished.exit_code == EXIT_BAD_REQUEST:
        return "it did not understand the request"
    if finished.exit_code < 0:
        try:
            return f"it was ended by {signal.Signals(-finished.exit_code).name}"
        except ValueError:
            return f"it was ended by signal {-finished.exit_code}"
    return f"it exited with {finished.exit_code}"
