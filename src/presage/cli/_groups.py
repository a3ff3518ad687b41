"""Options that several commands have: a dataclass with one field for each, handed over as one argument."""

from __future__ import annotations

import functools
import inspect
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable

    Command = Callable[..., None]


def with_group(kind: type[Any], argument: str) -> Callable[[Command], Command]:
    """Return a decorator that gives a command the options of a dataclass; it gets them as the named argument."""
    hints = get_type_hints(kind, include_extras=True)
    options = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(kind)
    ]

    def decorate(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for one in own
            for each in (options if one.name == argument else [one])
        ]

        @functools.wraps(command)
        def call(**values: Any) -> None:
            group = kind(**{option.name: values.pop(option.name) for option in options})
            command(**values, **{argument: group})

        # What typer makes the command line of.
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # not in typeshed
        call.__annotations__ = {each.name: each.annotation for each in parameters}
        return call

    return decorate
