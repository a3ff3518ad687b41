"""The parameters of a workload model: dataclass fields that carry their help, their bounds and their text form."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from presage.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

Value = str | int | float | bool | None
_META = "parameter"
_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}
_NONE = {"", "none", "null"}
_KIND_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


@dataclass(frozen=True)
class Parameter:
    """What a person may know of one parameter."""

    name: str
    type: type
    """int, float, bool or str; `optional` says whether None is a value too."""
    default: Value
    help: str
    optional: bool = False
    minimum: float | None = None
    above: float | None = None
    """Like `minimum`, and the bound itself is not allowed."""
    maximum: float | None = None
    choices: tuple[str, ...] = ()

    def parse(self, value: Value) -> Value:
        """Return `value`, converted if it is a text for a number. Raises UsageError or UnknownNameError."""
        parsed = self._from_text(value) if isinstance(value, str) else value
        self.check(parsed)
        return float(parsed) if self.type is float and isinstance(parsed, int) else parsed

    def check(self, value: Value) -> None:
        """Raise UsageError if the model cannot work with `value`, UnknownNameError if it is no known choice."""
        if value is None and self.optional:
            return
        if not self._has_type(value) or not self._within(value):
            raise self._problem(value)
        if self.choices and value not in self.choices:
            raise UnknownNameError(self.name, str(value), self.choices)

    def expected(self) -> str:
        """Return in words what values are good."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        bounds = [
            f"above {self.above:,g}" if self.above is not None else "",
            f"at least {self.minimum:,g}" if self.minimum is not None else "",
            f"at most {self.maximum:,g}" if self.maximum is not None else "",
        ]
        words = " ".join([_KIND_NAMES[self.type], " and ".join(filter(None, bounds))]).strip()
        return f"{words}, or none" if self.optional else words

    def _from_text(self, text: str) -> Value:
        folded = text.strip().casefold()
        if self.optional and folded in _NONE:
            return None
        if self.type is str:
            return text.strip()
        if self.type is bool:
            if folded not in _TRUE | _FALSE:
                raise self._problem(text)
            return folded in _TRUE
        if self.type is int and folded.lstrip("+-").replace("_", "").isdecimal():
            return int(folded)
        try:
            number = float(folded)
        except ValueError:
            raise self._problem(text) from None
        return int(number) if self.type is int and number.is_integer() else number

    def _has_type(self, value: Value) -> bool:
        if self.type is float:
            return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return isinstance(value, self.type) and (self.type is bool or not isinstance(value, bool))

    def _within(self, value: Value) -> bool:
        if not isinstance(value, int | float):
            return True
        return (
            (self.minimum is None or value >= self.minimum)
            and (self.above is None or value > self.above)
            and (self.maximum is None or value <= self.maximum)
        )

    def _problem(self, value: Value) -> UsageError:
        return UsageError(
            f"The parameter {self.name} cannot be {value!r}",
            expected=self.expected(),
            remedy=f"Leave it out for its default ({self.default}), or give another value",
        )


def parameter(
    default: Value,
    about: str,
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Return a dataclass field that is a parameter of a workload model; `about` is its one line of help."""
    bounds = {"minimum": minimum, "above": above, "maximum": maximum, "choices": choices}
    return field(default=default, metadata={_META: {"help": about, **bounds}})


def parameters_of(model: type) -> dict[str, Parameter]:
    """Return the parameters of a model class by name, the common ones first."""
    hints = get_type_hints(model)
    found = {}
    for item in fields(model):
        if _META not in item.metadata:
            continue
        kinds = get_args(hints[item.name]) or (hints[item.name],)
        found[item.name] = Parameter(
            name=item.name,
            type=next(kind for kind in kinds if kind is not type(None)),
            default=None if item.default is MISSING else item.default,
            optional=type(None) in kinds,
            **item.metadata[_META],
        )
    return found


def parse_settings(
    model: type, settings: Mapping[str, Value], *, kind: str = "workload model"
) -> dict[str, Value]:
    """Return `settings` converted to the types of the model's parameters; `kind` is what messages call it.

    Raises UnknownNameError for a name that is no parameter, with the closest match, and UsageError for a
    value that cannot be used.
    """
    known = parameters_of(model)
    for name in settings:
        if name not in known:
            raise UnknownNameError(f"parameter of this {kind}", name, known)
    return {name: known[name].parse(value) for name, value in settings.items()}
