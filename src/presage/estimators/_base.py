"""The contract of an estimator: a request in, a distribution with its reasons out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from presage.errors import PresageError

if TYPE_CHECKING:
    from presage.estimators.spread import Spread
    from presage.estimators.training.profile import StepProfile
    from presage.estimators.workloads import ScriptWorkload, Target, TrainingWorkload
    from presage.traces import Trace


class Quantity(StrEnum):
    """What can be estimated."""

    MEMORY = "memory"
    """Bytes at the peak, on the GPU of a training or on a node."""
    WALLTIME = "walltime"
    """Seconds from start to end."""
    WAIT = "wait"
    """Seconds from submission to start."""
    COST = "cost"
    """Of the whole run, in the currency of the target's charge rule."""


UNITS = {Quantity.MEMORY: "bytes", Quantity.WALLTIME: "s", Quantity.WAIT: "s", Quantity.COST: "currency"}


class Basis(StrEnum):
    """What an estimate rests on, from the strongest to the weakest."""

    MEASURED = "measured"
    """The very thing was run, in part."""
    HISTORY = "history"
    """Earlier jobs like it."""
    MODELLED = "modelled"
    """Computed, in a way that was checked against measurements."""
    UNVERIFIED = "modelled, unverified"
    """Computed, in a way that nobody could check here."""
    STATED = "stated"
    """Somebody said so."""


class UnsupportedError(PresageError):
    """An estimator has no answer to this request; another one may have."""

    code = "unsupported"
    exit_code = 3


@dataclass(frozen=True)
class EstimateRequest:
    """One question. `profile` is what a step of a training takes, where that is known already."""

    quantity: Quantity
    workload: TrainingWorkload | ScriptWorkload
    target: Target | None = None
    """None: the machine that asks."""
    profile: StepProfile | None = None
    walltime: Spread | None = None
    """How long it runs, where that is known already; a cost follows from it."""


@dataclass(frozen=True)
class Estimate:
    """One answer."""

    quantity: Quantity
    spread: Spread
    basis: Basis
    estimator: str
    version: str
    notes: tuple[str, ...] = ()
    """What a reader should know, in sentences."""
    details: dict[str, Any] = field(default_factory=dict)
    """More for machines: parts of the sum, what was found in the history. Plain JSON."""

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as it is told to machines; the form that plug-ins give."""
        return {
            "quantity": self.quantity.value, "unit": UNITS[self.quantity], **self.spread.as_dict(),
            "basis": self.basis.value, "estimator": self.estimator, "version": self.version,
            "notes": list(self.notes), "details": self.details,
        }  # fmt: skip


@dataclass(frozen=True)
class Knowledge:
    """What estimators may draw on; each is built with it and takes what it needs."""

    history: Trace | None = None
    """Jobs of the target system, ended and open ones, the user's among them."""
    stated_waits_s: dict[str, Spread] = field(default_factory=dict)
    """Waits that somebody knows better, by `system/partition`."""
    live: Any = None
    """A connector with start estimates, where the target is at hand."""


NOTHING_KNOWN = Knowledge()


class Estimator(ABC):
    """Answers one quantity. Stateless between calls, safe to call from several threads.

    `estimate` never guesses: it raises UnsupportedError, with the reason, for a request it has no answer to, and
    the next estimator is asked. Its answer has `quantity`, `estimator` and `version` of its own, and says what it
    rests on.
    """

    name: str
    quantity: Quantity
    version: str = "1"

    def __init__(self, knowledge: Knowledge = NOTHING_KNOWN) -> None:
        self.knowledge = knowledge

    @abstractmethod
    def estimate(self, request: EstimateRequest) -> Estimate:
        """Return the distribution of the quantity. Raises UnsupportedError."""
