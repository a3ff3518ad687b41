"""`presage model`: forecasts of waits, run times and outcomes, and how the model behind them is made."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli._output import Json, duration, emit_json, names_in, print_table, progress, tell
from presage.cli._scenario import Processors
from presage.cli.trace import Files, Format, TimeZone, read_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from presage.foundation.evaluation import Evaluation
    from presage.foundation.forecasting import JobForecast, Quantiles, TraceForecast
    from presage.foundation.model import Model
    from presage.traces import Trace

app = typer.Typer(
    help="Forecast waits, run times and outcomes with a model that has seen many clusters.", no_args_is_help=True
)

ModelFile = Annotated[
    str | None,
    typer.Option("--model", "-m", help="A model file, or a folder that update keeps. [the one shipped]"),
]
FinetuningSteps = Annotated[
    int | None,
    typer.Option("--steps", min=5, help="Steps of training for each network. [300 for waits, 1000 for run times]"),
]
_ROWS_SHOWN = 40


@app.command()
def forecast(
    files: Files,
    new: Annotated[
        list[str] | None,
        typer.Option(
            "--ask",
            metavar="TEXT",
            help='A job that might be submitted: "user=ann, cpus=64, limit=2h"; repeatable.',
        ),
    ] = None,
    job_ids: Annotated[
        list[str] | None, typer.Option("--job", metavar="ID", help="Only this waiting or running job; repeatable.")
    ] = None,
    now: Annotated[
        str | None,
        typer.Option(
            "--now", metavar="TIME", help="When it is: now, a date, or 2d after the first submit. [latest]"
        ),
    ] = None,
    at_submit: Annotated[
        int | None,
        typer.Option("--at-submit", metavar="N", min=1, help="The last N jobs, each as it was submitted."),
    ] = None,
    calibrate: Annotated[
        bool, typer.Option(help="Widen or narrow intervals by how earlier forecasts on this log fared.")
    ] = True,
    processors: Processors = None,
    model: ModelFile = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Forecast when the jobs that wait will start, how long jobs will run, and how they will end.

    FILE is a log of any format with the jobs of the last days or weeks, waiting and running ones among them; the
    model needs no training on it. Where no job waits or runs, the last 100 are forecast as they were submitted.

    A second FILE may be the queue as squeue shows it: who runs and who waits is then taken from there, and what
    Slurm itself expects is told beside the forecast.

    With --ask, the question is what would happen to another job. Keys: cpus, nodes, gpus, limit, memory, user,
    group, account, queue, partition, qos, name, executable, gpu_type, and like=ID: all else as that job has it.

    Example: sacct -aPX -S now-14days -o ALL | presage model forecast - --json

    Example: squeue -a --json > queue.json && presage model forecast jobs.txt queue.json --now now

    Example: presage model forecast jobs.txt --ask "like=4711" --ask "like=4711, limit=2h, nodes=1"
    """
    from presage.foundation.forecasting import forecast as forecast_trace
    from presage.simulator.present import parse_instant

    loaded = load_model(model)
    trace = _read(files, format, time_zone, processors)
    result = forecast_trace(
        trace,
        loaded,
        now_ms=None if now is None else parse_instant(now, trace),
        new_jobs=new or (),
        job_ids=job_ids or (),
        at_submit=at_submit,
        calibrate=calibrate,
    )
    if json:
        emit_json(_as_document(result, loaded))
    else:
        _print_forecasts(result)


@app.command()
def evaluate(
    files: Files,
    baselines: Annotated[
        str | None,
        typer.Option(
            "--baselines",
            help="Compare with these, like state-knn,last-two,boosting; comma-separated. all: those that apply.",
        ),
    ] = None,
    boost_on: Annotated[
        list[str] | None,
        typer.Option(
            "--boost-on",
            metavar="FILE",
            help="Compare with boosting that was trained on this log of another cluster; repeatable.",
        ),
    ] = None,
    latest: Annotated[
        int, typer.Option("--latest", min=1, help="How many jobs of the log are used, from its end backwards.")
    ] = 50_000,
    processors: Processors = None,
    model: ModelFile = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Measure the model on a log: each job of the last fifth is forecast as it was submitted, then compared.

    Nothing is used before it was known. `log_mae` is the mean difference of the logarithms (base 10) of forecast
    and truth: 0.3 is a factor of 2. `coverage_80` is the share of jobs inside the 80 % interval.

    Baselines: requested, last-two, similar, state-knn, qbets, simulation, user-ema, boosting, boosting-refit.
    With all, those that have something to say about the log are measured: no waits where it has none, boosting
    only if it is installed. That may take minutes, most of them for simulation. With --boost-on there is one more:
    boosting-zero-shot, which has seen other clusters and not this one.

    Example: presage model evaluate log.swf.gz --baselines state-knn,boosting --json
    """
    from presage.foundation.evaluation import evaluate as evaluate_trace

    names = names_in(baselines, "--baselines")
    loaded = load_model(model)
    trace = _read(files, format, time_zone, processors)
    others = [read_files([path], None, None) for path in boost_on or ()]
    result = evaluate_trace(trace, loaded, baselines=names, boost_on=others, latest=latest)
    if json:
        emit_json({"model": loaded.version, **result.as_dict()})
    else:
        _print_evaluation(result, loaded.version)


@app.command()
def finetune(
    files: Files,
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="Where the new model is written.")],
    steps: FinetuningSteps = None,
    latest: Annotated[
        int, typer.Option("--latest", min=1, help="How many jobs of the log are used, from its end backwards.")
    ] = 50_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed, the same model.")] = 0,
    processors: Processors = None,
    model: ModelFile = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Let the model learn the ways of one cluster from its log, in minutes on a laptop. Needs torch.

    It trains on the first nine tenths of the jobs and is judged by the last. A network takes over only if it is
    better there; otherwise the new model keeps the old one.

    Example: presage model finetune jobs.txt --out ours.safetensors
    """
    from presage.foundation.requirements import require_torch
    from presage.traces.files import check_place

    require_torch()
    check_place(Path(out))
    from presage.foundation.training.adapting import adapt

    loaded = load_model(model)
    trace = _read(files, format, time_zone, processors)
    with progress("fine-tuning", 1.0) as advance:
        adapted = adapt(trace, loaded, steps=steps, latest=latest, seed=seed, on_progress=advance)
    adapted.model.save(out)
    if json:
        emit_json({"out": out, "model": adapted.model.version, **adapted.as_dict()})
        return
    for note in adapted.notes:
        tell(note)
    rows = [
        [task.value, f"{each.before:.3f}", f"{each.after:.3f}", "yes" if each.took_over else "no"]
        for task, each in adapted.tasks.items()
    ]
    print_table(f"Wrote {out}", ["task", "log MAE before", "after", "takes over"], rows)


@app.command()
def update(
    files: Files,
    store: Annotated[str, typer.Option("--store", metavar="DIR", help="The folder of this cluster's models.")],
    steps: FinetuningSteps = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the training.")] = 0,
    processors: Processors = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Fine-tune the model in use once more, and replace it only if the new one is better. Needs torch.

    Meant to be called with the latest log every night or week. Old and new are compared on the latest jobs, which
    neither has learnt from; the folder keeps what was tried and measured, drift and coverage included.

    Example: presage model update jobs.txt --store models && presage model forecast jobs.txt --model models
    """
    from presage.foundation.requirements import require_numba, require_torch
    from presage.foundation.store import ModelStore

    require_numba()
    require_torch()
    from presage.foundation.training.updating import update as update_store

    trace = _read(files, format, time_zone, processors)
    with progress("fine-tuning", 1.0) as advance:
        attempt = update_store(trace, ModelStore(store), steps=steps, seed=seed, on_progress=advance)
    if json:
        emit_json(asdict(attempt))
    else:
        tell(f"{attempt.version} {'takes over' if attempt.took_over else 'is left aside'}: {attempt.reason}")


@app.command()
def rollback(
    store: Annotated[str, typer.Argument(metavar="DIR", help="The folder of this cluster's models.")],
    json: Json = False,
) -> None:
    """Go back to the model that was in use before the present one.

    Example: presage model rollback models
    """
    from presage.foundation.store import ModelStore

    version = ModelStore(store).roll_back()
    if json:
        emit_json({"current": version})
    else:
        tell(f"In use is {version} again")


@app.command()
def pretrain(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Logs, each of a cluster of its own.")],
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="Where the model is written.")],
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of training for each network.")] = 1500,
    variants: Annotated[
        int, typer.Option("--variants", min=0, help="Simulated and stretched variants made of each log.")
    ] = 0,
    synthetic: Annotated[
        int,
        typer.Option("--synthetic", min=0, help="Variants of each log whose jobs are drawn by a synthesizer."),
    ] = 0,
    synthesizer: Annotated[
        str, typer.Option("--synthesizer", help="Which one; `presage synth list` shows them.")
    ] = "copula",
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Jobs of each log that are asked about.")] = 50_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed and logs, the same model.")] = 0,
    name: Annotated[str, typer.Option("--name", help="The version written into the model.")] = "own",
    folder: Annotated[
        str | None,
        typer.Option("--work", metavar="DIR", help="Keep the state here, and go on from it when called again."),
    ] = None,
    json: Json = False,
) -> None:
    """Train a model from nothing on the logs of many clusters, one file each. Needs torch.

    Under torchrun several processes train together. Interrupted with --work, the same call goes on.

    Variants are clusters that never were: the log's own jobs on other machines, under other policies and on other
    clocks, or with --synthetic other jobs like them. Half of the training is on variants, if there are any.

    Example: presage model pretrain logs/*.swf.gz --out model.safetensors --work state

    Example: torchrun --nproc-per-node 2 -m presage model pretrain logs/*.swf.gz --out model.safetensors
    """
    from presage.foundation.requirements import require_numba, require_torch
    from presage.traces.files import check_place

    require_numba()
    require_torch()
    check_place(Path(out))
    from presage.foundation.training.pretraining import Plan, pretrain_files

    plan = Plan.of(steps=steps, variants=variants, synthetic=synthetic, jobs=jobs, seed=seed)
    learn = _learner(synthesizer, seed) if synthetic else None
    work = None if folder is None else Path(folder)
    with _told() as report:
        model = pretrain_files(files, plan, folder=work, name=name, on_progress=report, learn=learn)
    if model is None:  # another process of the same training writes it
        return
    model.save(out)
    notes = model.about.get("notes", [])
    facts = {"out": out, "model": model.version, "trained_on": model.about["trained_on"], "notes": notes}
    if json:
        emit_json(facts)
    else:
        for note in notes:
            tell(note)
        tell(f"Wrote {out}, trained on {len(facts['trained_on'])} logs")


@app.command()
def card(model: ModelFile = None, json: Json = False) -> None:
    """Show where a model comes from: data and their terms, recipe, figures, calibration, and where it fails.

    Example: presage model card
    """
    from presage.foundation.card import card_of
    from presage.foundation.model import Model

    loaded = Model.load(model)
    if json:
        emit_json({"model": loaded.version, **loaded.about})
    else:
        typer.echo(card_of(loaded))


def _learner(name: str, seed: int) -> Callable[[Trace], Callable[[int, int], Trace]]:
    """Return what learns from a log to draw jobs like its own. Raises UnknownNameError."""
    from presage.synthesizers import Request, Training, find_synthesizer, sample

    kind = find_synthesizer(name)

    def learn(trace: Trace) -> Callable[[int, int], Trace]:
        trained = kind.train(trace, training=Training(seed=seed))
        return lambda jobs, drawn_by: sample(trained, Request(jobs=jobs, seed=drawn_by))

    return learn


@contextmanager
def _told() -> Iterator[Callable[[str, float], None]]:
    """Give a function that shows how much of the present stage is done, on a terminal only."""
    with progress("pre-training", 1.0) as advance:
        shown = 0.0

        def report(_what: str, share: float) -> None:
            nonlocal shown
            advance(share - shown)
            shown = share

        yield report


def load_model(path: str | None) -> Model:
    """Return a model file, the present one of a folder that `update` keeps, or the one shipped."""
    from presage.foundation.model import Model
    from presage.foundation.requirements import require_numba
    from presage.foundation.store import ModelStore

    require_numba()
    if path is not None and Path(path).is_dir():
        return ModelStore(path).current()
    return Model.load(path)


def _read(files: list[str], format_name: str | None, time_zone: str | None, processors: int | None) -> Trace:
    trace = read_files(files, format_name, time_zone)
    return trace if processors is None else trace.with_processors(processors)


def _as_document(result: TraceForecast, model: Model) -> dict[str, Any]:
    return {
        "model": model.version,
        "now_ms": result.now_ms,
        "interval_coverage_80": result.coverage,
        "notes": list(result.notes),
        "jobs": [job.as_dict() for job in result.jobs],
    }


def _print_forecasts(result: TraceForecast) -> None:
    for note in result.notes:
        tell(note)
    shown = result.jobs[:_ROWS_SHOWN]
    rows = [_forecast_row(job) for job in shown]
    columns = ["job", "stands", "wait", "10-90 %", "run", "10-90 %", "completes"]
    if any(job.scheduler_wait_s is not None for job in result.jobs):
        columns.append("its scheduler expects")
        rows = [[*row, _scheduler_cell(job)] for row, job in zip(rows, shown, strict=True)]
    print_table("", columns, rows)
    if len(result.jobs) > _ROWS_SHOWN:
        tell(f"… and {len(result.jobs) - _ROWS_SHOWN:,} more; --json has them all")


def _forecast_row(job: JobForecast) -> list[str]:
    completes = f"{job.outcome['completed']:.0%}" if job.outcome else ""
    return [job.job_id, job.stands, *_cells(job.wait_s), *_cells(job.run_s), completes]


def _scheduler_cell(job: JobForecast) -> str:
    return "" if job.scheduler_wait_s is None else duration(job.scheduler_wait_s)


def _cells(spread: Quantiles | None) -> tuple[str, str]:
    if spread is None:
        return "", ""
    return duration(spread.p50), f"{duration(spread.p10)} - {duration(spread.p90)}"


def _print_evaluation(result: Evaluation, version: str) -> None:
    for note in result.notes:
        tell(note)
    rows = []
    for name, assessed in ((version, result.model), *result.baselines.items()):
        figures = assessed.as_dict()
        keys = ("wait_log_mae", "wait_coverage_80", "run_log_mae", "run_coverage_80", "failure_auroc")
        rows.append([name, *("" if figures[key] is None else f"{figures[key]:.3f}" for key in keys)])
    print_table(
        "On the last fifth of the jobs",
        ["forecaster", "wait log MAE", "coverage", "run log MAE", "coverage", "AUROC"],
        rows,
    )
