"""Members of an enumeration, by the names that people write."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from presage.errors import UsageError, closest

if TYPE_CHECKING:
    from collections.abc import Iterable

_Choice = TypeVar("_Choice", bound=StrEnum)


def choice_of(members: Iterable[_Choice], text: str, what: str) -> _Choice:
    """Return the member that has that name, whatever its case. Raises UsageError with the closest name.

    `what` is how the person knows the thing: an option or an argument.
    """
    known = {each.value: each for each in members}
    found = known.get(str(text).strip().lower())
    if found is None:
        near = closest(str(text), known)
        raise UsageError(
            f"{what} {str(text)!r} is not known",
            expected=f"one of {', '.join(known)}",
            remedy=f"Did you mean {near!r}?" if near else "",
        )
    return found
