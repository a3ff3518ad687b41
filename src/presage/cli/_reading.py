"""What commands that read logs have in common: their arguments and options, each written once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from presage.cli._groups import with_group

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


with_reading = with_group(Reading, "reading")
"""Gives a command the options of `Reading`."""


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
