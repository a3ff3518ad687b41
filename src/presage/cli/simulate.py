"""`presage simulate` and `presage policies`: what would happen under another policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from presage.cli._output import Json, duration, emit_json, print_table
from presage.cli._scenario import Clean, Kill, Limit, OrderBy, PlanBy, Processors, check_rules, read_scenario
from presage.cli.trace import Files, Format, TimeZone

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
    clean: Clean = None,
    processors: Processors = None,
    limit: Limit = None,
    order_by: OrderBy = "requested",
    plan_by: PlanBy = "requested",
    kill: Kill = False,
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
    from presage.traces.plots import draw
    from presage.traces.writers import choose_writer

    chosen = Policy.parse(policy) if backfill is None else Policy(Policy.parse(policy).order, backfill)
    rules = check_rules(clean)
    writer = choose_writer(out) if out else None
    trace = read_scenario(files, format, time_zone, rules, processors, limit)
    result = run(trace, chosen, processors=processors, order_by=order_by, plan_by=plan_by, kill=kill)
    if writer and out:
        writer.write(result.trace, Path(out))
    if gantt:
        draw(
            result.trace,
            gantt,
            figures=["gantt", "utilisation", "queue"],
            title=f"{trace.manifest.name} under {chosen}",
        )
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
