"""`presage policy`: learned orders for a queue, how they are found, judged, explained and put to use."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli._output import Json, duration, emit_json, names_in, print_table, progress, tell
from presage.cli._scenario import Processors
from presage.cli.model import ModelFile
from presage.cli.trace import Files, Format, TimeZone, read_files
from presage.errors import UsageError

if TYPE_CHECKING:
    from presage.learning.cases import Case
    from presage.learning.evaluation import AnyPolicy
    from presage.learning.learned_policy import LearnedPolicy

app = typer.Typer(
    help="Order a queue by forecasts: learned policies, how good they are here, and what to change.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

_ROWS_SHOWN = 15
_SEARCH, _PPO = "Of the learner search", "Of the learner ppo"
Traces = Annotated[list[str], typer.Option("--trace", "-t", metavar="FILE", help="A log of any format.")]
PolicyName = Annotated[
    str,
    typer.Option(
        "--policy", "-p", help="default, index, look-ahead, a file of `train`, or a rule like saf or saf/A."
    ),
]
Split = Annotated[
    float, typer.Option("--split", min=0.05, max=0.95, help="The share of the log before the part that is judged.")
]
Finetune = Annotated[
    bool,
    typer.Option(
        "--finetune", help="Forecast by a model fine-tuned on the log itself, before that part. Needs torch."
    ),
]


@app.command()
def evaluate(
    trace: Traces,
    policy: PolicyName = "default",
    split: Split = 0.6,
    finetune: Finetune = False,
    high_load: Annotated[
        bool, typer.Option("--high-load", help="Let jobs come so fast that the load of that part is 0.9.")
    ] = False,
    watch: Annotated[
        bool, typer.Option(help="Let the policy go by requests while forecasts would have done worse.")
    ] = True,
    processors: Processors = None,
    model: ModelFile = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Judge a policy on the last part of a log, beside the best safe rule that the part before it would pick.

    Every job is forecast as it was submitted; jobs end at their limits, and reservations go by requests. A rule is
    safe if nobody waits much longer under it than in the order of arrival. `ratio_to_best_static` is below 1 where
    the policy has the lower mean bounded slowdown; `ci95` is its interval over blocks of 1024 jobs.

    Example: presage policy evaluate --policy default --trace log.swf.gz --split 0.6 --json

    Example: presage policy evaluate --policy default --trace log.swf.gz --finetune
    """
    from presage.learning.evaluation import evaluate_policy

    chosen = _policy(policy, watch=watch)
    before, test = _parts(trace, split, processors, model, format, time_zone, finetune=finetune)
    document = evaluate_policy(chosen, before, test, high_load=high_load).as_dict()
    if json:
        emit_json(document)
    else:
        _print_evaluation(document)


@app.command()
def compare(
    trace: Traces,
    policies: Annotated[
        str, typer.Option("--policies", help="What to compare, like default,index,saf/A,fcfs; comma-separated.")
    ] = "default,index,lxf/A,saf/A,sjf,fcfs",
    split: Split = 0.6,
    finetune: Finetune = False,
    processors: Processors = None,
    model: ModelFile = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Run several policies on the last part of a log, the first of them being what the others are measured by.

    Example: presage policy compare --trace log.swf.gz --policies fcfs,default,saf/A,lxf
    """
    from presage.learning.evaluation import Schedule
    from presage.learning.outcomes import ratio_of

    chosen = [_policy(name) for name in names_in(policies, "--policies")]
    _, test = _parts(trace, split, processors, model, format, time_zone, finetune=finetune)
    schedules = []
    with progress("simulating", len(chosen)) as advance:
        for each in chosen:
            schedules.append(Schedule.of(test, each))
            advance(1)
    rows: list[dict[str, Any]] = []
    for schedule in schedules:
        ratio, interval = ratio_of(schedule.outcome, schedules[0].outcome)
        metrics = schedule.metrics
        rows.append(
            {
                "policy": schedule.name, "mean_bounded_slowdown": metrics.mean_bounded_slowdown,
                "ratio_to_first": ratio, "ci95": list(interval), "mean_wait_s": metrics.mean_wait_s,
                "p99_wait_s": metrics.p99_wait_s, "max_wait_s": metrics.max_wait_s,
                "mean_response_s": metrics.mean_response_s, "utilization": metrics.utilization,
            }
        )  # fmt: skip
    if json:
        emit_json({"jobs": len(test), "load": test.load, "policies": rows})
        return
    print_table(
        f"{len(test):,} jobs at a load of {test.load:.2f}",
        ["policy", "bounded slowdown", "ratio", "95 % interval", "mean wait", "p99 wait", "longest wait"],
        [
            [
                row["policy"], f"{row['mean_bounded_slowdown']:.2f}", f"{row['ratio_to_first']:.3f}",
                _interval(row["ci95"]), duration(row["mean_wait_s"]), duration(row["p99_wait_s"]),
                duration(row["max_wait_s"]),
            ]
            for row in rows
        ],
    )  # fmt: skip


@app.command()
def train(
    context: typer.Context,
    trace: Traces,
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="FILE", help="Where the policy is written.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="DIR", help="Propose it here: it takes over only if it is surely better."),
    ] = None,
    learner: Annotated[
        str, typer.Option("--learner", help="search (evolution) or ppo (reinforcement learning).")
    ] = "search",
    kind: Annotated[
        str | None,
        typer.Option("--kind", help="linear, mlp or attention. [search: that of its begin, ppo: attention]"),
    ] = None,
    begin_as: Annotated[
        str | None,
        typer.Option(
            "--begin-as", help="Where it begins: index, default, a file. [with --store: in use there, else index]"
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed, the same policy.")] = 0,
    split: Split = 0.6,
    log_dir: Annotated[
        str | None, typer.Option("--log-dir", metavar="DIR", help="Write the curve here, for TensorBoard.")
    ] = None,
    generations: Annotated[
        int, typer.Option("--generations", min=1, help="How long to search.", rich_help_panel=_SEARCH)
    ] = 30,
    population: Annotated[
        int,
        typer.Option("--population", min=4, help="Candidates of each generation.", rich_help_panel=_SEARCH),
    ] = 12,
    fairness: Annotated[
        float,
        typer.Option("--fairness", min=0, help="The price of unfairness to users.", rich_help_panel=_SEARCH),
    ] = 0.0,
    journal: Annotated[
        str | None,
        typer.Option(
            "--journal",
            metavar="FILE",
            help="Write every generation here, and go on from its last.",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    starts: Annotated[
        int,
        typer.Option(
            "--starts", min=1, help="Search so often with other seeds, and take the best.", rich_help_panel=_SEARCH
        ),
    ] = 1,
    engine: Annotated[
        str,
        typer.Option("--engine", help="Where the starts run: local, ray or serial.", rich_help_panel=_SEARCH),
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, help="Starts, or candidates of the only one, at once.", rich_help_panel=_SEARCH
        ),
    ] = None,
    decisions: Annotated[
        int, typer.Option("--decisions", min=1, help="How long to learn.", rich_help_panel=_PPO)
    ] = 100_000,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            "--checkpoints",
            metavar="DIR",
            help="Write every round here, and go on from its last.",
            rich_help_panel=_PPO,
        ),
    ] = None,
    processors: Processors = None,
    model: ModelFile = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Learn a policy on the first part of a log, at three loads.

    It begins at the fixed index, or with --store at the policy in use there, which it goes on from. A search
    simulates whole runs with each of its candidates. With --learner ppo a network that begins as the same plays
    windows of the log, and learns from what its choices came to; what is kept is the round that did best in whole
    runs. Ctrl-C ends either with what it has found so far, several starts with the best of those that are done;
    with --journal (search) or --checkpoints (ppo) the same call goes on where it was cut off. PPO needs the extra
    `rl`; the policy does not.

    Example: presage policy train --trace log.swf.gz --out ours.safetensors --journal ours.jsonl

    Example: presage policy train --learner ppo --trace log.swf.gz --out ours.safetensors --checkpoints ours

    Example: presage policy evaluate --policy ours.safetensors --trace log.swf.gz
    """
    from presage.cli._policy_training import by_ppo, by_search, check_learner, check_ppo, kind_for, log_in
    from presage.fanout import check_engine
    from presage.learning.event_files import make_folder
    from presage.learning.learned_policy import LearnedPolicy
    from presage.learning.recommendation import WEEKS, latest_weeks
    from presage.learning.search import Search, require_cma
    from presage.learning.static_rules import HIGH_LOAD
    from presage.traces.files import check_place

    if (out is None) == (store is None):
        raise UsageError("The policy must go somewhere", expected="either --out FILE or --store DIR")
    check_learner(context, learner)
    begin = _beginning(begin_as, store)
    kind = kind_for(learner, kind, begin)
    if starts > 1 and (journal or log_dir):
        option = "--journal" if journal else "--log-dir"
        raise UsageError(f"{option} is of one search", remedy=f"Leave out {option}, or --starts")
    # Before hours of work: what they come to must have a place.
    for file in (out, journal):
        if file is not None:
            check_place(Path(file))
    for folder in (store, checkpoints):
        if folder is not None:
            make_folder(Path(folder))
    if learner == "ppo":
        check_ppo(kind, begin)
    else:
        check_engine(engine)
        require_cma()
    log = log_in(log_dir)
    before, after = _parts(trace, split, processors, model, format, time_zone)
    if store is not None:
        latest_weeks(after, WEEKS)  # there must be enough to judge by
    cases = [before, before.at_load(0.75), before.at_load(HIGH_LOAD)]
    if learner == "ppo":
        found = by_ppo(cases, kind, begin, decisions=decisions, seed=seed, checkpoints=checkpoints, log=log)
    else:
        search = Search(
            kind, max(Search.units, len(begin.scorer.out)), generations=generations, population=population,
            fairness=fairness, seed=seed,
        )  # fmt: skip
        found = by_search(
            cases, search, begin, starts=starts, engine=engine, workers=workers, journal=journal, log=log
        )
    learned = LearnedPolicy(Path(out or before.name).stem, found.scorer, found.guard, about=found.about)
    for note in found.notes:
        tell(note)
    document = found.about | found.story
    told = _put(learned, after, out, store, document)
    if json:
        emit_json(document)
    else:
        tell(told)


def _beginning(begin_as: str | None, store: str | None) -> LearnedPolicy:
    """Return the policy to begin at, named by its place: by default the one in use in the store, or the index."""
    from dataclasses import replace

    from presage.learning.recommendation import PolicyStore

    if begin_as is not None or store is None:
        return _learned(begin_as or "index")
    kept = PolicyStore(store)
    return replace(kept.current(), name=f"{store}/{kept.current_version()}")


def _put(learned: LearnedPolicy, after: Case, out: str | None, store: str | None, document: dict[str, Any]) -> str:
    """Write a policy or propose it; say so, and add it to the document."""
    from presage.learning.recommendation import PolicyStore

    if out is not None:
        learned.save(out)
        document["out"] = out
        return f"Wrote {out}"
    attempt = PolicyStore(str(store)).propose(learned, after)
    document["attempt"] = asdict(attempt)
    return f"{attempt.version} {'takes over' if attempt.took_over else 'is left aside'}: {attempt.reason}"


@app.command()
def rollback(
    store: Annotated[str, typer.Argument(metavar="DIR", help="The folder of this cluster's policies.")],
    json: Json = False,
) -> None:
    """Go back to the policy that was in use before the present one.

    Example: presage policy rollback policies
    """
    from presage.learning.recommendation import PolicyStore

    version = PolicyStore(store).roll_back()
    if json:
        emit_json({"current": version})
    else:
        tell(f"In use is {version} again")


@app.command()
def recommend(
    files: Files,
    present: Annotated[
        str, typer.Option("--present", help="What the site uses now: fcfs, a rule like saf/A, or a policy.")
    ] = "fcfs",
    candidates: Annotated[
        str | None,
        typer.Option("--candidates", help="What it might use instead, like default,saf/A. [all rules, default]"),
    ] = None,
    weeks: Annotated[float, typer.Option("--weeks", min=0.1, help="How many of the latest weeks count.")] = 8.0,
    processors: Processors = None,
    model: ModelFile = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Say what to change: each candidate is run on the latest weeks beside the policy in use, and on those before.

    A change is recommended only if it is surely better (the 95 % interval of its ratio lies below 1), nobody waits
    much longer than in line, and it was not worse in the weeks before.

    Example: presage policy recommend log.swf.gz --present fcfs --weeks 8
    """
    from presage.learning.recommendation import recommend as recommend_for

    names = names_in(candidates, "--candidates")
    chosen = [_policy(name) for name in names] if names else None
    case = _case(files, 0.3, processors, model, format, time_zone)
    with progress("simulating", None) as advance:
        told = recommend_for(
            case, present=_policy(present), candidates=chosen, weeks=weeks, progress=lambda: advance(1)
        )
    if json:
        emit_json(told.as_dict())
        return
    typer.echo(told.says)
    standings = sorted(told.latest.standings, key=lambda each: each.ratio)[:_ROWS_SHOWN]
    print_table(
        f"The latest weeks, beside {told.present}",
        ["candidate", "bounded slowdown", "ratio", "95 % interval", "safe"],
        [
            [
                each.name, f"{each.mean_bounded_slowdown:.2f}", f"{each.ratio:.3f}",
                _interval([each.low, each.high]), "yes" if each.safe else "no",
            ]
            for each in standings
        ],
    )  # fmt: skip


@app.command()
def explain(
    policy: PolicyName = "default",
    trace: Annotated[
        list[str] | None,
        typer.Option(
            "--trace", "-t", metavar="FILE", help="Find a short formula for it on this log, and its loss."
        ),
    ] = None,
    processors: Processors = None,
    model: ModelFile = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Say what a policy looks at, how much each thing moves a job, and where the policy comes from.

    With --trace, also the short formula that orders queues of that log most alike: r is the expected run, t the
    typical one, q the requested one, p the processors, w the wait. The formula is found on the first half of the
    log, and what it loses is measured on the second.

    Example: presage policy explain --policy default --trace log.swf.gz
    """
    from presage.learning.distillation import distil_formula
    from presage.learning.explanation import explain_policy

    learned = _learned(policy)
    explained = explain_policy(learned)
    formula = None
    if trace:
        case = _case(trace, 0.3, processors, model, format, time_zone)
        formula = distil_formula(learned, [case.between(0, 0.5)], judged_on=[case.between(0.5, 1)])
    if json:
        emit_json(explained.as_dict() | ({} if formula is None else {"formula": formula.as_dict()}))
        return
    typer.echo(explained.says)
    rows = [[each.name, f"{each.weight:+.3f}", each.means] for each in explained.terms]
    print_table("What moves a job", ["reads", "weight", "so that"], rows)
    if formula is not None:
        typer.echo(
            f"{formula.formula}: bounded slowdown {formula.ratio:.3f} of the policy's own, the lowest first"
        )


@app.command()
def export(
    out: Annotated[str, typer.Argument(metavar="OUT", help="A .safetensors, .json or .conf file.")],
    policy: PolicyName = "default",
    trace: Annotated[
        list[str] | None, typer.Option("--trace", "-t", metavar="FILE", help="A log to fit Slurm's weights on.")
    ] = None,
    processors: Processors = None,
    model: ModelFile = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Write a policy: .safetensors to use it elsewhere, .json to read it, .conf for Slurm's own priorities.

    Slurm's multifactor priorities can only come close. They are fitted on the first half of a log, and what they
    lose is measured on the second.

    Example: presage policy export policy.json --policy default

    Example: presage policy export priorities.conf --policy default --trace log.swf.gz
    """
    from presage.learning.explanation import policy_document
    from presage.traces.files import check_place, replacing

    learned, path = _learned(policy), Path(out)
    check_place(path)
    document: dict[str, Any] = {"out": out, "policy": learned.name}
    if path.suffix == ".safetensors":
        learned.save(path)
    elif path.suffix == ".json":
        import json as formats

        with replacing(path) as partial:
            partial.write_text(formats.dumps(policy_document(learned), indent=2) + "\n")
    elif path.suffix == ".conf":
        from presage.learning.distillation import slurm_weights

        if not trace:
            raise UsageError("Slurm's weights are fitted on a log", remedy="Name one with --trace")
        case = _case(trace, 0.3, processors, model, format, time_zone)
        weights = slurm_weights(learned, [case.between(0, 0.5)], judged_on=[case.between(0.5, 1)])
        with replacing(path) as partial:
            partial.write_text("\n".join(weights.lines()) + "\n")
        document |= weights.as_dict()
    else:
        raise UsageError(
            f"A policy cannot be written as {path.suffix or path.name!r}",
            expected=".safetensors, .json or .conf",
        )
    if json:
        emit_json(document)
    else:
        loss = f", bounded slowdown {document['ratio']:.3f} of the policy's own" if "ratio" in document else ""
        tell(f"Wrote {out}{loss}")


def _learned(name: str) -> LearnedPolicy:
    from presage.learning.learned_policy import LearnedPolicy
    from presage.learning.naming import policy_named

    chosen = policy_named(name)
    if not isinstance(chosen, LearnedPolicy):
        raise UsageError(
            f"{name} is no learned policy but a rule, or orders that are compared",
            remedy="`presage policies list` explains rules",
        )
    return chosen


def _policy(name: str, *, watch: bool = True) -> AnyPolicy:
    from dataclasses import replace

    from presage.foundation.requirements import require_numba
    from presage.learning.learned_policy import LearnedPolicy
    from presage.learning.naming import policy_named

    require_numba()
    chosen = policy_named(name)
    return replace(chosen, watches=chosen.watches and watch) if isinstance(chosen, LearnedPolicy) else chosen


def _parts(
    files: list[str],
    split: float,
    processors: int | None,
    model: str | None,
    format_name: str | None,
    time_zone: str | None,
    *,
    finetune: bool = False,
) -> tuple[Case, Case]:
    """Return the parts of a log before and behind the split; what lies far before it is only remembered.

    With `finetune`, each part is forecast by a model that was fine-tuned on what was known when it began.
    """
    from presage.learning.evaluation import split_case

    first = split / 2
    relearn_at = (first, split) if finetune else ()
    case = _case(files, first, processors, model, format_name, time_zone, relearn_at)
    return split_case(case, split, first)


def _case(
    files: list[str],
    first: float,
    processors: int | None,
    model: str | None,
    format_name: str | None,
    time_zone: str | None,
    relearn_at: tuple[float, ...] = (),
) -> Case:
    from presage.cli._cases import forecast_case
    from presage.cli.model import load_model
    from presage.traces.cleaning import clean

    forecaster = load_model(model)
    trace = read_files(files, format_name, time_zone)
    trace = clean(trace if processors is None else trace.with_processors(processors), ["learning"])
    return forecast_case(trace, forecaster, processors=processors, first=first, relearn_at=relearn_at)


def _interval(ends: list[float | None]) -> str:
    low, high = ends
    return "" if low is None or high is None else f"{low:.2f} to {high:.2f}"


def _print_evaluation(document: dict[str, Any]) -> None:
    rule = document["best_static"]
    rows = [
        [label, *(_shown(key, each[key]) for each in (document, rule))]
        for label, key in (
            ("mean bounded slowdown", "mean_bounded_slowdown"), ("mean wait", "mean_wait_s"),
            ("p99 wait", "p99_wait_s"), ("longest wait", "max_wait_s"), ("mean response", "mean_response_s"),
            ("utilization", "utilization"),
        )
    ]  # fmt: skip
    title = (
        f"{document['jobs']:,} jobs at a load of {document['load']:.2f}: {document['ratio_to_best_static']:.3f} "
        f"of the bounded slowdown of {rule['rule']} ({_interval(document['ci95']) or 'no interval'})"
    )
    print_table(title, ["", document["policy"], rule["rule"]], rows)


def _shown(key: str, value: float) -> str:
    return duration(value) if key.endswith("_s") else f"{value:.3f}"
