"""The table behind the catalogue."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  (SQLAlchemy reads the annotations)
from typing import Any

from sqlalchemy import JSON, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from presage.database.tables import Base, UtcTime


class SystemVersion(Base):
    """What was known of a system for a while; the last version has no end, unless the system was removed."""

    __tablename__ = "system_versions"
    __table_args__ = (UniqueConstraint("name", "version"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(100))
    version: Mapped[int]
    document: Mapped[dict[str, Any]] = mapped_column(JSON)
    discovered: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What the last discovery said; kept along, so that a refresh can tell it from what people have edited."""
    valid_from: Mapped[datetime] = mapped_column(UtcTime)
    valid_to: Mapped[datetime | None] = mapped_column(UtcTime)
    source: Mapped[str] = mapped_column(String(20))
    note: Mapped[str] = mapped_column(Text)
