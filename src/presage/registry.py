"""One way for every family to find its kinds: name → spec → class, imported when first used.

Built-in kinds and third-party kinds come through the same door. A package adds a kind with an entry point:

    [project.entry-points."presage.readers"]
    mylog = "mypackage.mylog:MyLogReader"

The class may carry a one-line docstring, which becomes the summary. A name that is already taken is an
error of the package that came second: it is logged by name and left out, and everything else keeps working.
"""

from __future__ import annotations

import importlib
import logging
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Generic, TypeVar

from presage.errors import PresageError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Spec:
    """What is known of a kind before it is imported; plain strings, so it round-trips through JSON."""

    name: str
    target: str
    """Where it lives: `package.module:attribute`."""
    summary: str = ""
    extra: str = ""
    """The optional dependency group it needs, empty if none."""


class Registry(Generic[T]):
    """The kinds of one family.

    `kind` is the singular noun used in messages ("trace format"). `group` is the entry-point group through
    which other packages add kinds. Iteration yields names in registration order, built-ins first.
    """

    def __init__(self, kind: str, group: str, specs: Iterable[Spec]) -> None:
        self.kind = kind
        self.group = group
        self._specs: dict[str, Spec] = {}
        self._loaded: dict[str, T] = {}
        self._entry_points_read = False
        for spec in specs:
            self.register(spec)

    def register(self, spec: Spec) -> None:
        """Add a kind. Raises PresageError if the name is taken."""
        if spec.name in self._specs:
            raise PresageError(
                f"The {self.kind} name {spec.name!r} is taken by {self._specs[spec.name].target}",
                expected="a name that no other kind has",
                remedy=f"Rename the kind that {spec.target} registers",
            )
        self._specs[spec.name] = spec

    def spec(self, name: str) -> Spec:
        """Return the spec of `name`. Raises UnknownNameError with the closest match."""
        self._read_entry_points()
        try:
            return self._specs[name]
        except KeyError:
            raise UnknownNameError(self.kind, name, self._specs) from None

    def specs(self) -> list[Spec]:
        """Return all specs, built-ins first."""
        self._read_entry_points()
        return list(self._specs.values())

    def get(self, name: str) -> T:
        """Return what is registered under `name`, importing it on first use.

        Raises UnknownNameError with the closest match, PresageError if the module that should have it does not
        import.
        """
        spec = self.spec(name)
        if name not in self._loaded:
            module_name, _, attribute = spec.target.partition(":")
            try:
                self._loaded[name] = getattr(importlib.import_module(module_name), attribute)
            except (ImportError, AttributeError) as error:
                raise PresageError(
                    f"The {self.kind} {name!r} ({spec.summary}) cannot be loaded: {error}",
                    remedy="Repair or remove the package that provides it",
                ) from error
        return self._loaded[name]

    def load_all(self) -> dict[str, T]:
        """Return all kinds that can be loaded; one that cannot is logged by name and left out."""
        loaded = {}
        for name in self:
            try:
                loaded[name] = self.get(name)
            except PresageError as error:
                log.warning("%s", error)
        return loaded

    def __iter__(self) -> Iterator[str]:
        return iter([spec.name for spec in self.specs()])

    def __contains__(self, name: object) -> bool:
        self._read_entry_points()
        return name in self._specs

    def __len__(self) -> int:
        return len(self.specs())

    def _read_entry_points(self) -> None:
        if self._entry_points_read:
            return
        self._entry_points_read = True
        for point in entry_points(group=self.group):
            self._register_entry_point(point)

    def _register_entry_point(self, point: EntryPoint) -> None:
        package = point.dist.name if point.dist else "an unnamed package"
        try:
            self.register(Spec(point.name, point.value, summary=f"from {package}"))
        except PresageError as error:
            log.warning("Left out a plug-in of %s: %s", package, error)
