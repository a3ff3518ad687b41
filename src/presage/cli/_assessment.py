"""What `presage simulate` adds on request: metrics of a part of the jobs, of users, and with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from presage.cli._output import duration, print_table
from presage.cli._scenario import parse_sla, parse_trim

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.simulator import Assessment
    from presage.traces import Trace


def assessor(
    warm_up: str, cool_down: str, sla: str | None, *, intervals: bool
) -> Callable[[Trace], Assessment | None]:
    """Return what assesses a schedule as the options say, or says nothing if none was given. Raises UsageError."""
    from presage.simulator import assess

    first, last, sla_s = parse_trim(warm_up), parse_trim(cool_down), parse_sla(sla)
    if not (intervals or first or last or sla_s is not None):
        return lambda _: None
    return lambda schedule: assess(schedule.jobs, warm_up=first, cool_down=last, sla_s=sla_s)


def print_assessment(assessment: Assessment) -> None:
    """Print the metrics with their intervals."""
    rows = [
        (
            name.replace("_", " ").removesuffix(" s"),
            _readable(name, each.value),
            *("" if end is None else _readable(name, end) for end in (each.low, each.high)),
        )
        for name, each in assessment.estimates.items()
    ]
    print_table(f"{assessment.jobs:,} jobs, with 95 % intervals", ("", "", "from", "to"), rows)
    if not assessment.blocks:
        typer.echo("There are too few jobs for intervals.")


def _readable(name: str, value: float) -> str:
    return duration(value) if name.endswith("_s") else f"{value:,.4g}"
