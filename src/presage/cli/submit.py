"""`presage submit`: hand a batch script over, after saying what its own past would change of its requests."""

from __future__ import annotations

import os
import sys
import uuid
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli._managed import hand_over, parse_elastic, plan_order, script_order
from presage.cli._output import Json, emit_json, print_table, tell
from presage.cli._requests import Days, HistoryFiles, On, QueueDays
from presage.errors import UsageError

if TYPE_CHECKING:
    from presage.connectors._base import Connector, Submission
    from presage.estimators._base import Estimate
    from presage.estimators.advice import Advice
    from presage.estimators.scripts import Asked, Script
    from presage.estimators.workloads import ScriptWorkload, Target
    from presage.planner.plan import Plan
    from presage.traces import Trace

OWN_OPTIONS = {
    "--yes",
    "--keep",
    "--dry-run",
    "--json",
    "--history",
    "--on",
    "--days",
    "--queue-days",
    "--help",
    "--managed",
    "--follow",
    "--also",
    "--elastic",
}
REFUSED = {"wrap", "test-only", "wait", "help", "usage", "version", "parsable", "comment"}
"""Options of sbatch after which it does not do, or does not say, what is counted on here."""


PLAN_SUFFIX = ".json"


class _Answer(StrEnum):
    CHANGE = "y"
    KEEP = "n"
    LEAVE = "q"


def submit(
    call: Annotated[
        list[str],
        typer.Argument(
            metavar="SCRIPT [ARGS]... [-- SBATCH OPTIONS]",
            help="A batch script with its arguments, or a plan of `presage plan`; behind the last --: for sbatch.",
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Make the changes that are advised.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Submit as it is, and only say what is advised.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what is advised, and submit nothing.")] = False,
    history: HistoryFiles = None,
    days: Days = 90,
    queue_days: QueueDays = 2,
    on: On = "slurm",
    managed: Annotated[
        bool,
        typer.Option(
            "--managed", help="Hand it to the plane, which brings it to its end past limits and failures."
        ),
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="With --managed: tell what happens until it ends.")
    ] = False,
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also", metavar="PARTITION", help="With --managed: it may run there, too. May be given many times."
        ),
    ] = None,
    elastic: Annotated[
        str | None,
        typer.Option(
            "--elastic",
            metavar="LEAST:MOST[:UNIT]",
            help="With --managed: as many nodes (or cores, or gpus) as pay, by what is measured.",
        ),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Arguments that look like options of this command are the script's.")
    ] = False,
    json: Json = False,
) -> None:
    """Submit a batch script with requests that fit it.

    Reads what the script asks for and what its earlier runs took, says which limit and how much memory would do
    and what that would do to the wait, asks, and submits. Nothing is changed without a yes, nothing is asked for
    that the partition would refuse, and no server or database is needed. Options stand before SCRIPT.

    Example: presage submit train.sbatch --epochs 50

    Of a plan the first job is submitted, as planned. With --managed the plane takes a plan or a script over: it
    submits, watches, goes on from checkpoints past the limit, and tries again after failures.

    Example: presage submit --managed --follow plan.json

    Example: presage submit --managed --also long --also preempt --elastic 1:8 train.sbatch

    Example: presage submit --dry-run --history sacct.txt train.sbatch

    Example: presage submit --yes train.sbatch data.csv -- --nice=100 --begin=now+1hour
    """
    from presage.cli._requests import connect, discovered, place_of, read_history, user_name, with_machine
    from presage.estimators import Knowledge
    from presage.estimators.advice import advise
    from presage.estimators.scripts import read_script

    if yes + keep + dry_run > 1:
        raise UsageError("--yes, --keep and --dry-run exclude each other", expected="at most one of them")
    if follow and not managed:
        raise UsageError("--follow is about jobs that are --managed", remedy="`presage watch` follows any other")
    if (also or elastic) and not managed:
        raise UsageError("--also and --elastic are about jobs that are --managed")
    workers = None if elastic is None else parse_elastic(elastic)
    path, arguments, options = _split(call, raw=raw)
    if managed and options:
        raise UsageError(f"{options[0]!r} would be lost: the plane submits", remedy="Write it into the script")
    if Path(path).suffix == PLAN_SUFFIX and managed and not dry_run:
        if also:
            raise UsageError("A plan says itself where it may run", remedy="Leave out --also")
        hand_over(replace(plan_order(Path(path)), elastic=workers), follow=follow, json=json)
        return
    if Path(path).suffix == PLAN_SUFFIX:
        _submit_plan(Path(path), arguments, options, on=on, dry_run=dry_run, json=json)
        return
    script = read_script(path, arguments, environment=os.environ if on == "slurm" else None, options=options)
    check_options(options)
    connector = connect(on)
    system, notes = discovered(connector)
    place = place_of(system, script.asked)
    trace, missing = read_history(connector, history, days, queue_days, managed_on=on)
    workload = script.workload(user=user_name(), folder=Path.cwd())
    knowledge = Knowledge(history=with_machine(trace, system), live=None if history else connector)
    advice = advise(workload, script.asked, place.target, knowledge, place.limits)
    notes = [*notes, *missing, *advice.notes]
    if not json:
        _print(script, advice, notes)
    answer = _decide(advice, yes=yes, keep=keep, dry_run=dry_run)
    if managed and answer is not _Answer.LEAVE:
        chosen = advice if answer is _Answer.CHANGE else None
        predictions = _predictions(advice, workload, place.target)
        order = script_order(script, chosen, on, also or ())
        hand_over(replace(order, elastic=workers, predictions=predictions), follow=follow, json=json)
        return
    submission = make_submission(script, workload, advice if answer is _Answer.CHANGE else None, options, on=on)
    job_id = None if answer is _Answer.LEAVE else _hand_over(connector, submission)
    if job_id is not None:
        _remember(advice, workload, place.target, submission.key, trace)
    if json:
        emit_json(_document(script, workload, advice, notes, answer, job_id))
    elif job_id is not None:
        typer.echo(f"Submitted job {job_id}")


def _predictions(advice: Advice, workload: ScriptWorkload, target: Target) -> tuple[dict[str, Any], ...]:
    """Return what is predicted of a script, to be settled when it has ended."""
    from presage.estimators.repository.carrying import write_predictions

    made = (advice.walltime, advice.memory, advice.changed_wait or advice.wait.first)
    return write_predictions(workload, target, made)


def _submit_plan(
    path: Path, arguments: list[str], options: list[str], *, on: str, dry_run: bool, json: bool
) -> None:
    """Submit the first job of a plan: it has been weighed already, so that nothing is advised."""
    from presage.cli._requests import connect, user_name
    from presage.estimators.scripts import Script, asked_by, directives_in
    from presage.planner.plan import read_plan
    from presage.planner.scripts import write_sbatch
    from presage.units import spell_seconds

    if arguments:
        raise UsageError(
            f"{arguments[0]!r} is no part of a plan", remedy="Name the command with `presage plan --run`"
        )
    check_options(options)
    plan = read_plan(path)
    leg = plan.legs[0]
    if leg.scheduler.value != on:
        raise UsageError(
            f"The plan begins on {leg.place}, where {leg.scheduler.value} starts jobs, and not {on}",
            remedy=f"Say --on {leg.scheduler.value}, where that is",
        )
    text = write_sbatch(plan, leg)
    _check_not_done(plan)
    directives = directives_in(text)
    script = Script(str(path), text, (), directives, asked_by(directives))
    workload = script.workload(user=user_name(), folder=Path.cwd())
    submission = make_submission(script, workload, None, options, on=on)
    job_id = None if dry_run else _hand_over(connect(on), submission)
    if json:
        emit_json(
            {"plan": str(path), "leg": leg.number, "legs": len(plan.legs), "place": leg.place, "job_id": job_id}
        )
        return
    typer.echo(
        f"{plan.name}: job 1 of {len(plan.legs)}, on {leg.place} for {spell_seconds(leg.walltime_s)} at most"
    )
    if job_id is not None:
        typer.echo(f"Submitted job {job_id}")


def _check_not_done(plan: Plan) -> None:
    """Raise UsageError if a run of that name has ended here: its jobs would find nothing left to do."""
    from presage.planner.scripts import DONE, run_folder

    folder = run_folder(plan)
    if (folder / DONE).exists():
        raise UsageError(
            f"The run in {folder} is done already",
            remedy="To begin anew, remove that folder, or plan it with another --name",
        )


def make_submission(
    script: Script, workload: ScriptWorkload, advice: Advice | None, options: list[str], *, on: str
) -> Submission:
    """Return the job to hand over, with the changes of `advice` and the stamp that finds it again."""
    from presage.connectors._base import Submission
    from presage.estimators.scripts import stamp_of, with_stamp

    walltime_s = advice.after("time") if advice else None
    memory = advice.after("mem") if advice else None
    changed = {change.option for change in advice.changes} if advice else set()
    passed = _without(options, changed)
    sizes = {} if on == "slurm" else _sizes(script.asked)
    if walltime_s is not None:
        sizes["walltime_s"] = walltime_s
    if memory is not None and (on != "slurm" or script.asked.memory_option == "mem"):
        sizes["memory_bytes"] = round(memory)
    elif memory is not None:
        passed += (_memory_option(script.asked, memory),)
    return Submission(
        key=uuid.uuid4().hex,
        name=workload.name,
        script=script.text,
        arguments=script.arguments,
        working_directory=str(Path.cwd()),
        comment=with_stamp(script.asked.comment, stamp_of(workload)),
        options=passed,
        **sizes,
    )


def _split(call: list[str], *, raw: bool) -> tuple[str, list[str], list[str]]:
    """Return the script, its arguments, and the options behind the last `--`."""
    last = len(call) - 1 - call[::-1].index("--") if "--" in call else len(call)
    words, options = call[:last], call[last + 1 :]
    if not words:
        raise UsageError("No script is named", expected="presage submit SCRIPT [ARGS]... [-- SBATCH OPTIONS]")
    own = [word for word in words[1:] if word.partition("=")[0] in OWN_OPTIONS]
    if own and not raw:
        raise UsageError(
            f"{own[0]} stands behind the script and would be its argument",
            expected="options of this command before the script",
            remedy=f"Put it before {words[0]}, or say --raw if the script is to have it",
        )
    return words[0], words[1:], options


def check_options(options: list[str]) -> None:
    """Raise UsageError for options behind -- that cannot be passed on to sbatch."""
    from presage.estimators._options import parse_options

    for given in parse_options(options):
        if not given.text.startswith("-"):
            raise UsageError(
                f"{given.text!r} is no option of sbatch", expected="options behind --, and arguments before it"
            )
        if given.option in REFUSED:
            raise UsageError(f"--{given.option} cannot be passed on", remedy="Use sbatch itself for that")


def _without(options: list[str], changed: set[str]) -> tuple[str, ...]:
    """Return the options without those that were changed: the last one on a command line would win."""
    from presage.estimators._options import parse_options

    if not changed:
        return tuple(options)
    dropped = changed | ({"mem-per-cpu", "mem-per-gpu"} if "mem" in changed else set())
    kept = [each for each in parse_options(options) if each.option not in dropped]
    return tuple(f"--{each.option}" if each.value is None else f"--{each.option}={each.value}" for each in kept)


def _memory_option(asked: Asked, amount: float) -> str:
    """Return the option of a changed memory; sbatch takes no other one than the script's own."""
    share = asked.share
    parts = share.cores if asked.memory_option == "mem-per-cpu" else max(1, share.gpus)
    return f"--{asked.memory_option}={-(-round(amount) // (parts << 20))}M"


def _sizes(asked: Asked) -> dict[str, Any]:
    """Return what a script asks for, for clusters that do not read its directives."""
    share = asked.share
    finite_s = asked.walltime_s if asked.walltime_s not in (None, float("inf")) else None
    return {
        "nodes": share.nodes, "cores_per_node": share.cores, "gpus_per_node": share.gpus or None,
        "memory_bytes": share.memory_bytes, "walltime_s": finite_s,
    }  # fmt: skip


def _decide(advice: Advice, *, yes: bool, keep: bool, dry_run: bool) -> _Answer:
    """Return what to do; a person is asked only on a terminal, and nobody means nothing is changed."""
    if dry_run:
        return _Answer.LEAVE
    if yes and advice.changes:
        return _Answer.CHANGE
    if yes or keep or not advice.changes:
        return _Answer.KEEP
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        tell("Submitted as it is: nobody is here to ask, and --yes was not said")
        return _Answer.KEEP
    words = "Change it and submit (y), submit it as it is (n), or do not submit (q)?"
    while True:
        given = typer.prompt(words, default=_Answer.LEAVE.value, err=True).strip().lower()[:1]
        if given in list(_Answer):
            return _Answer(given)


def _hand_over(connector: Connector, submission: Submission) -> str:
    """Submit; after no answer, look for the job before saying that there is none."""
    from presage.errors import ClusterTimeoutError, ClusterUnreachableError, ConnectorError

    try:
        return connector.submit(submission)
    except (ClusterTimeoutError, ClusterUnreachableError):
        try:
            found = connector.find(submission.key)
        except ConnectorError:
            found = None
        if found is None:
            raise
        return found


def _remember(advice: Advice, workload: ScriptWorkload, target: Target, key: str, trace: Trace | None) -> None:
    """Store what was predicted, and what became of earlier predictions; a submission never fails by it."""
    from presage.errors import PresageError
    from presage.estimators._base import EstimateRequest
    from presage.estimators.repository import Predictions, settle_predictions

    try:
        predictions = Predictions()
        for made in (advice.walltime, advice.memory, advice.changed_wait or advice.wait.first):
            if made is not None:
                predictions.store(EstimateRequest(made.quantity, workload, target), made, job_key=key)
        if trace is not None:
            settle_predictions(trace, predictions)
    except PresageError as error:
        tell(f"What was predicted is not kept: {error.problem}")


def _print(script: Script, advice: Advice, notes: list[str]) -> None:
    rows = [
        _row("run time", advice.walltime, is_time=True),
        _row("memory of a node", advice.memory, is_time=False),
    ]
    rows += [_row(f"wait, {each.estimator}", each, is_time=True) for each in advice.wait.answers]
    before = advice.wait.first
    if advice.changed_wait is not None and before is not None and advice.changed_wait.spread != before.spread:
        rows.append(_row("wait, if changed", advice.changed_wait, is_time=True))
    rows = [row for row in rows if row]
    if rows:
        print_table(_shown(script.path), ("what", "median", "80 % of cases", "from"), rows)
    for change in advice.changes:
        typer.echo(f"Would change {change}")
    if not advice.changes:
        typer.echo("Nothing to change")
    for note in dict.fromkeys(notes):
        tell(note)


def _shown(text: str) -> str:
    """Return a word as it can be printed: bytes that are no text, which a file's name may have, as a mark."""
    return os.fsencode(text).decode("utf-8", "replace")


def _row(what: str, estimate: Estimate | None, *, is_time: bool) -> tuple[str, ...]:
    from presage.units import format_bytes, spell_seconds

    if estimate is None:
        return ()
    words = spell_seconds if is_time else format_bytes
    spread = estimate.spread
    why = estimate.notes[0] if estimate.notes else estimate.basis.value
    return what, words(spread.p50), f"{words(spread.p10)} to {words(spread.p90)}", why


def _document(
    script: Script, workload: ScriptWorkload, advice: Advice, notes: list[str], answer: _Answer, job_id: str | None
) -> dict[str, Any]:
    from presage.estimators.scripts import stamp_of

    share = script.asked.share
    limit_s = script.asked.walltime_s
    return {
        "script": _shown(script.path),
        "arguments": [_shown(word) for word in script.arguments],
        "stamp": str(stamp_of(workload)),
        "asked": {
            "partition": script.asked.partition and _shown(script.asked.partition),
            "nodes": share.nodes, "cores": share.cores, "gpus": share.gpus,
            "memory_bytes": share.memory_bytes,
            "walltime_s": limit_s if limit_s not in (None, float("inf")) else None,
        },
        **advice.as_dict(),
        "notes": list(dict.fromkeys(notes)),
        "changed": answer is _Answer.CHANGE,
        "job_id": job_id,
    }  # fmt: skip
