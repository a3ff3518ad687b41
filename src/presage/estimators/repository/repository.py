"""The model repository: estimators that were added, in charge or in the shadow, judged by what then happened."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from presage.errors import InputError, PresageError, UsageError
from presage.estimators._base import (
    NOTHING_KNOWN,
    Estimate,
    EstimateRequest,
    Estimator,
    Knowledge,
    Quantity,
    UnsupportedError,
)
from presage.estimators.plugins.guarding import ask_guarded
from presage.estimators.plugins.manifest import Kind
from presage.estimators.repository.loading import load_plugin, load_registered, registered_kinds
from presage.estimators.repository.predictions import Prediction, Predictions, Role
from presage.estimators.repository.scoring import Score, score
from presage.estimators.repository.versions import Entry, State, Versions
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from pathlib import Path

    from presage.database import Database
    from presage.estimators.refits.refitting import Refits
    from presage.estimators.repository.pulling import Stated

log = logging.getLogger(__name__)
NEEDED_OUTCOMES = 20
"""Below which nothing takes over by itself."""
COMPARED = 5_000
"""Predictions of the past that are looked at, the latest ones."""
ASKED_AGAIN = 200
"""Old questions that a new version is asked at most."""


@dataclass(frozen=True)
class Comparison:
    """A version against whatever was in charge, on the same questions."""

    name: str
    version: str
    quantity: Quantity
    outcomes: int
    """Questions that both answered and whose outcome is known."""
    needed: int
    candidate: Score | None
    in_charge: Score | None
    declined: int
    """Old questions that the candidate had no answer to."""
    takes_over: bool
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        return {
            "name": self.name, "version": self.version, "quantity": self.quantity.value,
            "outcomes": self.outcomes, "needed": self.needed,
            "candidate": None if self.candidate is None else self.candidate.as_dict(),
            "in_charge": None if self.in_charge is None else self.in_charge.as_dict(),
            "declined": self.declined, "takes_over": self.takes_over, "reason": self.reason,
        }  # fmt: skip


class Repository:
    """Estimators in a database, with their files in the state folder.

    Whatever is added begins in the shadow: it is asked along with those in charge, its answers are stored and not
    given. It takes over when it did no worse than those in charge on enough questions whose outcome is known, or
    when somebody pins it.
    """

    def __init__(self, database: Database | None = None, home: Path | None = None) -> None:
        from presage.database import state_home
        from presage.database.connection import Database

        self.database = database or Database()
        self.home = home or state_home() / "estimators"
        self.versions = Versions(self.database, self.home)
        self.predictions = Predictions(self.database)

    def add(
        self, source: str, stated: Stated | None = None, *, runner: str | None = None, in_charge: bool = False
    ) -> Entry:
        """Add the estimator at `source` (see `pulled`); return its entry. With `in_charge` it answers at once."""
        entry = self.versions.add(source, stated, runner=runner)
        if in_charge and entry.state is not State.IN_CHARGE:
            return self.versions.put_in_charge(entry.name, entry.version, "put in charge when it was added")
        return entry

    def estimators_for(
        self, quantity: Quantity, knowledge: Knowledge = NOTHING_KNOWN
    ) -> list[tuple[Estimator, Role]]:
        """Return who is to be asked, in this order: those added and in charge, those of the registry, shadows.

        One that was added under a name of the registry stands in for it while it is in charge. A database that
        cannot be read, and an estimator that cannot be loaded, are logged and left out; the rest still answers.
        """
        entries = [entry for entry in self._entries() if entry.manifest.quantity is quantity]
        leading = [entry for entry in entries if entry.state is State.IN_CHARGE]
        leading.sort(key=lambda entry: entry.manifest.kind is Kind.FITTED)  # after those that somebody chose
        shadows = [entry for entry in entries if entry.state is State.SHADOW]
        governed = {entry.name for entry in leading}
        # A class of a package answers by being installed; once it was added, its role here counts.
        governed |= {entry.name for entry in entries if entry.manifest.kind is Kind.PYTHON}
        registered = [
            estimator
            for name, kind in registered_kinds().items()
            if name not in governed
            and kind.quantity is quantity
            and (estimator := load_registered(name, knowledge)) is not None
        ]
        first = self._load_all(leading, knowledge)
        beside = self._load_all(shadows, knowledge)
        return [
            *((each, Role.IN_CHARGE) for each in (*first, *registered)),
            *((each, Role.SHADOW) for each in beside),
        ]

    def load(self, entry: Entry, knowledge: Knowledge = NOTHING_KNOWN) -> Estimator:
        """Return the estimator of an entry. Raises InputError if its files are not what was added."""
        if entry.manifest.kind is Kind.FITTED:
            return self.refits.load(entry, knowledge)
        folder = self.versions.folder(entry.name, entry.version)
        if entry.manifest.kind is Kind.PROGRAM and not self.versions.files_are_there(entry):
            raise InputError(
                f"The files of {entry.name} {entry.version} are not those that were added",
                remedy="Remove it and add it again",
            )
        return load_plugin(entry.manifest, folder, knowledge, runner=entry.runner)

    @property
    def refits(self) -> Refits:
        """What was learned from jobs that ended."""
        from presage.estimators.refits.refitting import Refits

        return Refits(self.database, self.home)

    def refitted(self, quantity: Quantity, knowledge: Knowledge = NOTHING_KNOWN) -> Estimator | None:
        """Return the estimator in charge that what happened has corrected; None if nothing was learned yet."""
        found = (
            entry
            for entry in self._entries()
            if entry.manifest.quantity is quantity
            and entry.manifest.kind is Kind.FITTED
            and entry.state is State.IN_CHARGE
        )
        entry = next(found, None)
        return None if entry is None else self.load(entry, knowledge)

    def follow(
        self,
        request: EstimateRequest,
        answer: Estimate,
        shadows: Iterable[Estimator] = (),
        *,
        job_key: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """Store an answer that was given, and what the shadows would have said. Never raises."""
        self.predictions.store(request, answer, job_key=job_key, at=at)
        for shadow in shadows:
            try:
                said = ask_guarded(shadow, request)
            except UnsupportedError as error:
                log.debug("The shadow %s %s has no answer: %s", shadow.name, shadow.version, error.problem)
                continue
            self.predictions.store(request, said, role=Role.SHADOW, job_key=job_key, at=at)

    def compare(
        self, name: str, version: str | None = None, *, needed: int = NEEDED_OUTCOMES, again: int = ASKED_AGAIN
    ) -> Comparison:
        """Return how a version did against those in charge, on the questions that both answered.

        By default it is the latest in the shadow. Questions of the past that it was not asked when they came up
        are put to it now, the latest `again` of them, and its answers are stored.
        """
        entry = self._candidate(name, version)
        past = [
            each
            for each in self.predictions.find(
                quantity=entry.manifest.quantity, role=Role.IN_CHARGE, with_outcome=True, limit=COMPARED
            )
            if (each.estimator, each.version) != (entry.name, entry.version)
        ]
        answered = self._own_answers(entry)
        declined = self._ask_again(entry, [each for each in past if _key(each) not in answered][:again], answered)
        # The earliest answer to a question counts, as that is what was known when it was asked.
        given = {_key(each): each for each in past if _key(each) in answered}
        mine = score((answered[key], each.actual) for key, each in given.items() if each.actual is not None)
        theirs = score((each.spread, each.actual) for each in given.values() if each.actual is not None)
        takes_over, reason = _verdict(mine, theirs, needed)
        return Comparison(
            entry.name, entry.version, entry.manifest.quantity, len(given), needed, mine, theirs, declined,
            takes_over, reason,
        )  # fmt: skip

    def take_over(
        self, name: str, version: str | None = None, *, needed: int = NEEDED_OUTCOMES, again: int = ASKED_AGAIN
    ) -> Comparison:
        """Put a version in charge if it did no worse than those in charge; return the comparison.

        Raises UsageError if a version of the name is pinned.
        """
        pinned = next((entry for entry in self.versions.all(name) if entry.pinned), None)
        if pinned is not None:
            raise UsageError(f"{name} is pinned to {pinned.version}", remedy="Unpin it first")
        comparison = self.compare(name, version, needed=needed, again=again)
        if comparison.takes_over:
            self.versions.put_in_charge(name, comparison.version, comparison.reason)
        return comparison

    def _entries(self) -> list[Entry]:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            return self.versions.all()
        except (PresageError, SQLAlchemyError, OSError, ValueError) as error:
            log.warning("Estimators that were added are left out: %s", error)
            return []

    def _load_all(self, entries: list[Entry], knowledge: Knowledge) -> list[Estimator]:
        loaded = []
        for entry in entries:
            try:
                loaded.append(self.load(entry, knowledge))
            except PresageError as error:
                log.warning("The estimator %s %s is left out: %s", entry.name, entry.version, error)
        return loaded

    def _candidate(self, name: str, version: str | None) -> Entry:
        if version is not None:
            return self.versions.get(name, version)
        shadows = [entry for entry in self.versions.all(name) if entry.state is State.SHADOW]
        return shadows[-1] if shadows else self.versions.get(name)

    def _own_answers(self, entry: Entry) -> dict[tuple[str | None, str], Any]:
        own = self.predictions.find(quantity=entry.manifest.quantity, estimator=entry.name, version=entry.version)
        return {_key(each): each.spread for each in own}

    def _ask_again(self, entry: Entry, past: list[Prediction], answered: dict[tuple[str | None, str], Any]) -> int:
        """Put old questions to a version, add its answers, and return how many it had none to."""
        if not past:
            return 0
        candidate = self.load(entry)
        declined = 0
        for each in {_key(one): one for one in past}.values():
            try:
                request = each.read_request()
                answer = ask_guarded(candidate, request)
            except (UnsupportedError, InputError):
                declined += 1
                continue
            self.predictions.store(request, answer, role=Role.REPLAYED, job_key=each.job_key)
            answered[_key(each)] = answer.spread
        return declined


def _key(prediction: Prediction) -> tuple[str | None, str]:
    return prediction.job_key, prediction.question


def _verdict(mine: Score | None, theirs: Score | None, needed: int) -> tuple[bool, str]:
    if mine is None or theirs is None:
        return False, f"no outcome is known of a question that both answered; {counted(needed, 'outcome')} needed"
    losses = f"pinball loss {mine.pinball_loss:.4f} against {theirs.pinball_loss:.4f}"
    if mine.count < needed:
        return False, f"only {counted(mine.count, 'outcome')} of {needed} known; {losses}"
    if mine.pinball_loss > theirs.pinball_loss:
        return False, f"worse on {counted(mine.count, 'outcome')}: {losses}"
    return True, f"no worse on {counted(mine.count, 'outcome')}: {losses}"
