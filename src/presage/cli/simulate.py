"""`presage simulate` and `presage policies`: what would happen under another policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from presage.cli._output import Json, duration, emit_json, print_table
from presage.cli.trace import Files, Format, TimeZone, read_files

policies_app = typer.Typer(
    help="The rules that order a queue and let jobs pass.", no_args_is_help=True, rich_markup_mode="markdown"
)


def simulate(
    files: Files,
    policy: Annotated[
        str,
        typer.Option("--policy", "-p", help="The order, or order+backfilling: sjf, sjf+easy."),
    ] = "fcfs",
    backfill: Annotated[
        str | None, typer.Option("--backfill", "-b", help="Backfilling: none, easy, easy-sjbf, conservative.")
    ] = None,
    clean: Annotated[
        str | None, typer.Option("--clean", help="Cleaning rules to apply first, like archive; comma-separated.")
    ] = None,
    processors: Annotated[
        int | None, typer.Option("--processors", help="Size of the machine; the log's own if not given.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first jobs, so many.")] = None,
    order_by: Annotated[
        str, typer.Option("--order-by", help="Run time that the order uses: requested, actual, or a column.")
    ] = "requested",
    plan_by: Annotated[
        str, typer.Option("--plan-by", help="Run time that reservations use: requested, actual, or a column.")
    ] = "requested",
    kill: Annotated[
        bool, typer.Option("--kill", help="End jobs at their limit instead of letting them overrun.")
    ] = False,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Write the schedule as a trace to this file.")
    ] = None,
    gantt: Annotated[
        str | None, typer.Option("--gantt", help="Draw the schedule: .png, .svg, .pdf or .html.")
    ] = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Replay a trace under a policy and measure the schedule.

    At one instant all ends come first, then all arrivals, then one pass of decisions.

    Example: presage simulate log.swf.gz --policy sjf --backfill easy --clean archive --json
    """
    from presage.policies import Policy
    from presage.simulator import simulate as run
    from presage.traces.cleaning import clean as apply_rules
    from presage.traces.cleaning import expand_rules
    from presage.traces.plots import draw
    from presage.traces.writers import choose_writer

    chosen = Policy.parse(policy) if backfill is None else Policy(Policy.parse(policy).order, backfill)
    rules = [name.strip() for name in (clean or "").split(",") if name.strip()]
    expand_rules(rules)
    writer = choose_writer(out) if out else None
    trace = read_files(files, format, time_zone)
    name = trace.manifest.name
    if processors is not None:
        trace = trace.with_processors(processors)
    trace = apply_rules(trace, rules)
    if limit is not None:
        trace = trace.with_jobs(trace.jobs.head(limit))
    result = run(trace, chosen, processors=processors, order_by=order_by, plan_by=plan_by, kill=kill)
    if writer and out:
        writer.write(result.trace, Path(out))
    if gantt:
        draw(result.trace, gantt, figures=["gantt", "utilisation", "queue"], title=f"{name} under {chosen}")
    measured = result.metrics.to_dict()
    if json:
        context = {"policy": str(chosen), "processors": result.processors, "jobs_per_s": round(result.jobs_per_s)}
        emit_json({**context, **measured})
        return
    rows = [
        (name.replace("_", " ").removesuffix(" s"), _readable(name, value)) for name, value in measured.items()
    ]
    print_table(f"{chosen} on {result.processors:,} processors", ("", ""), rows)


@policies_app.command("list")
def list_policies(json: Json = False) -> None:
    """List the ordering rules and backfillings."""
    from presage.policies import BACKFILLINGS, ORDERS

    orders = [
        {"name": spec.name, "summary": spec.summary, "formula": ORDERS.get(spec.name).formula}
        for spec in ORDERS.specs()
    ]
    backfillings = [{"name": spec.name, "summary": spec.summary} for spec in BACKFILLINGS.specs()]
    if json:
        emit_json({"orders": orders, "backfillings": backfillings})
        return
    print_table(
        "Orders (lowest score first)",
        ("order", "score", "what it is"),
        [(order["name"], order["formula"], order["summary"]) for order in orders],
    )
    print_table("Backfillings", ("backfilling", "what it does"), [(b["name"], b["summary"]) for b in backfillings])


def _readable(name: str, value: float) -> str:
    if name.endswith("_s"):
        return duration(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
