"""Learned policies that callers may name: those that come with Presage, and those that the operator adds."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from presage.errors import PresageError, UsageError
from presage.policies import ORDERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from presage.learning.learned_policy import LearnedPolicy

SHIPPED = ("default", "index")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Loaded:
    policy: LearnedPolicy
    stamp: tuple[int, int] | None
    """When its file, or the state of its store, was written, and how long it is."""


class OfferedPolicies:
    """Learned policies by name. Callers say names alone; which files or stores they are, the operator has said.

    A file that is replaced, and a store in which another policy takes over, count from the next call on. While one
    cannot be read, the last that could stays in use. Raises UsageError for a name that nobody could say,
    InputError for a place that holds no policy.
    """

    def __init__(self, places: Mapping[str, Path] | None = None) -> None:
        self._places = dict(places or {})
        self._loaded: dict[str, _Loaded] = {}
        for name in self._places:
            _check_name(name)
            self.policy(name)

    @property
    def names(self) -> tuple[str, ...]:
        """What callers may say."""
        return (*SHIPPED, *self._places)

    def policy(self, name: str) -> LearnedPolicy:
        """Return the policy of one of the names, as it is now."""
        place, loaded = self._places.get(name), self._loaded.get(name)
        stamp = None if place is None else _stamp(place)
        if loaded is None or loaded.stamp != stamp:
            try:
                loaded = _Loaded(_load(name, place), stamp)
            except PresageError as error:
                if loaded is None:
                    raise
                log.warning("The policy %s cannot be read, and the one before it stays in use: %s", name, error)
                loaded = _Loaded(loaded.policy, stamp)
            self._loaded[name] = loaded
        return loaded.policy


def parse_places(texts: list[str]) -> dict[str, Path]:
    """Return what is written as NAME=FILE or NAME=FOLDER. Raises UsageError."""
    places = {}
    for text in texts:
        name, equals, place = text.partition("=")
        if not (equals and place):
            raise UsageError(f"{text!r} names no policy", expected="NAME=FILE or NAME=FOLDER")
        places[name.strip()] = Path(place)
    return places


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name in SHIPPED or name in ORDERS:
        raise UsageError(
            f"A policy cannot be offered as {name!r}",
            expected="lower-case letters, digits, - and _, and no name of a rule or of a policy of Presage",
        )


def _stamp(place: Path) -> tuple[int, int] | None:
    try:
        found = (place / "store.json" if place.is_dir() else place).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _load(name: str, place: Path | None) -> LearnedPolicy:
    from presage.learning.learned_policy import LearnedPolicy
    from presage.learning.naming import policy_at

    return LearnedPolicy.load(name) if place is None else policy_at(place)
