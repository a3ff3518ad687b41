"""`presage synth`: learn from a log, make traces like it, and see how true they are."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli._output import Json, emit_json, pairs_in, print_table, progress, steps, tell, writer_for
from presage.cli._scenario import Processors
from presage.cli._training import (
    CHECKPOINT,
    check_privacy,
    model_folder,
    print_training,
    privacy_of,
    tell_how_to_go_on,
    tell_what_is_missing,
    training_document,
)
from presage.cli.trace import Files, Format, TimeZone, check_output, read_files
from presage.errors import PresageError, UsageError
from presage.wording import counted

if TYPE_CHECKING:
    from presage.registry import Spec
    from presage.synthesizers import Request, Synthesizer
    from presage.traces import Trace

app = typer.Typer(
    help=(
        "Make traces that never happened: train a model on a log, draw new jobs from it at any load, on a machine "
        "of any size, and measure how true they are. Users, groups and accounts become numbers."
    ),
    epilog=(
        "Example: presage synth train log.swf.gz --out m && presage synth sample m --out s.parquet && "
        "presage synth report log.swf.gz s.parquet --out report.html"
    ),
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

NO_WAITS = "none"
ModelFolder = Annotated[str, typer.Argument(metavar="DIR", help="A folder that `train` wrote.")]
Nodes = Annotated[int | None, typer.Option("--nodes", min=1, help="Nodes of the machine, where jobs count nodes.")]
Gpus = Annotated[
    int | None, typer.Option("--gpus", min=1, help="GPUs of the machine; the log's own if not given.")
]


@app.command("list")
def list_models(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Show what can be set for this model.")
    ] = None,
    json: Json = False,
) -> None:
    """List the models that can be trained, or what can be set for one of them.

    Example: presage synth list sequence
    """
    if model is not None:
        _list_settings(model, wants_json=json)
        return
    kinds = _known_kinds()
    if json:
        emit_json(kinds)
        return
    rows = [
        (
            kind["name"],
            kind["summary"],
            kind["extra"] or "",
            "yes" if kind["installed"] else "no",
            "yes" if kind["private"] else "no",
        )
        for kind in kinds
    ]
    print_table("Synthesizers", ("model", "what it is", "needs extra", "installed", "can be private"), rows)
    for notice in dict.fromkeys(kind["notice"] for kind in kinds if kind["notice"]):
        about = [kind["name"] for kind in kinds if kind["notice"] == notice]
        typer.echo(f"{', '.join(about)}: {notice}")


@app.command()
def train(
    files: Files,
    out: Annotated[str, typer.Option("--out", "-o", metavar="DIR", help="The folder of the model.")],
    model: Annotated[str, typer.Option("--model", "-m", help="The kind of model; `list` has them.")] = "sequence",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the model (`list MODEL`); may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed and log, the same model.")] = 0,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first jobs, so many.")] = None,
    latest: Annotated[int | None, typer.Option("--latest", min=1, help="Only the last jobs, so many.")] = None,
    dp_epsilon: Annotated[
        float | None,
        typer.Option("--dp-epsilon", help="Learn with differential privacy: how much may leak, like 8."),
    ] = None,
    dp_delta: Annotated[
        float | None,
        typer.Option("--dp-delta", help="How likely more may leak. [1 / jobs^1.1]"),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the training in this folder was interrupted.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the model in this folder.")] = False,
    processors: Processors = None,
    nodes: Nodes = None,
    gpus: Gpus = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Train a model on a log: at least 200 jobs with a submit time and a run time.

    It learns when jobs come, their users, sizes, requests, run times, limits and outcomes, as far as the log has
    them; waits are not learned and may be missing. The last tenth of the jobs tells when to stop.

    After Ctrl-C the same call with --resume goes on after the last whole epoch, and arrives at the same model.
    A private training begins anew, and no two of them are alike: its noise must be secret.

    Example: presage synth train log.swf.gz --model sequence --out m

    Example: presage synth train log.swf.gz --model tvae --out private --dp-epsilon 8

    Example: presage synth train log.swf.gz --model lublin --out l --latest 20000 --set rounds=500
    """
    from presage.synthesizers import Training, find_synthesizer
    from presage.traces.workloads._parameters import parse_settings

    kind = find_synthesizer(model)
    named: dict[str, Any] = parse_settings(kind.settings_type, pairs_in(settings, "--set"), kind="synthesizer")
    check_privacy(model, dp_epsilon, dp_delta)
    if limit is not None and latest is not None:
        raise UsageError("Both --limit and --latest were given", expected="one of the two")
    with model_folder(out, resume=resume, force=force, private=dp_epsilon is not None) as folder:
        trace = _part(_read(files, format, time_zone, processors, nodes, gpus), limit, latest)
        tell_what_is_missing(trace)
        if kind.notice:
            tell(kind.notice)
        privacy = privacy_of(trace, dp_epsilon, dp_delta)
        try:
            with steps(kind.step) as report:
                trained = kind.train(trace, named, Training(seed, privacy, folder / CHECKPOINT, report))
        except KeyboardInterrupt:
            tell_how_to_go_on(folder)
            raise
        trained.save(folder)
    if json:
        emit_json(training_document(out, trained))
    else:
        print_training(out, trained)


@app.command()
def sample(
    folder: ModelFolder,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FILE", help="The trace; its ending says the format.")
    ],
    jobs: Annotated[int | None, typer.Option("--jobs", help="How many jobs. [as many as were learned]")] = None,
    days: Annotated[float | None, typer.Option("--days", help="How many days, instead of how many jobs.")] = None,
    load: Annotated[
        float | None,
        typer.Option("--load", help="Offered load, like 0.8: users' days come closer together. [as it comes]"),
    ] = None,
    processors: Annotated[
        int | None, typer.Option("--processors", help="A machine of another size; jobs grow or shrink with it.")
    ] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", help="The same in nodes, for logs that count nodes.")
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option("--gpus", help="GPUs of the machine; jobs that use them grow or shrink with them."),
    ] = None,
    mix: Annotated[
        list[str] | None,
        typer.Option("--mix", metavar="CLASS=SHARE", help="The share of a class of jobs; may be repeated."),
    ] = None,
    after: Annotated[
        str | None, typer.Option("--after", metavar="FILE", help="Begin where this trace ends, and go on from it.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--start", metavar="DATE", help="When it begins, like 2026-01-05. [as the log]")
    ] = None,
    waits: Annotated[
        str, typer.Option("--waits", help="Run the jobs under this policy, like fcfs+easy, to get waits.")
    ] = NO_WAITS,
    copies: Annotated[
        float | None,
        typer.Option(
            "--copies", metavar="SHARE", help="Share of jobs that may be equal to many of the log. [0.01]"
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed, the same trace.")] = 0,
    to: Annotated[
        str | None, typer.Option("--to", help="Output format, if the ending of the file does not say it.")
    ] = None,
    json: Json = False,
) -> None:
    """Draw a trace from a trained model and write it as Parquet, SWF, JSON lines or CSV.

    Classes of --mix: serial (one processor), narrow (below 5 % of the machine), wide (5 to 25 %), huge (25 % or
    more), gpu (any GPU). Classes that are not named share the rest as in the log.

    The manifest of the trace says that it is synthetic, what made it and with which seed.

    Example: presage synth sample m --out s.parquet --jobs 20000 --load 0.8 --seed 1

    Example: presage synth sample m --out s.swf.gz --days 30 --processors 4096 --mix wide=0.2 --mix huge=0.05

    --after needs a model that remembers jobs: `sequence`. Its users go on from what they did last; any number of
    jobs will do. Other models only begin where these end. Of people whom the model does not know it says how many.

    Example: presage synth sample m --out next.parquet --after log.swf.gz --days 7 --waits fcfs+easy

    A job of `sequence` that is equal to one of the log, in user, request, outcome and run time, gets the nearest
    run time that no such job of the log has. At most 1 % of the jobs stay as they are, and only such as fifty or
    more of the log are equal to. With --copies 0 none of these stays, with --copies 1 all do, which is truer where
    users run the same again and again. A job also stays where the log has it with every run time that it may have.
    How many copies there are is told, and stands in the manifest. Models trained with --dp-epsilon, and all other
    kinds, do not know the log's jobs.
    """
    from presage.synthesizers import load_synthesizer
    from presage.synthesizers import sample as draw
    from presage.synthesizers.sampling import NO_NAMES
    from presage.traces.statistics import summarise

    writer = writer_for(out, to, wants_json=json)
    check_output([] if after is None else [after], out)
    policy = _policy_of_waits(waits)
    shares = _shares(mix)
    model = load_synthesizer(folder)
    request = _request(
        model, jobs=jobs, days=days, load=load, processors=processors, nodes=nodes, gpus=gpus, mix=shares,
        after=after, waits=policy, start_ms=None if start is None else _instant(start, model.source.time_zone),
        copies=copies, seed=seed,
    )  # fmt: skip
    total = None if days is not None else jobs if jobs is not None else model.source.jobs
    with progress("Drawing", total) as advance:
        trace = draw(model, request, progress=advance)
    writer.write(trace, Path(out))
    notes = [note for note in trace.manifest.notes if note != NO_NAMES]
    for note in notes:
        tell(f"{note[0].upper()}{note[1:]}")
    if json:
        told = {"output": out, "summary": summarise(trace).to_dict(), "generator": trace.manifest.generator}
        emit_json({**told, "notes": notes})
    elif out != "-":
        copies = trace.manifest.generator["copies"]
        again = "" if copies is None else f"; {copies:,} of them equal to one of the log"
        typer.echo(f"{out}: {counted(len(trace), 'job')} of {model.name}, seed {seed}{again}")


@app.command()
def report(
    real: Annotated[str, typer.Argument(metavar="REAL", help="The log that the model learned from.")],
    synthetic: Annotated[str, typer.Argument(metavar="SYNTH", help="A trace that `sample` wrote.")],
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="FILE", help="Write a page with pictures: report.html.")
    ] = None,
    later: Annotated[
        str | None,
        typer.Option("--later", metavar="FILE", help="Jobs of the same log that were not learned from."),
    ] = None,
    load: Annotated[
        float | None, typer.Option("--load", help="The load at which both are replayed. [the log's own]")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of what is drawn while measuring.")] = 0,
    processors: Processors = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Measure how true a synthetic trace is: columns, dependence, rhythm, queues, use, and what it gives away.

    With --later, the log's own later jobs are measured the same way: how different the log is from itself a while
    later is what a good synthetic trace may be, too.

    Example: presage synth report log.swf.gz s.parquet --out report.html

    Example: presage synth report first.parquet s.parquet --later second.parquet --json
    """
    from presage.cli._fidelity import print_report
    from presage.synthesizers.fidelity.report import report as compare
    from presage.traces.files import check_place

    if out is not None:
        check_place(Path(out))
        check_output([each for each in (real, synthetic, later) if each is not None], out)
    log = _read([real], format, time_zone, processors)
    made = read_files([synthetic], None, time_zone)
    held_out = None if later is None else _read([later], format, time_zone, processors)
    with steps("section") as advance:
        found = compare(log, made, held_out, seed=seed, load=load, progress=advance)
    if out is not None:
        from presage.synthesizers.fidelity.page import write_page

        write_page(found, log, made, Path(out))
    document = found.as_dict()
    if json:
        emit_json(document if out is None else {"output": out, **document})
        return
    print_report(document)
    if out is not None:
        typer.echo(f"Wrote {out}")


def _known_kinds() -> list[dict[str, Any]]:
    from presage.synthesizers import PRIVATE_KINDS, SYNTHESIZERS

    return [
        {
            "name": spec.name,
            "summary": spec.summary,
            "extra": spec.extra or None,
            "installed": not spec.extra or find_spec(spec.extra) is not None,
            "private": spec.name in PRIVATE_KINDS,
            "notice": _notice(spec),
        }
        for spec in SYNTHESIZERS.specs()
    ]


def _notice(spec: Spec) -> str | None:
    """Return what must be known of the licence of a kind, where it says so."""
    from presage.synthesizers import SYNTHESIZERS

    if spec.extra == "torch":  # importing it takes seconds, and the kinds that name it are ours
        return None
    with suppress(PresageError):
        return getattr(SYNTHESIZERS.get(spec.name), "notice", None) or None
    return None


def _list_settings(model: str, *, wants_json: bool) -> None:
    from presage.synthesizers import find_synthesizer
    from presage.traces.workloads._parameters import parameters_of

    known = parameters_of(find_synthesizer(model).settings_type)
    if wants_json:
        emit_json({name: {"default": each.default, "help": each.help} for name, each in known.items()})
        return
    rows = [(name, "" if each.default is None else str(each.default), each.help) for name, each in known.items()]
    print_table(f"Settings of {model}, for --set", ("setting", "default", "meaning"), rows)


def _read(
    files: list[str],
    format_name: str | None,
    time_zone: str | None,
    processors: int | None,
    nodes: int | None = None,
    gpus: int | None = None,
) -> Trace:
    """Return the log, on a machine of these sizes where they are given."""
    from dataclasses import replace

    trace = read_files(files, format_name, time_zone)
    given = {name: size for name, size in (("cpus", processors), ("nodes", nodes), ("gpus", gpus)) if size}
    machine = replace(trace.manifest.machine, **given)
    return replace(trace, manifest=replace(trace.manifest, machine=machine))


def _part(trace: Trace, limit: int | None, latest: int | None) -> Trace:
    if limit is not None:
        return trace.with_jobs(trace.jobs.head(limit))
    return trace if latest is None else trace.with_jobs(trace.jobs.tail(latest))


def _policy_of_waits(waits: str) -> str | None:
    if waits == NO_WAITS:
        return None
    from presage.policies import Policy
    from presage.simulator.requirements import require_numba

    Policy.parse(waits)
    require_numba()
    return waits


def _shares(mix: list[str] | None) -> dict[str, float]:
    shares = {}
    for name, text in pairs_in(mix, "--mix").items():
        try:
            shares[name] = float(text)
        except ValueError:
            raise UsageError(f"--mix {name}={text} is no share", expected="a number from 0 to 1") from None
    return shares


def _request(model: Synthesizer, *, after: str | None, **wanted: Any) -> Request:
    """Return what is wanted, checked before the trace to go on from is read."""
    from dataclasses import replace

    from presage.synthesizers import Request
    from presage.synthesizers.sampling import check_request

    request = Request(**wanted)
    check_request(model, request)
    return request if after is None else replace(request, after=read_files([after], None, None))


def _instant(text: str, time_zone: str | None) -> int:
    from zoneinfo import ZoneInfo

    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{text!r} is no date", expected="one like 2026-01-05 or 2026-01-05T08:00") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(time_zone or "UTC"))
    return round(moment.timestamp() * 1000)
