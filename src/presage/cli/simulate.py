"""`presage simulate` and `presage policies`: what would happen under another policy."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli._assessment import assessor, print_assessment
from presage.cli._output import Json, duration, emit_json, print_table
from presage.cli._scenario import (
    Clean,
    CoolDown,
    Kill,
    Limit,
    OrderBy,
    PlanBy,
    Processors,
    Sla,
    WarmUp,
    check_rules,
    read_scenario,
)
from presage.cli.trace import Files, Format, TimeZone
from presage.errors import UsageError

if TYPE_CHECKING:
    from presage.learning.simulation import ForecastSimulation
    from presage.policies import ClusterPolicy, PlacedPolicy
    from presage.registry import Registry
    from presage.simulator import PlacedSimulation, Simulation
    from presage.simulator.detailed import Conditions, DetailedSimulation
    from presage.traces import Trace

policies_app = typer.Typer(
    help="The rules that order a queue and let jobs pass.", no_args_is_help=True, rich_markup_mode="markdown"
)


def simulate(
    files: Files,
    policy: Annotated[
        str,
        typer.Option("--policy", "-p", help="sjf, sjf+easy; default, look-ahead, or a file of `policy train`."),
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
    conditions: Annotated[
        Path | None,
        typer.Option("--conditions", help="A TOML file of failures, drains, checkpoints, speeds and priorities."),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, help="Divide the processors into so many equal nodes.")
    ] = None,
    semantics: Annotated[
        str, typer.Option("--semantics", help="When decisions are made: instant, event or commit.")
    ] = "instant",
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", metavar="NAME=N", help="A partition of N processors of its own; repeatable."),
    ] = None,
    by_partition: Annotated[
        bool, typer.Option("--by-partition", help="Take the partitions from the trace's own nodes.")
    ] = False,
    clean: Clean = None,
    processors: Processors = None,
    limit: Limit = None,
    order_by: OrderBy = "requested",
    plan_by: PlanBy = "requested",
    kill: Kill = False,
    warm_up: WarmUp = "0",
    cool_down: CoolDown = "0",
    sla: Sla = None,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Add 95 % intervals, and how evenly users are served.")
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

    At one instant all ends come first, then all arrivals, then one pass of decisions, unless --semantics says
    otherwise. Processors are pooled, for each partition if there are any, unless a placement is named: then jobs
    go to the nodes that the trace knows, or to --nodes equal ones. With --conditions, and for orders that
    interrupt jobs or count shares, a slower engine knows dependencies, failures and preemption.

    A learned policy, and look-ahead, order the queue by forecasts of the model that comes with Presage, with EASY
    backfilling by requests; jobs then end at their limits, as with --kill.

    Example: presage simulate log.swf.gz --policy sjf --backfill easy --clean archive --json

    Example: presage simulate pods.csv nodes.csv --policy fcfs+skip@fgd --clean drop-unrun --json

    Example: presage simulate log.swf.gz --clean archive --nodes 16 --policy tiresias --conditions failures.toml
    """
    from presage.cli._by_forecasts import check_alone, policy_by_forecasts, simulate_case
    from presage.policies import PlacedPolicy
    from presage.simulator import partitions_of, simulate_placed
    from presage.simulator import simulate as run
    from presage.simulator.detailed import simulate_detailed
    from presage.traces.plots import draw
    from presage.traces.writers import choose_writer

    learned = policy_by_forecasts(policy)
    if learned is not None:
        check_alone(
            policy, backfill=backfill not in (None, "easy"), placement=placement, conditions=conditions,
            nodes=nodes, semantics=semantics != "instant", partition=partition, by_partition=by_partition,
            order_by=order_by != "requested", plan_by=plan_by != "requested", drop_unplaceable=drop_unplaceable,
        )  # fmt: skip
    chosen = policy if learned else _policy(policy, backfill, placement, detailed=conditions is not None)
    known_conditions = _conditions(conditions)
    rules = check_rules(clean)
    assess = assessor(warm_up, cool_down, sla, intervals=intervals)
    writer = choose_writer(out) if out else None
    parts = _partitions(partition, processors, by_partition=by_partition)
    _check_pooled(chosen, semantics, in_parts=bool(parts) or by_partition)
    trace = read_scenario(files, format, time_zone, rules, sum(parts.values()) if parts else processors, limit)
    trace = _on_nodes(trace, chosen, nodes, processors)
    result: Simulation | PlacedSimulation | DetailedSimulation | ForecastSimulation
    machine: dict[str, Any]
    knowledge = {"order_by": order_by, "plan_by": plan_by}
    if learned is not None:
        result = simulate_case(trace, learned, processors)
        machine = {"processors": result.processors}
    elif isinstance(chosen, str):
        known = partitions_of(trace) if by_partition else parts or None
        result = run(
            trace, chosen, processors=processors, kill=kill, semantics=semantics, partitions=known, **knowledge
        )
        machine = {"processors": result.processors}
    else:
        on_nodes: dict[str, Any] = {"kill": kill, "drop_unplaceable": drop_unplaceable, **knowledge}
        if isinstance(chosen, PlacedPolicy):
            result = simulate_placed(trace, chosen, **on_nodes)
        else:
            result = simulate_detailed(trace, chosen, known_conditions, **on_nodes)
        machine = {"nodes": len(trace.nodes), "dropped": result.dropped}
    if writer and out:
        writer.write(result.trace, Path(out))
    if gantt:
        title = f"{trace.manifest.name} under {result.policy}"
        draw(result.trace, gantt, figures=["gantt", "utilisation", "queue"], title=title)
    assessment = assess(result.trace)
    if json:
        context = {"policy": str(result.policy), **machine, "jobs_per_s": round(result.jobs_per_s)}
        more = {} if assessment is None else {"assessment": assessment.to_dict()}
        emit_json({**context, **result.metrics.to_dict(), **_besides(result), **more})
        return
    on = ", ".join(f"{number:,} {name}" for name, number in machine.items())
    measured = result.metrics.to_dict().items()
    rows = [(name.replace("_", " ").removesuffix(" s"), _readable(name, value)) for name, value in measured]
    print_table(f"{result.policy} on {on}", ("", ""), rows)
    for title, part in _tables(_besides(result)):
        rows = [(key.replace("_", " ").removesuffix(" s"), _readable(key, value)) for key, value in part.items()]
        print_table(title, ("", ""), rows)
    if assessment is not None:
        print_assessment(assessment)


def _partitions(texts: list[str] | None, processors: int | None, *, by_partition: bool) -> dict[str, int]:
    """Return the partitions of --partition, if they are all that says how large the machine is."""
    from presage.simulator import parse_partitions

    parts = parse_partitions(texts or [])
    if [bool(parts), by_partition, processors is not None].count(True) > 1:
        raise UsageError(
            "The size of the machine is given in several ways",
            expected="one of --processors, --partition and --by-partition",
        )
    return parts


def _check_pooled(policy: str | PlacedPolicy | ClusterPolicy, semantics: str, *, in_parts: bool) -> None:
    """Refuse what only pooled processors have. Raises UsageError or UnknownNameError."""
    from presage.simulator import Semantics

    other = Semantics.parse(semantics) is not Semantics.INSTANT
    if not isinstance(policy, str) and (other or in_parts):
        raise UsageError(
            f"{'Semantics' if other else 'Partitions'} cannot be chosen for jobs that are placed on nodes",
            remedy="Leave out the placement, or --semantics, --partition and --by-partition",
        )


def _conditions(file: Path | None) -> Conditions | None:
    from presage.simulator.detailed import read_conditions

    return None if file is None else read_conditions(file)


def _on_nodes(
    trace: Trace, policy: str | PlacedPolicy | ClusterPolicy, nodes: int | None, processors: int | None
) -> Trace:
    """Return the trace with nodes for an engine that needs some: its own, those of --nodes, or one for all."""
    from presage.policies import ClusterPolicy
    from presage.simulator import on_equal_nodes

    if isinstance(policy, str):
        if nodes is not None:
            raise UsageError("Pooled processors have no nodes", remedy="Name a placement too, like first-fit")
        return trace
    alone = isinstance(policy, ClusterPolicy) and not len(trace.nodes)
    return on_equal_nodes(trace, nodes or 1, processors) if nodes is not None or alone else trace


def _besides(
    result: Simulation | PlacedSimulation | DetailedSimulation | ForecastSimulation,
) -> dict[str, Any]:
    """Return for JSON what a simulation has besides its metrics."""
    from presage.simulator import PlacedSimulation, Simulation
    from presage.simulator.detailed import DetailedSimulation

    if isinstance(result, PlacedSimulation):
        return {}
    if isinstance(result, Simulation):
        parts = {name: part.to_dict() for name, part in result.partitions.items()}
        return {"semantics": result.semantics.value, **({"partitions": parts} if parts else {})}
    if isinstance(result, DetailedSimulation):
        return {"disruptions": asdict(result.disruptions)}
    return {"semantics": result.semantics.value, "share_by_requests": result.by_requests}


def _tables(besides: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    parts = besides.get("partitions", {}).items()
    tables = [(f"Partition {name}", part) for name, part in parts]
    return [*tables, *([("Disruptions", besides["disruptions"])] if "disruptions" in besides else [])]


def _policy(
    text: str, backfill: str | None, placement: str | None, *, detailed: bool
) -> str | PlacedPolicy | ClusterPolicy:
    """Return the pooled policy as text, or the one on nodes if something that needs nodes is named."""
    from presage.policies import CLUSTER_ORDERS, ClusterPolicy, PlacedPolicy, Policy

    order = text.strip().lower().partition("@")[0].partition("+")[0].partition(":")[0]
    given = {"backfilling": backfill, "placement": placement}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if detailed or order in CLUSTER_ORDERS:
        return replace(ClusterPolicy.parse(text), **changes)
    if placement is None and "@" not in text:
        return str(replace(Policy.parse(text), **changes))
    return replace(PlacedPolicy.parse(text), **changes)


@policies_app.command("list")
def list_policies(json: Json = False) -> None:
    """List the ordering rules, backfillings, semantics and placements."""
    from presage.policies import BACKFILLINGS, CLUSTER_ORDERS, ORDERS, PLACED_BACKFILLINGS, PLACEMENTS
    from presage.simulator.semantics import SUMMARIES

    orders = _described(ORDERS)
    cluster_orders = _described(CLUSTER_ORDERS)
    families: dict[str, Registry[Any]] = {
        "backfillings": BACKFILLINGS,
        "placements": PLACEMENTS,
        "placed_backfillings": PLACED_BACKFILLINGS,
    }
    kinds = {
        family: [{"name": spec.name, "summary": spec.summary} for spec in registry.specs()]
        for family, registry in families.items()
    }
    kinds["semantics"] = [{"name": each.value, "summary": summary} for each, summary in SUMMARIES.items()]
    if json:
        emit_json({"orders": orders, "cluster_orders": cluster_orders, **kinds})
        return
    described = {"Orders (lowest score first)": orders, "Orders that need the whole cluster": cluster_orders}
    for title, family_orders in described.items():
        rows = [(order["name"], order["formula"], order["summary"]) for order in family_orders]
        print_table(title, ("order", "score", "what it is"), rows)
    titles = {
        "backfillings": "Backfillings on pooled processors",
        "semantics": "Semantics on pooled processors",
        "placements": "Placements on nodes",
        "placed_backfillings": "Backfillings on nodes",
    }
    for family, title in titles.items():
        print_table(title, ("name", "what it does"), [(kind["name"], kind["summary"]) for kind in kinds[family]])


def _described(registry: Registry[Any]) -> list[dict[str, str]]:
    return [
        {"name": spec.name, "summary": spec.summary, "formula": registry.get(spec.name).formula}
        for spec in registry.specs()
    ]


def _readable(name: str, value: float) -> str:
    if name.endswith("_s"):
        return duration(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
