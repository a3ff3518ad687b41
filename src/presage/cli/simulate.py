"""`presage simulate` and `presage policies`: what would happen under another policy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli._output import Json, duration, emit_json, print_table
from presage.cli._scenario import Clean, Kill, Limit, OrderBy, PlanBy, Processors, check_rules, read_scenario
from presage.cli.trace import Files, Format, TimeZone

if TYPE_CHECKING:
    from presage.policies import PlacedPolicy
    from presage.registry import Registry
    from presage.simulator import PlacedSimulation, Simulation

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
    placement: Annotated[
        str | None,
        typer.Option("--placement", help="Place jobs on the trace's nodes by this rule, like best-fit."),
    ] = None,
    drop_unplaceable: Annotated[
        bool,
        typer.Option("--drop-unplaceable", help="Leave out jobs that fit on no empty node, with --placement."),
    ] = False,
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

    At one instant all ends come first, then all arrivals, then one pass of decisions. Processors are pooled,
    unless a placement is named: then jobs go to the nodes that the trace knows.

    Example: presage simulate log.swf.gz --policy sjf --backfill easy --clean archive --json

    Example: presage simulate pods.csv nodes.csv --policy fcfs+skip@fgd --clean drop-unrun --json
    """
    from presage.simulator import simulate as run
    from presage.simulator import simulate_placed
    from presage.traces.plots import draw
    from presage.traces.writers import choose_writer

    chosen = _policy(policy, backfill, placement)
    rules = check_rules(clean)
    writer = choose_writer(out) if out else None
    trace = read_scenario(files, format, time_zone, rules, processors, limit)
    result: Simulation | PlacedSimulation
    if isinstance(chosen, str):
        result = run(trace, chosen, processors=processors, order_by=order_by, plan_by=plan_by, kill=kill)
        machine = {"processors": result.processors}
    else:
        knowledge = {"order_by": order_by, "plan_by": plan_by}
        result = simulate_placed(trace, chosen, kill=kill, drop_unplaceable=drop_unplaceable, **knowledge)
        machine = {"nodes": len(trace.nodes), "dropped": result.dropped}
    if writer and out:
        writer.write(result.trace, Path(out))
    if gantt:
        title = f"{trace.manifest.name} under {result.policy}"
        draw(result.trace, gantt, figures=["gantt", "utilisation", "queue"], title=title)
    if json:
        context = {"policy": str(result.policy), **machine, "jobs_per_s": round(result.jobs_per_s)}
        emit_json({**context, **result.metrics.to_dict()})
        return
    on = ", ".join(f"{number:,} {name}" for name, number in machine.items())
    measured = result.metrics.to_dict().items()
    rows = [(name.replace("_", " ").removesuffix(" s"), _readable(name, value)) for name, value in measured]
    print_table(f"{result.policy} on {on}", ("", ""), rows)


def _policy(text: str, backfill: str | None, placement: str | None) -> str | PlacedPolicy:
    """Return the pooled policy as text, or the placed one if a placement is named anywhere."""
    from presage.policies import PlacedPolicy, Policy

    if placement is None and "@" not in text:
        chosen = Policy.parse(text)
        return str(chosen if backfill is None else replace(chosen, backfilling=backfill))
    placed = PlacedPolicy.parse(text)
    changes = {"backfilling": backfill, "placement": placement}
    return replace(placed, **{name: value for name, value in changes.items() if value is not None})


@policies_app.command("list")
def list_policies(json: Json = False) -> None:
    """List the ordering rules, backfillings and placements."""
    from presage.policies import BACKFILLINGS, ORDERS, PLACED_BACKFILLINGS, PLACEMENTS

    orders = [
        {"name": spec.name, "summary": spec.summary, "formula": ORDERS.get(spec.name).formula}
        for spec in ORDERS.specs()
    ]
    families: dict[str, Registry[Any]] = {
        "backfillings": BACKFILLINGS,
        "placements": PLACEMENTS,
        "placed_backfillings": PLACED_BACKFILLINGS,
    }
    kinds = {
        family: [{"name": spec.name, "summary": spec.summary} for spec in registry.specs()]
        for family, registry in families.items()
    }
    if json:
        emit_json({"orders": orders, **kinds})
        return
    print_table(
        "Orders (lowest score first)",
        ("order", "score", "what it is"),
        [(order["name"], order["formula"], order["summary"]) for order in orders],
    )
    titles = {
        "backfillings": "Backfillings on pooled processors",
        "placements": "Placements on nodes",
        "placed_backfillings": "Backfillings on nodes",
    }
    for family, title in titles.items():
        print_table(title, ("name", "what it does"), [(kind["name"], kind["summary"]) for kind in kinds[family]])


def _readable(name: str, value: float) -> str:
    if name.endswith("_s"):
        return duration(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
