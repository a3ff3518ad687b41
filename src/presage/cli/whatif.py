"""`presage whatif`: a trace as it is and with changes, side by side."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from presage.cli._output import Json, duration, emit_json, print_table, progress
from presage.cli._scenario import Clean, Kill, Limit, OrderBy, PlanBy, Processors, check_rules, read_scenario
from presage.cli.trace import Files, Format, TimeZone
from presage.errors import UsageError

if TYPE_CHECKING:
    from presage.simulator import Difference, Variant, WhatIf

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
    warm_up: Annotated[
        str, typer.Option("--warm-up", help="First jobs to leave out of the comparison: 500, or 5%.")
    ] = "0",
    cool_down: Annotated[
        str, typer.Option("--cool-down", help="Last jobs to leave out of the comparison: 500, or 5%.")
    ] = "0",
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
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Replay a trace as it is and with changes, and compare the schedules.

    All of --set and --load make one variant; every --variant makes one more. Keys: nodes, processors, policy,
    backfill, load, arrivals, limits, burst, partition, queue, oversized, seed.

    Differences come with 95 % intervals from a paired block bootstrap.

    Example: presage whatif log.swf.gz --clean archive --set nodes=+10% --set policy=sjf+easy --load 1.2 --json
    """
    from presage.fanout import check_engine
    from presage.policies import Policy
    from presage.simulator import what_if

    variants = _variants(settings or [], load, texts or [])
    base = Policy.parse(policy)
    trims = [_trim(text) for text in (warm_up, cool_down)]
    rules = check_rules(clean)
    engine = engine or ("local" if workers else "serial")
    check_engine(engine)
    places = _places(out, [variant.name for variant in variants])
    trace = read_scenario(files, format, time_zone, rules, processors, limit)
    with progress("Simulating", len(variants) + 1) as advance:
        answer = what_if(
            trace,
            variants,
            policy=base,
            processors=processors,
            order_by=order_by,
            plan_by=plan_by,
            kill=kill,
            seed=seed,
            warm_up=trims[0],
            cool_down=trims[1],
            engine=engine,
            workers=workers,
            keep_schedules=bool(places),
            progress=lambda _done, _total: advance(1),
        )
    _keep(answer, places)
    if json:
        emit_json(answer.to_dict())
    else:
        _print(answer)


def _variants(settings: list[str], load: str | None, texts: list[str]) -> list[Variant]:
    from presage.simulator import Variant

    bare = [*settings, *([f"load={load}"] if load is not None else [])]
    variants = [*([Variant.of(bare)] if bare else []), *(Variant.parse(text) for text in texts)]
    if not variants:
        raise UsageError(
            "There is nothing to change",
            expected="--set, --load or --variant",
            remedy="For example: --set nodes=+10%",
        )
    return variants


def _trim(text: str) -> float:
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
    title = f"{baseline.policy} on {baseline.processors:,} processors, {baseline.metrics.jobs:,} jobs, and what if"
    print_table(title, ("", *(["baseline"] if shared else []), *map(escape, names)), rows)
    typer.echo(
        f"In parentheses the change and its 95 % interval; {_UNCLEAR} if that includes no change; "
        "what is one number of a whole run has no interval."
    )


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
