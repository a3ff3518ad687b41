"""`presage load-forecast`: how busy a cluster will be in the next hours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from presage.cli._output import Json, duration, emit_json, names_in, print_table, progress
from presage.cli._scenario import Processors
from presage.cli.trace import Files, Format, TimeZone, read_files
from presage.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.foundation.load.forecast import LoadForecast, Range, ScopeForecast
    from presage.traces import Trace


def load_forecast(
    files: Files,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="TIME", help="When it is: now, a date, or 2d after the first submit. [latest]"
        ),
    ] = None,
    horizon: Annotated[str, typer.Option("--horizon", metavar="TIME", help="How far ahead, up to 24h.")] = "24h",
    step: Annotated[str, typer.Option("--step", metavar="TIME", help="From one hour told to the next.")] = "1h",
    by: Annotated[
        str | None,
        typer.Option("--by", help="Also each partition, queue or pool of GPUs; comma-separated."),
    ] = None,
    model: Annotated[
        str, typer.Option("--model", help="presage, persistence, seasonal-day, seasonal-week, ets or ar.")
    ] = "presage",
    processors: Processors = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg, .pdf or .html.")
    ] = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Forecast utilisation, queue and waits of the next hours, with intervals.

    From the log's own past and the jobs that run and wait now: what comes later in the log is not used. Nothing is
    trained: any log will do, and the more of its past it tells, the better the answer.

    Example: presage load-forecast log.swf.gz --at 2024-03-04T09:00 --by partition --json
    """
    from presage.foundation.load import LOAD_MODELS
    from presage.foundation.load.forecast import forecast_load
    from presage.simulator.present import parse_instant
    from presage.traces.plots import check_picture

    horizon_h, step_h = _hours(horizon, "--horizon"), _hours(step, "--step")
    LOAD_MODELS.spec(model)
    ways = names_in(by, "--by")
    if plot:
        check_picture(plot)
    trace = read_files(files, format, time_zone)
    if processors is not None:
        trace = trace.with_processors(processors)
    at_ms = parse_instant(at, trace) if at else None
    with progress("Forecasting", None) as advance:
        answer = forecast_load(
            trace,
            at_ms=at_ms,
            horizon_h=horizon_h,
            step_h=step_h,
            by=ways,
            model=model,
            progress=lambda _done, _total: advance(1),
        )
    if plot:
        from presage.foundation.load.chart import draw_forecast

        draw_forecast(answer, trace, plot)
    if json:
        emit_json(answer.to_dict())
    else:
        _print(answer, trace)


def _hours(text: str, option: str) -> int:
    from presage.units import parse_seconds

    seconds = parse_seconds(text)
    if seconds <= 0 or seconds % 3600:
        raise UsageError(f"{option} cannot be {text!r}", expected="whole hours, like 6h")
    return int(seconds // 3600)


def _print(answer: LoadForecast, trace: Trace) -> None:
    from presage.simulator.present import instant

    for scope in answer.scopes:
        _print_scope(scope, instant(trace, answer.at_ms))
    typer.echo(
        "The median, in brackets what 8 in 10 outcomes lie between. A wait is that of a job submitted then."
    )
    for note in answer.notes:
        typer.echo(f"Note: {note}.")


def _print_scope(scope: ScopeForecast, now: str) -> None:
    title = (
        f"{scope.name}: {scope.capacity:,.6g} {scope.unit} {'' if scope.capacity_known else '(as seen) '}"
        f"at {now}: {100 * scope.utilisation:.0f} % used, {scope.running:,} jobs run, {scope.waiting:,} wait"
    )
    columns = ["in", "utilisation"]
    first = scope.hours[0]
    sizes = list(first.wait_s or ())
    if first.queue_length is not None:
        columns += ["jobs waiting", f"{_singular(scope.unit)}-hours waiting"]
    columns += [f"wait, {size}" for size in sizes]
    rows = []
    for hour in scope.hours:
        row = [f"{hour.ahead_h} h", _cell(hour.utilisation, lambda value: f"{100 * value:.0f} %")]
        row += [_cell(each, _count) for each in (hour.queue_length, hour.waiting_hours) if each is not None]
        row += [_cell((hour.wait_s or {})[size], duration) for size in sizes]
        rows.append(row)
    print_table(title, columns, rows)
    for note in scope.notes:
        typer.echo(f"Note: {note}.")


def _singular(unit: str) -> str:
    return {"processors": "processor", "GPUs": "GPU", "nodes": "node", "jobs": "job"}[unit]


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _cell(expected: Range, readable: Callable[[float], str]) -> str:
    return f"{readable(expected.p50)} [{readable(expected.p10)}, {readable(expected.p90)}]"
