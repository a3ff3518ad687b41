"""How `presage whatif --present` speaks: when the queue drains, and when jobs start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from presage.cli._output import duration, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.simulator import Forecast, Outlook, Spread

SHOWN_JOBS = 10


def print_outlook(outlook: Outlook, job_ids: Sequence[str] = ()) -> None:
    """Print two tables: the queue as a whole, and these of its jobs or the first ones."""
    from rich.markup import escape

    from presage.simulator.present import instant

    state, baseline = outlook.state, outlook.baseline
    forecasts = [baseline, *(forecast for _, forecast in outlook.variants)]
    names = [escape(forecast.name) for forecast in forecasts]
    now = instant(state.trace, state.now_ms)
    counts = f"{len(state.running):,} jobs run and {len(state.waiting):,} wait"
    rows = [
        ("queue drained in", *(_spread(forecast.drained_s) for forecast in forecasts)),
        ("mean remaining wait", *(_spread(forecast.mean_remaining_wait_s) for forecast in forecasts)),
    ]
    if outlook.variants:
        changes = (_change(outlook.change(forecast)) for forecast in forecasts[1:])
        rows.append(("  against the baseline", "", *changes))
    title = f"{baseline.policy} on {baseline.processors:,} processors, from {now} on: {counts}"
    print_table(title, ("", *names), rows)
    shown = [*job_ids] or baseline.jobs["job_id"].head(SHOWN_JOBS).to_list()
    print_table(
        "Jobs will start in",
        ("job", "user", "processors", "waited", *names),
        [_job_row(job_id, forecasts) for job_id in shown],
    )
    left = len(state.waiting) - len(shown)
    if left > 0 and not job_ids:
        typer.echo(f"{left:,} more wait; --job asks for one, --json gives all.")
    if outlook.samples > 1:
        typer.echo(
            f"The median of {outlook.samples:,} draws of run times, in brackets what 8 in 10 of them lie between. "
            "Jobs that are yet to be submitted are not counted."
        )


def _job_row(job_id: str, forecasts: Sequence[Forecast]) -> tuple[str, ...]:
    waits = forecasts[0].row(job_id)
    # A variant may have no place for the job.
    cells = [_spread(forecast.starts(job_id)) if forecast.has(job_id) else "" for forecast in forecasts]
    return job_id, waits["user"] or "", f"{waits['processors']:,.0f}", duration(waits["waited_s"]), *cells


def _spread(spread: Spread) -> str:
    middle = duration(spread.p50)
    if spread.p10 == spread.p90:
        return middle
    return f"{middle} [{duration(spread.p10)}, {duration(spread.p90)}]"


def _change(spread: Spread) -> str:
    """Return a difference, with its sign."""
    low, middle, high = (f"{'+' if value > 0 else ''}{duration(value)}" for value in spread.to_dict().values())
    return middle if low == high else f"{middle} [{low}, {high}]"
