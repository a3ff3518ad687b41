"""`presage whatif`: a trace as it is and with changes, side by side."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli._outlook import print_outlook
from presage.cli._output import Json, duration, emit_json, print_table, progress
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
    parse_sla,
    parse_trim,
    read_scenario,
)
from presage.cli.trace import Files, Format, TimeZone
from presage.errors import UsageError

if TYPE_CHECKING:
    from presage.simulator import Difference, Variant, WhatIf
    from presage.traces import Trace

_UNCLEAR = "~"
_UNSAFE = re.compile(r"[^\w.+=%@-]+")


def whatif(
    files: Files,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A change, like nodes=+10% or policy=sjf+easy; repeatable."
        ),
    ] = None,
    load: Annotated[
        str | None, typer.Option("--load", help="Let the jobs arrive this many times as fast; as --set load=1.2.")
    ] = None,
    texts: Annotated[
        list[str] | None,
        typer.Option("--variant", metavar="TEXT", help='One more variant, "name: key=value, …"; repeatable.'),
    ] = None,
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="The policy of the baseline: order or order+backfilling.")
    ] = "fcfs+easy",
    clean: Clean = None,
    processors: Processors = None,
    limit: Limit = None,
    order_by: OrderBy = "requested",
    plan_by: PlanBy = "requested",
    kill: Kill = False,
    warm_up: WarmUp = "0",
    cool_down: CoolDown = "0",
    sla: Sla = None,
    present: Annotated[
        bool,
        typer.Option("--present", help="Start from the jobs that run and wait now: when will the queue drain?"),
    ] = False,
    now: Annotated[
        str | None,
        typer.Option(
            "--now",
            metavar="TIME",
            help="When the present is: now, a date, or 2d after the first submit. [latest]",
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option("--samples", min=1, help="Draws of run times from the present on. [200]")
    ] = None,
    job_ids: Annotated[
        list[str] | None, typer.Option("--job", metavar="ID", help="Tell when this job will start; repeatable.")
    ] = None,
    run_by: Annotated[
        str | None,
        typer.Option("--run-by", help="How long jobs will run: history, requested, a share like 50%, a column."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all draws; the same seed, the same answer.")] = 0,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", help="Where runs go: serial (this process, the default), local processes, or ray."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="How many runs at once, in local processes or on ray.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="DIR", help="Keep the schedules in this folder, as Parquet."),
    ] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", help="Draw the comparison: .png, .svg, .pdf or .html.")
    ] = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Replay a trace as it is and with changes, and compare the schedules.

    All of --set and --load make one variant; every --variant makes one more. Keys: nodes, processors, policy,
    backfill, load, arrivals, limits, burst, partition, queue, partitions (gpu:64;cpu:512), oversized, failures
    (500h, 500h/4h or 500h/4h@32: every 500 hours per node, 4 to repair, 32 nodes), checkpoints (1h or
    1h/60s/120s), seed.

    Differences come with 95 % intervals from a paired block bootstrap.

    With --present, --now or --job, nothing is replayed: the simulation starts from the jobs that run and wait at
    that instant, and says when the waiting ones will start. How long jobs will run is drawn from history.

    Example: presage whatif log.swf.gz --clean archive --set nodes=+10% --set policy=sjf+easy --load 1.2 --json

    Example: presage whatif jobs.txt --processors 512 --present --job 4711 --set nodes=+10%
    """
    from presage.fanout import check_engine
    from presage.policies import Policy
    from presage.simulator import what_if
    from presage.traces.plots import check_picture, draw_contest

    variants = _variants(settings or [], load, texts or [])
    base = Policy.parse(policy)
    trims = [parse_trim(text) for text in (warm_up, cool_down)]
    sla_s = parse_sla(sla)
    rules = check_rules(clean)
    engine = engine or ("local" if workers else "serial")
    check_engine(engine)
    common: dict[str, Any] = {
        "policy": base, "processors": processors, "order_by": order_by, "plan_by": plan_by, "kill": kill,
        "seed": seed, "engine": engine, "workers": workers,
    }  # fmt: skip
    if present or now or job_ids:
        _check_none({"--out": out, "--plot": plot, "--sla": sla, "--warm-up": any(trims)}, "the present")
        trace = read_scenario(files, format, time_zone, rules, processors, limit)
        chosen = {"samples": samples, "run_by": run_by}
        common |= {name: value for name, value in chosen.items() if value is not None}
        _show_present(trace, variants, now, job_ids or [], common, json=json)
        return
    _check_none({"--samples": samples, "--run-by": run_by}, "a replay")
    if not variants:
        raise UsageError(
            "There is nothing to change",
            expected="--set, --load or --variant",
            remedy="For example: --set nodes=+10%",
        )
    places = _places(out, [variant.name for variant in variants])
    if plot:
        check_picture(plot)
    trace = read_scenario(files, format, time_zone, rules, processors, limit)
    with progress("Simulating", len(variants) + 1) as advance:
        answer = what_if(
            trace,
            variants,
            **common,
            warm_up=trims[0],
            cool_down=trims[1],
            sla_s=sla_s,
            keep_schedules=bool(places),
            progress=lambda _done, _total: advance(1),
        )
    _keep(answer, places)
    if plot:
        draw_contest(answer.contest(trace), plot)
    if json:
        emit_json(answer.to_dict())
    else:
        _print(answer)


def _variants(settings: list[str], load: str | None, texts: list[str]) -> list[Variant]:
    from presage.simulator import Variant

    bare = [*settings, *([f"load={load}"] if load is not None else [])]
    return [*([Variant.of(bare)] if bare else []), *(Variant.parse(text) for text in texts)]


def _check_none(options: dict[str, Any], of_what: str) -> None:
    for option, value in options.items():
        if value:
            raise UsageError(f"{option} means nothing for {of_what}", remedy="Leave it out")


def _show_present(
    trace: Trace,
    variants: list[Variant],
    now: str | None,
    job_ids: list[str],
    common: dict[str, Any],
    *,
    json: bool,
) -> None:
    from presage.simulator import what_comes
    from presage.simulator.present import parse_instant

    now_ms = parse_instant(now, trace) if now else None
    with progress("Simulating", 4 * (len(variants) + 1)) as advance:
        outlook = what_comes(trace, variants, now_ms=now_ms, progress=lambda *_: advance(1), **common)
    for job_id in job_ids:
        outlook.baseline.starts(job_id)
    if json:
        emit_json(outlook.to_dict(job_ids))
    else:
        print_outlook(outlook, job_ids)


def _places(out: str | None, names: list[str]) -> dict[str, Path]:
    """Return the file of every run by its name, in a folder that is there; none if nothing is to be kept."""
    from presage.simulator.whatif import BASELINE

    if out is None:
        return {}
    files = {name: f"{_UNSAFE.sub('-', name).strip('-.') or 'variant'}.parquet" for name in (BASELINE, *names)}
    for name, file in files.items():
        if [*files.values()].count(file) > 1:
            raise UsageError(
                f"The schedule of {name!r} would share the file {file}", remedy="Give the variants other names"
            )
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"The folder {out!r} cannot be made: {error.strerror}", remedy="Name another") from None
    return {name: folder / file for name, file in files.items()}


def _keep(answer: WhatIf, places: dict[str, Path]) -> None:
    runs = [answer.baseline, *(outcome.run for outcome in answer.outcomes)]
    for run in runs:
        if run.schedule is not None:
            run.schedule.save(places[run.name])


def _print(answer: WhatIf) -> None:
    from rich.markup import escape

    names = [outcome.variant.name for outcome in answer.outcomes]
    tables = [outcome.comparison.differences for outcome in answer.outcomes]
    baselines = {
        metric: [table[metric].baseline for table in tables if metric in table]
        for metric in dict.fromkeys(metric for table in tables for metric in table)
    }
    # Variants that have other jobs are compared on the common ones, each with a baseline of its own.
    shared = all(len({*values}) == 1 for values in baselines.values())
    rows = [
        (
            metric.replace("_", " ").removesuffix(" s"),
            *([_readable(metric, values[0])] if shared else []),
            *(_cell(metric, table.get(metric), with_baseline=not shared) for table in tables),
        )
        for metric, values in baselines.items()
    ]
    baseline = answer.baseline
    nodes = f" of {baseline.nodes:,} nodes" if baseline.nodes else ""
    machine = f"{baseline.processors:,} processors{nodes}"
    title = f"{baseline.policy} on {machine}, {baseline.metrics.jobs:,} jobs, and what if"
    print_table(title, ("", *(["baseline"] if shared else []), *map(escape, names)), rows)
    typer.echo(
        f"In parentheses the change and its 95 % interval; {_UNCLEAR} if that includes no change; "
        "what is one number of a whole run has no interval."
    )
    for run in (baseline, *(outcome.run for outcome in answer.outcomes)):
        if run.disruptions is not None and run.disruptions.never_started:
            typer.echo(f"{run.disruptions.never_started:,} jobs of {run.name} never ended, and are not compared.")


def _cell(metric: str, difference: Difference | None, *, with_baseline: bool) -> str:
    if difference is None:
        return ""
    value = _readable(metric, difference.variant)
    if with_baseline:
        value = f"{_readable(metric, difference.baseline)} → {value}"
    return f"{value} {_change(difference)}".rstrip()


def _change(difference: Difference) -> str:
    """Return the change in words: in percent where there is something to relate it to."""
    if difference.difference == 0 and not difference.clear:
        return "="
    mark = f" {_UNCLEAR}" if difference.clear is False else ""
    if difference.ratio is None:
        return mark.strip()
    change = f"{_percent(difference.ratio)} %"
    if difference.ratio_low is None or difference.ratio_high is None:
        return f"({change}){mark}"
    return f"({change} [{_percent(difference.ratio_low)}, {_percent(difference.ratio_high)}]){mark}"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+,.1f}"


def _readable(metric: str, value: float) -> str:
    return duration(value) if metric.endswith("_s") else f"{value:,.4g}"
