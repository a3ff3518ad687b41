"""What commands that read logs have in common: their arguments and options, each written once."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from collections.abc import Callable

Files = Annotated[list[str], typer.Argument(metavar="FILE", help="Logs that make one trace; '-' is stdin.")]
Format = Annotated[
    str | None, typer.Option("--format", "-f", help="The log's format, if it is not recognised; see `formats`.")
]
TimeZone = Annotated[
    str | None, typer.Option("--time-zone", help="Zone of local times in the log, like Europe/Berlin.")
]
Fields = Annotated[
    str | None, typer.Option("--fields", help="Names of the columns of a log without header, comma-separated.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Fail if any row cannot be read.")]


@dataclass(frozen=True)
class Reading:
    """How logs are read: one option on the command line for each field."""

    format: Format = None
    time_zone: TimeZone = None
    fields: Fields = None
    strict: Strict = False


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `Reading`; it gets them as its one argument `reading`."""
    hints = get_type_hints(Reading, include_extras=True)
    options = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(Reading)
    ]
    own = inspect.signature(command, eval_str=True).parameters.values()
    parameters = [each for one in own for each in (options if one.name == "reading" else [one])]

    @functools.wraps(command)
    def call(**values: Any) -> None:
        reading = Reading(**{option.name: values.pop(option.name) for option in options})
        command(**values, reading=reading)

    # What typer makes the command line of.
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # not in typeshed
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


class IntoFile(TyperCommand):
    """A command with the arguments FILE… OUT: of a single one it says that OUT is missing, not FILE."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments. Raises the parser's own errors."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if error.param is not None and error.param.name == "files":
                out: Any = next(each for each in self.params if each.name == "out")
                error.param = out
            raise
