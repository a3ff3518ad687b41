"""What all tables share: the base class, how constraints are named, and times in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import DateTime, Dialect, Float, MetaData, TypeDecorator
from sqlalchemy.orm import DeclarativeBase


class Base(DeclarativeBase):
    """A table of Presage. Constraints get names from their columns, so that migrations can speak of them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    # Said here because SQLAlchemy 2.0 and 2.1 have different opinions; both are eight bytes on every database.
    type_annotation_map: ClassVar[dict[Any, Any]] = {float: Float()}


class UtcTime(TypeDecorator[datetime]):
    """An instant: a datetime with a time zone goes in, one in UTC comes out, on every database."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a zone is no instant")
        return value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        instant: datetime = value
        # SQLite keeps no zone; what was put in is UTC.
        return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
