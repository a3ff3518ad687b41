"""Once enough has happened, a correction is fitted, tried on jobs it has not seen, and takes over if it wins."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from presage.estimators.plugins.manifest import Kind, Manifest
from presage.estimators.refits.estimating import BASES, Base, Refitted, uncorrected
from presage.estimators.refits.fitting import (
    UNCORRECTED,
    Correction,
    coverage,
    fit_correction,
    is_better,
    mean_loss,
)
from presage.estimators.repository.predictions import Predictions
from presage.estimators.repository.versions import LOCK, State, Versions
from presage.wording import counted

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from presage.database import Database
    from presage.estimators._base import Knowledge, Quantity
    from presage.estimators.refits.kinds import JobKind
    from presage.estimators.repository._tables import Refit
    from presage.estimators.repository.versions import Entry
    from presage.estimators.spread import Spread


class Trigger(StrEnum):
    """Why a correction was fitted."""

    JOBS = "jobs"
    """Enough of them have ended since the last time."""
    DRIFT = "drift"
    """Fewer, but too many of them were outside of what was predicted."""


@dataclass(frozen=True)
class Rules:
    """When to fit, and on what."""

    jobs: int = 20
    """New outcomes of a kind after which its correction is fitted anew."""
    drift_jobs: int = 10
    """New outcomes after which it is, if their coverage is below the bound."""
    drift_coverage: float = 0.6
    """Of intervals that should hold 80 %; chance alone brings 10 jobs there once in 30 times."""
    held_out: float = 1 / 3
    """Share of the new outcomes, the latest, that a correction is tried on and not fitted on."""
    least_held_out: int = 4
    most_fitted: int = 60
    """Of a longer past the latest are taken: programs, data and machines change."""


USUAL = Rules()


@dataclass(frozen=True)
class Refitting:
    """One time that a correction was fitted."""

    number: int
    name: str
    family: str
    place: str
    trigger: Trigger
    factor: float
    fitted_on: int
    held_out: int
    loss_before: float
    loss_after: float
    """Mean pinball loss on the jobs held out, with the correction in charge until then and with the new one."""
    took_over: bool
    reason: str
    fitted_at: datetime

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        return {**asdict(self), "trigger": self.trigger.value, "fitted_at": self.fitted_at.isoformat()}


@dataclass(frozen=True)
class _Case:
    number: int
    spread: Spread
    actual: float


@dataclass(frozen=True)
class _Trial:
    """A correction with how it did against the one in charge."""

    trigger: Trigger
    correction: Correction
    held_out: int
    last: int
    loss_before: float
    loss_after: float
    wins: bool


class Refits:
    """The corrections in a database, as versions of `refitted-walltime` and `refitted-memory`."""

    def __init__(self, database: Database, home: Path, rules: Rules = USUAL) -> None:
        self._database = database
        self._versions = Versions(database, home)
        self._predictions = Predictions(database)
        self._rules = rules

    def consider(self, kind: JobKind, quantity: Quantity) -> Refitting | None:
        """Fit the correction of a kind anew if that is due, and put it in charge if it wins; None if it is not.

        Asked again before anything else has happened, it does nothing. Raises ConfigError, OutputError.
        """
        base = BASES.get(quantity)
        if base is None:
            return None
        version = base.make().version
        with self._database.reading() as session:
            seen = _last_outcome(session, base.name, kind.digest)
        cases = self._cases(kind, base, version)
        new = [case for case in cases if case.number > seen]
        old = self._in_charge(base, version).get(kind.digest, UNCORRECTED)
        trigger = self._trigger(new, old)
        if trigger is None:
            return None
        trial = self._try(cases, new, old, trigger)
        return None if trial is None else self._keep(kind, base, version, trial, seen)

    def load(self, entry: Entry, knowledge: Knowledge) -> Refitted:
        """Return the estimator of a version."""
        base = BASES[entry.manifest.quantity]
        return Refitted(base, entry.version, self._corrections(entry.version, base.make().version), knowledge)

    def all(self) -> list[Refitting]:
        """Return all that were fitted, the latest first, whether they took over or not."""
        from sqlalchemy import select

        from presage.estimators.repository._tables import Refit

        if not self._database.exists():
            return []
        with self._database.reading() as session:
            return [_refitting_of(row) for row in session.scalars(select(Refit).order_by(Refit.id.desc()))]

    def _cases(self, kind: JobKind, base: Base, version: str) -> list[_Case]:
        most = self._rules.most_fitted + 2 * self._rules.jobs
        cases = []
        for number, each in self._predictions.settled(kind.digest, base.quantity, most):
            spread = uncorrected(each, base, version)
            if spread is not None and spread.p50 > 0 and each.actual:
                cases.append(_Case(number, spread, each.actual))
        return cases

    def _trigger(self, new: list[_Case], old: Correction) -> Trigger | None:
        if len(new) >= self._rules.jobs:
            return Trigger.JOBS
        if len(new) >= self._rules.drift_jobs and coverage(old, _pairs(new)) < self._rules.drift_coverage:
            return Trigger.DRIFT
        return None

    def _try(self, cases: list[_Case], new: list[_Case], old: Correction, trigger: Trigger) -> _Trial | None:
        rules = self._rules
        count = max(rules.least_held_out, round(rules.held_out * len(new)))
        # What was true before a drift is not what is to be learned.
        past = new if trigger is Trigger.DRIFT else cases
        held, fitted = past[-count:], past[:-count][-rules.most_fitted :]
        correction = fit_correction(_pairs(fitted))
        if correction is None:
            return None
        judged = _pairs(held)
        return _Trial(
            trigger, correction, len(held), new[-1].number, mean_loss(old, judged), mean_loss(correction, judged),
            is_better(correction, old, judged),
        )  # fmt: skip

    def _keep(self, kind: JobKind, base: Base, version: str, trial: _Trial, seen: int) -> Refitting | None:
        with self._database.writing(LOCK) as session:
            if _last_outcome(session, base.name, kind.digest) != seen:
                return None  # somebody else was faster
            entries = _fitted(self._versions.listed(session, base.name))
            pinned = next((entry.version for entry in entries if entry.pinned), None)
            in_charge = next((entry.version for entry in entries if entry.state is State.IN_CHARGE), None)
            row = _row_of(kind, base, version, trial, pinned)
            row.parent = None if in_charge is None else int(in_charge)
            session.add(row)
            session.flush()
            if row.took_over:
                manifest = _manifest_of(row, base, kind)
                self._versions.add_fitted(session, manifest, _digest_of(row), row.reason)
            return _refitting_of(row)

    def _in_charge(self, base: Base, version: str) -> dict[str, Correction]:
        entries = _fitted(self._versions.all(base.name))
        in_charge = next((entry for entry in entries if entry.state is State.IN_CHARGE), None)
        return {} if in_charge is None else self._corrections(in_charge.version, version)

    def _corrections(self, version: str, base_version: str) -> dict[str, Correction]:
        """Return the corrections of a version by the digest of their kind: its own and those it came upon."""
        from sqlalchemy import select

        from presage.estimators.repository._tables import Refit

        with self._database.reading() as session:
            rows = {row.id: row for row in session.scalars(select(Refit).filter_by(took_over=True))}
        found: dict[str, Correction] = {}
        row = rows.get(int(version))
        while row is not None:
            if row.base_version == base_version:
                found.setdefault(
                    row.job_kind, Correction(row.log_factor, row.below, row.above, row.fitted_on)
                )  # fmt: skip
            row = None if row.parent is None else rows.get(row.parent)
        return found


def _fitted(entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.manifest.kind is Kind.FITTED]


def _pairs(cases: list[_Case]) -> list[tuple[Spread, float]]:
    return [(case.spread, case.actual) for case in cases]


def _last_outcome(session: Session, name: str, job_kind: str) -> int:
    """Return the number of the last outcome that a correction of the kind was tried or fitted on."""
    from sqlalchemy import func, select

    from presage.estimators.repository._tables import Refit

    return session.scalar(select(func.max(Refit.last_outcome)).filter_by(name=name, job_kind=job_kind)) or 0


def _row_of(kind: JobKind, base: Base, version: str, trial: _Trial, pinned: str | None) -> Refit:
    from presage.estimators.repository._tables import Refit

    correction = trial.correction
    return Refit(
        name=base.name, job_kind=kind.digest, family=kind.family, place=kind.place, base_version=version,
        trigger=trial.trigger.value, fitted_on=correction.jobs, held_out=trial.held_out, last_outcome=trial.last,
        log_factor=correction.log_factor, below=correction.below, above=correction.above,
        loss_before=trial.loss_before, loss_after=trial.loss_after, took_over=trial.wins and pinned is None,
        reason=_reason(kind, trial, pinned), fitted_at=datetime.now(UTC),
    )  # fmt: skip


def _reason(kind: JobKind, trial: _Trial, pinned: str | None) -> str:
    verdict = "better" if trial.wins else "not surely better"
    losses = f"pinball loss {trial.loss_after:.4f} against {trial.loss_before:.4f}"
    kept = f"; but {pinned} is pinned" if trial.wins and pinned is not None else ""
    return f"{kind}: {verdict} on the latest {counted(trial.held_out, 'job')}: {losses}{kept}"


def _manifest_of(row: Refit, base: Base, kind: JobKind) -> Manifest:
    factor = math.exp(row.log_factor)
    jobs = counted(row.fitted_on, "job")
    return Manifest(
        base.name, str(row.id), base.quantity, Kind.FITTED,
        summary=f"{base.estimator} as jobs taught it; latest: {kind} times {factor:.2f}, from {jobs}"[:500],
        metrics={"factor": factor, "loss_before": row.loss_before, "loss_after": row.loss_after},
    )  # fmt: skip


def _digest_of(row: Refit) -> str:
    content = (row.parent, row.job_kind, row.base_version, row.log_factor, row.below, row.above, row.fitted_on)
    return "sha256:" + hashlib.sha256(repr(content).encode()).hexdigest()


def _refitting_of(row: Refit) -> Refitting:
    return Refitting(
        row.id, row.name, row.family, row.place, Trigger(row.trigger), math.exp(row.log_factor), row.fitted_on,
        row.held_out, row.loss_before, row.loss_after, row.took_over, row.reason, row.fitted_at,
    )  # fmt: skip
