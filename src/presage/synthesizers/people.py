"""Who is who: how a model recognises the people of a log without keeping their names.

A model knows people by numbers. To go on from a history it must know which number each person there has. For that
it keeps a digest of every name, under a key that is drawn for this model alone (HMAC-SHA-256), in a file of
its own that only its owner may read.

What that hides: nobody reads a name from the file, and digests of two models cannot be compared. What it does not
hide: who has the file can ask of any name whether it is there, and which number it has. Names are few and easily
guessed, so the file is as secret as the log. Without it a model draws the same traces and recognises nobody. A
private model has none.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from presage.synthesizers.columns import PEOPLE, usable_jobs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from presage.synthesizers.columns import Columns
    from presage.traces import Trace

_KEY_BYTES = 32


@dataclass(frozen=True)
class KnownPeople:
    """The numbers of people by the digests of their names."""

    key: bytes
    numbers: dict[str, dict[str, str]]
    """By column: digest → number, like `u7`."""

    @classmethod
    def of(cls, trace: Trace, columns: Columns) -> KnownPeople:
        """Return the people of the log that `columns` were fitted to, as far as they have numbers of their own."""
        known = cls(secrets.token_bytes(_KEY_BYTES), {})
        names, numbers = usable_jobs(trace, numbered=True), usable_jobs(trace)
        for column in PEOPLE:
            category = columns.category(column)
            if category is not None:
                pairs = dict(zip(names[column].to_list(), numbers[column].to_list(), strict=True))
                known.numbers[column] = {
                    known._digest(column, name): number
                    for name, number in sorted(pairs.items(), key=lambda pair: str(pair[1]))
                    if name is not None and number in category.labels
                }
        return known

    def number_of(self, column: str, name: str) -> str | None:
        """Return the number of somebody; None where the log had nobody of that name."""
        return self.numbers.get(column, {}).get(self._digest(column, name))

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` reads, for JSON."""
        return {"key": self.key.hex(), "numbers": self.numbers}

    @classmethod
    def from_dict(cls, known: Mapping[str, Any]) -> KnownPeople:
        """Return the people that `to_dict` described; KeyError, TypeError and ValueError mean damage."""
        numbers = {column: {str(key): str(number) for key, number in each.items()}
                   for column, each in dict(known["numbers"]).items()}  # fmt: skip
        return cls(bytes.fromhex(known["key"]), numbers)

    def _digest(self, column: str, name: str) -> str:
        return hmac.new(self.key, f"{column}\0{name}".encode(), "sha256").hexdigest()
