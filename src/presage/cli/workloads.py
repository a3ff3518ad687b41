"""`presage trace generate` and `presage trace models`: workloads that never ran."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from presage.cli._output import Json, emit_json, pairs_in, print_table, progress, writer_for
from presage.wording import counted


def generate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The workload model; `models` lists them.")],
    out: Annotated[str, typer.Argument(metavar="OUT", help="The file to write; its ending says the format.")],
    jobs: Annotated[
        int | None, typer.Option("--jobs", help="How many jobs (10,000 if --days is not given).")
    ] = None,
    days: Annotated[float | None, typer.Option("--days", help="How many days, instead of how many jobs.")] = None,
    processors: Annotated[
        int | None, typer.Option("--processors", help="Size of the machine, for models of processors.")
    ] = None,
    load: Annotated[
        float | None, typer.Option("--load", help="Offered load to reach by stretching the arrivals, like 0.8.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same workload.")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the model; may be repeated."),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Output format, if the ending of OUT does not say it.")
    ] = None,
    json: Json = False,
) -> None:
    """Generate a synthetic workload from a model and write it as a trace.

    Example: presage trace generate lublin work.swf.gz --jobs 20000 --processors 256 --load 0.8 --seed 1
    """
    from presage.traces.statistics import summarise
    from presage.traces.workloads import make_model

    writer = writer_for(out, to, wants_json=json)
    named: dict[str, str | int | float | bool] = {**pairs_in(settings, "--set")}
    named |= {key: value for key, value in (("processors", processors), ("load", load)) if value is not None}
    workload = make_model(model, named)
    if jobs is None and days is None:
        jobs = 10_000
    with progress("Generating", jobs) as advance:
        made = 0

        def report(done: int, _total: int | None) -> None:
            nonlocal made
            advance(done - made)
            made = done

        trace = workload.generate(jobs, days=days, seed=seed, progress=report)
    writer.write(trace, Path(out))
    if json:
        emit_json({"output": out, "summary": summarise(trace).to_dict(), "generator": trace.manifest.generator})
    elif out != "-":
        typer.echo(f"{out}: {counted(len(trace), 'job')} of {model}, seed {seed}")


def models(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Show the parameters of this model.")
    ] = None,
    json: Json = False,
) -> None:
    """List the workload models, or the parameters of one."""
    from presage.traces.workloads import WORKLOADS, describe_parameters

    if model is None:
        summaries = {spec.name: spec.summary for spec in WORKLOADS.specs()}
        if json:
            emit_json(summaries)
        else:
            print_table("Workload models", ("model", "what it is"), list(summaries.items()))
        return
    known = describe_parameters(model)
    if json:
        emit_json({name: {"default": each.default, "help": each.help} for name, each in known.items()})
        return
    rows = [(name, "" if each.default is None else str(each.default), each.help) for name, each in known.items()]
    print_table(f"Parameters of {model}, for --set", ("parameter", "default", "meaning"), rows)
