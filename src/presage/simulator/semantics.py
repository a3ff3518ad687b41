"""When decisions are made: what a simulator means by one pass, of which others mean something else."""

from __future__ import annotations

from enum import StrEnum

from presage.errors import UnknownNameError


class Semantics(StrEnum):
    """When the queue is looked at, and whether a choice can be taken back."""

    INSTANT = "instant"
    """One pass per instant, after all of its ends and all of its arrivals."""
    EVENT = "event"
    """One pass per event: the arrivals of an instant in the order of submission, then its ends in that order.

    The processors of a job that ends exactly when it was planned to are free from the beginning of that instant,
    those of any other from its own turn on.
    """
    COMMIT = "commit"
    """The first in line is chosen as soon as there is one and kept until it starts, whoever comes meanwhile.

    Events come in the order of EVENT, and every job holds its processors until the turn of its end. A job that
    does not fit when it is chosen gets a reservation then and no other. With EASY, jobs that fit start in order of
    arrival if they are planned to end before it, not at it; there are no extra processors.
    """

    @classmethod
    def parse(cls, text: str) -> Semantics:
        """Return the semantics of that name. Raises UnknownNameError."""
        try:
            return cls(text.strip().lower())
        except ValueError:
            raise UnknownNameError("semantics", text, [each.value for each in cls]) from None


SUMMARIES = {
    Semantics.INSTANT: "one pass per instant, after all its ends and arrivals",
    Semantics.EVENT: "one pass per event, arrivals before ends",
    Semantics.COMMIT: "the chosen job is kept until it starts, as RLScheduler does",
}
"""One line for each."""
