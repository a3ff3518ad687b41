"""How commands speak: one JSON document or readable text on stdout, everything else on stderr."""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

    from presage.traces.writers import Writer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]

_NUMBER = re.compile(r"[-+]?[\d,]*\.?\d+(e[-+]?\d+)?( (s|min|h|d|%))?")
_PIPE_WIDTH = 200
_SECONDS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def emit_json(document: Any) -> None:
    """Print `document` as the command's one JSON document."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def tell(message: str) -> None:
    """Say something to the person on stderr."""
    typer.echo(message, err=True)


def console() -> Console:
    """Return a console for tables on stdout."""
    from rich.console import Console

    # Tables in a file or a pipe are read by tools that do not fold lines.
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a title and the names of the columns, if these have any; numbers are right-aligned."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(columns))
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(_looks_numeric(row[index]) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_escaped(cell) for cell in row))
    screen = console()
    with screen.capture() as printed:
        if title:
            # Not the table's own title, which is folded to the width of the table.
            screen.print(title, style="italic", markup=False, soft_wrap=True)
        screen.print(table)
    typer.echo(printed.get(), nl=False)  # which, unlike rich, tells us of a reader that went away


def names_in(text: str | None, option: str) -> list[str]:
    """Return the names in a comma-separated option; none if it is not given. Raises UsageError if it has none."""
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    if text is not None and not names:
        raise UsageError(f"{option} {text!r} names nothing", expected="names with commas between them")
    return names


def pairs_in(texts: list[str] | None, option: str) -> dict[str, str]:
    """Return the pairs of a repeated option; several may stand in one, with commas. Raises UsageError."""
    pairs: dict[str, str] = {}
    for text in [part for each in texts or [] for part in each.split(",")]:
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise UsageError(f"{option} {text.strip()!r} is no pair", expected="a name, '=' and a value")
        if key.strip() in pairs:
            raise UsageError(f"{option} names {key.strip()!r} twice", expected="each name once")
        pairs[key.strip()] = value.strip()
    return pairs


def writer_for(out: str, to: str | None, *, wants_json: bool) -> Writer:
    """Return the writer for OUT, after checking what can be checked before a log is read."""
    from presage.traces.files import check_place
    from presage.traces.writers import STDOUT, choose_writer

    if out == STDOUT and wants_json:
        raise UsageError("Standard output cannot carry both the trace and --json", remedy="Name an output file")
    if out != STDOUT:
        check_place(Path(out))
    return choose_writer(out, to)


def duration(seconds: float) -> str:
    """Return seconds as a person reads them: 950 ms, 42 s, 3.5 min, 7.2 h, 31 d."""
    for unit_s, unit in _SECONDS:
        if abs(seconds) >= 2 * unit_s:
            return f"{seconds / unit_s:,.1f} {unit}"
    return f"{seconds:,.3g} s"


@contextmanager
def progress(description: str, total: float | None) -> Iterator[Callable[[float], None]]:
    """Give a function that advances a bar on stderr; on anything but a terminal it does nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda amount: bar.advance(task, amount)


@contextmanager
def steps(unit: str) -> Iterator[Callable[[int, int, str], None] | None]:
    """Give a function that shows how many of how many are done, with some words; None where nobody looks."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("preparing", total=None)

        def report(done: int, total: int, words: str) -> None:
            description = f"{unit} {done} of {total}" + (f", {words}" if words else "")
            bar.update(task, completed=done, total=total, description=description)

        yield report


def _looks_numeric(text: str) -> bool:
    return not text or _NUMBER.fullmatch(text) is not None


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
