"""What commands that simulate have in common: their options, each written once, and the trace they start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from presage.cli._output import names_in
from presage.cli.trace import read_files
from presage.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.traces import Trace

Clean = Annotated[
    str | None, typer.Option("--clean", help="Cleaning rules to apply first, like archive; comma-separated.")
]
Processors = Annotated[
    int | None, typer.Option("--processors", min=1, help="Size of the machine; the log's own if not given.")
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only the first jobs, so many.")]
OrderBy = Annotated[
    str, typer.Option("--order-by", help="Run time that the order uses: requested, actual, or a column.")
]
PlanBy = Annotated[
    str, typer.Option("--plan-by", help="Run time that reservations use: requested, actual, or a column.")
]
WarmUp = Annotated[str, typer.Option("--warm-up", help="First jobs that are not measured: 500, or 5%.")]
CoolDown = Annotated[str, typer.Option("--cool-down", help="Last jobs that are not measured: 500, or 5%.")]
Sla = Annotated[
    str | None, typer.Option("--sla", metavar="TIME", help="A promised wait, like 4h: which share waits longer?")
]
Kill = Annotated[bool, typer.Option("--kill", help="End jobs at their limit instead of letting them overrun.")]


def check_rules(clean: str | None) -> list[str]:
    """Return the cleaning rules of --clean; a misspelt one is told before a large log is read."""
    from presage.traces.cleaning import expand_rules

    rules = names_in(clean, "--clean")
    expand_rules(rules)
    return rules


def parse_trim(text: str) -> float:
    """Return what --warm-up or --cool-down leaves out: a share below 1, or a number of jobs. Raises UsageError."""
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = -1.0
    if not (0 <= value < 1 if percent else value >= 0 and value.is_integer()):
        raise UsageError(
            f"{text!r} jobs cannot be left out", expected="a number of jobs like 500, or a share like 5%"
        )
    return value


def parse_sla(text: str | None) -> float | None:
    """Return the seconds of --sla. Raises UsageError."""
    from presage.units import parse_seconds

    return None if text is None else parse_seconds(text)


def read_scenario(
    files: Sequence[str],
    format_name: str | None,
    time_zone: str | None,
    rules: Sequence[str],
    processors: int | None,
    limit: int | None,
) -> Trace:
    """Return the trace on the machine to simulate, cleaned, and cut to its first jobs, in this order."""
    from presage.traces.cleaning import clean

    trace = read_files(files, format_name, time_zone)
    if processors is not None:
        trace = trace.with_processors(processors)
    trace = clean(trace, rules)
    return trace.with_jobs(trace.jobs.head(limit)) if limit is not None else trace
