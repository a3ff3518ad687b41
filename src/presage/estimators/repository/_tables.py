"""Tables of the model repository: versions of estimators, who was in charge, predictions, what then happened."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  (SQLAlchemy reads the annotations)
from typing import Any

from sqlalchemy import JSON, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from presage.database.tables import Base, UtcTime


class EstimatorVersion(Base):
    """One version of an estimator that was added."""

    __tablename__ = "estimator_versions"
    __table_args__ = (UniqueConstraint("name", "version"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(100))
    version: Mapped[str] = mapped_column(String(100))
    quantity: Mapped[str] = mapped_column(String(20))
    kind: Mapped[str] = mapped_column(String(20))
    manifest: Mapped[dict[str, Any]] = mapped_column(JSON)
    source: Mapped[str] = mapped_column(Text)
    digest: Mapped[str] = mapped_column(String(100))
    runner: Mapped[str | None] = mapped_column(String(20))
    role: Mapped[str] = mapped_column(String(20))
    pinned: Mapped[bool]
    added_at: Mapped[datetime] = mapped_column(UtcTime)


class EstimatorChange(Base):
    """A change of the version in charge, or of what there is."""

    __tablename__ = "estimator_changes"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(100), index=True)
    version: Mapped[str | None] = mapped_column(String(100))
    """In charge from now on; None: no version of this name."""
    before: Mapped[str | None] = mapped_column(String(100))
    """In charge until now."""
    reason: Mapped[str] = mapped_column(Text)
    changed_at: Mapped[datetime] = mapped_column(UtcTime)


class StoredPrediction(Base):
    """One answer."""

    __tablename__ = "predictions"
    __table_args__ = (
        Index(None, "estimator", "version"),
        Index(None, "job_key", "quantity"),
        Index(None, "job_kind", "quantity"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    asked_at: Mapped[datetime] = mapped_column(UtcTime)
    quantity: Mapped[str] = mapped_column(String(20))
    estimator: Mapped[str] = mapped_column(String(100))
    version: Mapped[str] = mapped_column(String(100))
    role: Mapped[str] = mapped_column(String(20))
    job_key: Mapped[str | None] = mapped_column(String(200))
    job_kind: Mapped[str | None] = mapped_column(String(64))
    """Digest of what makes jobs alike; None where nothing is fitted to them."""
    question: Mapped[str] = mapped_column(String(64))
    """Digest of the request: equal requests have the same."""
    request: Mapped[dict[str, Any]] = mapped_column(JSON)
    p10: Mapped[float]
    p50: Mapped[float]
    p90: Mapped[float]
    answer: Mapped[dict[str, Any]] = mapped_column(JSON)


class Outcome(Base):
    """What then happened to a job."""

    __tablename__ = "prediction_outcomes"
    __table_args__ = (UniqueConstraint("job_key", "quantity"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    job_key: Mapped[str] = mapped_column(String(200))
    quantity: Mapped[str] = mapped_column(String(20))
    actual: Mapped[float]
    happened_at: Mapped[datetime] = mapped_column(UtcTime)


class Refit(Base):
    """A correction that was fitted to what happened, whether it took over or not."""

    __tablename__ = "estimator_refits"
    __table_args__ = (Index(None, "name", "job_kind"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    """Also the version that it makes, if it takes over."""
    name: Mapped[str] = mapped_column(String(100))
    job_kind: Mapped[str] = mapped_column(String(64))
    family: Mapped[str] = mapped_column(String(200))
    place: Mapped[str] = mapped_column(String(200))
    base_version: Mapped[str] = mapped_column(String(100))
    """Of the estimator whose answers it corrects; those of another version it does not."""
    trigger: Mapped[str] = mapped_column(String(20))
    fitted_on: Mapped[int]
    held_out: Mapped[int]
    last_outcome: Mapped[int]
    """Outcomes up to this one had happened."""
    log_factor: Mapped[float]
    below: Mapped[float]
    above: Mapped[float]
    loss_before: Mapped[float]
    loss_after: Mapped[float]
    parent: Mapped[int | None]
    """The version whose corrections of other kinds hold beside it."""
    took_over: Mapped[bool]
    reason: Mapped[str] = mapped_column(Text)
    fitted_at: Mapped[datetime] = mapped_column(UtcTime)
