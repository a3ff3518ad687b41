"""The table of the bus."""

from __future__ import annotations

from sqlalchemy.orm import Mapped, mapped_column

from presage.database.tables import Base


class PositionRow(Base):
    """The last event that a reader has dealt with.

    Kept beside the events: a database that is brought back from yesterday has yesterday's positions too.
    """

    __tablename__ = "bus_positions"

    reader: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int]
