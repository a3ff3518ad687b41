"""Every prediction, and what then happened."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from presage.errors import PresageError, UsageError
from presage.estimators._base import Basis, Estimate, EstimateRequest, Quantity
from presage.estimators.plugins.contract import read_request, write_answer, write_request
from presage.estimators.refits.kinds import kind_of
from presage.estimators.repository.scoring import Score, score
from presage.estimators.spread import Spread

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from presage.database import Database
    from presage.estimators.repository._tables import StoredPrediction

log = logging.getLogger(__name__)
MAX_KEY = 200
_LOCK = "predictions"
_MOST = 100_000
UNSETTLED_DAYS = 90.0
SETTLED_DAYS = 730.0
"""Older predictions are forgotten; those of which nobody ever said what happened much sooner."""


class Role(StrEnum):
    """What became of an answer."""

    IN_CHARGE = "in-charge"
    """It was given."""
    SHADOW = "shadow"
    """It was only noted, beside the one that was given."""
    REPLAYED = "replayed"
    """An old question was asked again, when its outcome was known to us though not to the estimator."""


@dataclass(frozen=True)
class Prediction:
    """An answer of the past, with what then happened where that is known."""

    asked_at: datetime
    quantity: Quantity
    estimator: str
    version: str
    role: Role
    spread: Spread
    basis: Basis
    job_key: str | None
    question: str
    """Digest of the request."""
    actual: float | None = None
    request: dict[str, Any] = field(default_factory=dict, repr=False)
    details: dict[str, Any] = field(default_factory=dict, repr=False)
    """Of the answer."""

    def read_request(self) -> EstimateRequest:
        """Return the question as it was asked. Raises InputError if this version of Presage cannot read it."""
        return read_request(json.dumps(self.request).encode())


@dataclass(frozen=True)
class Accuracy:
    """How good the predictions of one version of an estimator were in one month."""

    quantity: Quantity
    estimator: str
    version: str
    role: Role
    month: str
    """Like 2026-11, in UTC, by the time of the question."""
    score: Score


class Predictions:
    """The predictions in a database."""

    def __init__(self, database: Database | None = None) -> None:
        if database is None:
            from presage.database.connection import Database

            database = Database()
        self.database = database

    def store(
        self,
        request: EstimateRequest,
        answer: Estimate,
        *,
        role: Role = Role.IN_CHARGE,
        job_key: str | None = None,
        at: datetime | None = None,
        once: bool = False,
    ) -> bool:
        """Store an answer; return whether that worked. It never raises: a failure is logged as a warning.

        `job_key` names the job, so that its outcome can be found: anything that is told to `record_outcome` later.
        With `once`, an answer about the same job, quantity and role that is there already stays the only one.
        """
        from sqlalchemy.exc import SQLAlchemyError

        try:
            row = _row_of(request, answer, role, job_key, at or datetime.now(UTC))
            with self.database.writing(_LOCK) as session:
                if not (once and _is_there(session, row)):
                    session.add(row)
        except (PresageError, SQLAlchemyError, OSError, ValueError) as error:
            log.warning("The prediction of %s could not be stored: %s", answer.estimator, error)
            return False
        return True

    def record_outcome(self, job_key: str, quantity: Quantity, actual: float, at: datetime | None = None) -> int:
        """Record what happened to a job; return how many stored predictions were about it.

        A second call for the same job and quantity corrects the first. Raises UsageError for what cannot have
        happened, OutputError if the database cannot be written.
        """
        from sqlalchemy import func, select

        from presage.estimators.repository._tables import Outcome, StoredPrediction

        _check_key(job_key)
        if not (math.isfinite(actual) and actual >= 0):
            raise UsageError(f"{actual} is no amount that can have happened", expected="a finite one from 0 up")
        happened_at = at or datetime.now(UTC)
        with self.database.writing(_LOCK) as session:
            known = session.scalars(select(Outcome).filter_by(job_key=job_key, quantity=quantity.value)).first()
            if known is None:
                session.add(
                    Outcome(job_key=job_key, quantity=quantity.value, actual=actual, happened_at=happened_at)
                )
            else:
                known.actual, known.happened_at = actual, happened_at
            about = select(func.count()).select_from(StoredPrediction)
            return session.scalar(about.filter_by(job_key=job_key, quantity=quantity.value)) or 0

    def find(
        self,
        *,
        quantity: Quantity | None = None,
        estimator: str | None = None,
        version: str | None = None,
        role: Role | None = None,
        job_key: str | None = None,
        with_outcome: bool = False,
        limit: int | None = None,
    ) -> list[Prediction]:
        """Return the predictions that fit, the latest first. Raises ConfigError if the database cannot be read."""
        if not self.database.exists():
            return []
        wanted = {
            "quantity": quantity,
            "estimator": estimator,
            "version": version,
            "role": role,
            "job_key": job_key,
        }
        with self.database.reading() as session:
            return _find(
                session, {key: each for key, each in wanted.items() if each is not None}, with_outcome, limit
            )

    def settled(self, job_kind: str, quantity: Quantity, limit: int) -> list[tuple[int, Prediction]]:
        """Return the latest predictions about jobs of a kind whose outcome is known, with its number, latest last.

        Of several about one job, the last that was given counts.
        """
        from sqlalchemy import and_, select

        from presage.estimators.repository._tables import Outcome, StoredPrediction

        same_job = and_(Outcome.job_key == StoredPrediction.job_key, Outcome.quantity == StoredPrediction.quantity)
        query = (
            select(StoredPrediction, Outcome.actual, Outcome.id)
            .join(Outcome, same_job)
            .filter(StoredPrediction.job_kind == job_kind, StoredPrediction.quantity == quantity.value)
            .filter(StoredPrediction.role == Role.IN_CHARGE.value)
            .order_by(Outcome.id.desc(), StoredPrediction.id.desc())
            .limit(2 * limit)
        )
        found: dict[int, Prediction] = {}
        with self.database.reading() as session:
            for row, actual, number in session.execute(query):
                found.setdefault(number, _prediction_of(row, actual))
        return sorted(list(found.items())[:limit], key=lambda each: each[0])

    def forget(self, now: datetime | None = None) -> int:
        """Delete what is too old to tell anything, see SETTLED_DAYS; return how many predictions that were."""
        from sqlalchemy import and_, delete, exists, or_

        from presage.estimators.repository._tables import Outcome, StoredPrediction

        now = now or datetime.now(UTC)
        unsettled, settled = (now - timedelta(days=days) for days in (UNSETTLED_DAYS, SETTLED_DAYS))
        same_job = and_(Outcome.job_key == StoredPrediction.job_key, Outcome.quantity == StoredPrediction.quantity)
        never = and_(StoredPrediction.asked_at < unsettled, ~exists().where(same_job))
        with self.database.writing(_LOCK) as session:
            gone = session.execute(delete(StoredPrediction).where(or_(StoredPrediction.asked_at < settled, never)))
            session.execute(delete(Outcome).where(Outcome.happened_at < settled, ~exists().where(same_job)))
            return int(getattr(gone, "rowcount", 0))

    def awaiting(self, limit: int = _MOST) -> set[tuple[str, Quantity]]:
        """Return the jobs and quantities, of the latest predictions, of which nobody has said what happened."""
        from sqlalchemy import and_, select

        from presage.estimators.repository._tables import Outcome, StoredPrediction

        if not self.database.exists():
            return set()
        same_job = and_(Outcome.job_key == StoredPrediction.job_key, Outcome.quantity == StoredPrediction.quantity)
        query = (
            select(StoredPrediction.job_key, StoredPrediction.quantity)
            .join(Outcome, same_job, isouter=True)
            .where(StoredPrediction.job_key.is_not(None), Outcome.id.is_(None))
            .order_by(StoredPrediction.id.desc())
            .limit(limit)
        )
        with self.database.reading() as session:
            return {(key, Quantity(quantity)) for key, quantity in session.execute(query) if key is not None}

    def accuracy(self, *, quantity: Quantity | None = None, estimator: str | None = None) -> list[Accuracy]:
        """Return how good predictions were, by estimator, version, role and month, the latest month first.

        Of a long past, the latest 100,000 with an outcome count.
        """
        groups: dict[tuple[str, Quantity, str, str, Role], list[tuple[Spread, float]]] = {}
        for each in self.find(quantity=quantity, estimator=estimator, with_outcome=True, limit=_MOST):
            key = (each.asked_at.strftime("%Y-%m"), each.quantity, each.estimator, each.version, each.role)
            if each.actual is not None:
                groups.setdefault(key, []).append((each.spread, each.actual))
        return [
            Accuracy(key[1], key[2], key[3], key[4], key[0], scored)
            for key, pairs in sorted(groups.items(), key=lambda group: group[0], reverse=True)
            if (scored := score(pairs)) is not None
        ]


def _row_of(
    request: EstimateRequest, answer: Estimate, role: Role, job_key: str | None, at: datetime
) -> StoredPrediction:
    from presage.estimators.repository._tables import StoredPrediction

    if job_key is not None:
        _check_key(job_key)
    document = write_request(request)
    kind = kind_of(request)
    return StoredPrediction(
        asked_at=at, quantity=answer.quantity.value, estimator=answer.estimator, version=answer.version,
        role=role.value, job_key=job_key, job_kind=None if kind is None else kind.digest,
        question=hashlib.sha256(document).hexdigest(),
        request=json.loads(document), answer=json.loads(write_answer(answer)), **answer.spread.as_dict(),
    )  # fmt: skip


def _is_there(session: Session, row: StoredPrediction) -> bool:
    from sqlalchemy import select

    from presage.estimators.repository._tables import StoredPrediction

    same = {"job_key": row.job_key, "quantity": row.quantity, "role": row.role}
    return session.scalars(select(StoredPrediction.id).filter_by(**same).limit(1)).first() is not None


def _check_key(job_key: str) -> None:
    if not 0 < len(job_key) <= MAX_KEY or not job_key.isprintable():
        raise UsageError(
            f"{job_key[:40]!r} cannot be the key of a job",
            expected=f"printable text of up to {MAX_KEY} characters",
        )


def _find(session: Session, wanted: dict[str, str], with_outcome: bool, limit: int | None) -> list[Prediction]:
    from sqlalchemy import and_, select

    from presage.estimators.repository._tables import Outcome, StoredPrediction

    same_job = and_(Outcome.job_key == StoredPrediction.job_key, Outcome.quantity == StoredPrediction.quantity)
    query = select(StoredPrediction, Outcome.actual).join(Outcome, same_job, isouter=not with_outcome)
    query = query.where(*(getattr(StoredPrediction, key) == str(each) for key, each in wanted.items()))
    query = query.order_by(StoredPrediction.asked_at.desc(), StoredPrediction.id.desc()).limit(limit)
    return [_prediction_of(row, actual) for row, actual in session.execute(query)]


def _prediction_of(row: StoredPrediction, actual: float | None) -> Prediction:
    return Prediction(
        asked_at=row.asked_at, quantity=Quantity(row.quantity), estimator=row.estimator, version=row.version,
        role=Role(row.role), spread=Spread(row.p10, row.p50, row.p90), basis=Basis(row.answer["basis"]),
        job_key=row.job_key, question=row.question, actual=actual, request=row.request,
        details=row.answer.get("details") or {},
    )  # fmt: skip
