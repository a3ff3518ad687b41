"""`presage estimators`: estimators of other people, in charge or in the shadow, and how good they were."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from presage.cli._estimators import (
    accuracy_document,
    entry_document,
    list_document,
    prediction_document,
    print_accuracy,
    print_answer,
    print_comparisons,
    print_entry,
    print_list,
    print_predictions,
    print_refits,
)
from presage.cli._output import Json, emit_json, tell
from presage.errors import UnreadableSourceError, UsageError
from presage.wording import counted

if TYPE_CHECKING:
    from presage.estimators import Quantity
    from presage.estimators.repository import Comparison, Entry, Repository, Stated

app = typer.Typer(
    help=(
        "The model repository: estimators of memory, walltime, wait and cost that are added to those of Presage. "
        "What is added begins in the shadow: it is asked along, and takes over when it is no worse."
    ),
    epilog=(
        "Example: presage estimators add ./my-estimator && presage estimators score my-estimator --take-over && "
        "presage estimators list"
    ),
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="An estimator; `list` has them.")]
Version = Annotated[str | None, typer.Option("--version", metavar="VERSION", help="Another than the usual one.")]
QuantityName = Annotated[
    str | None, typer.Option("--quantity", metavar="QUANTITY", help="memory, walltime, wait or cost.")
]
Runner = Annotated[
    str | None,
    typer.Option(
        "--runner",
        help=(
            "Of a container: podman, apptainer, bubblewrap, subprocess (no isolation), or tapis (elsewhere). "
            "[the first that works]"
        ),
    ),
]
SOURCE_HELP = (
    "A folder with estimator.toml, an OCI archive, image:REFERENCE (of podman or buildah), http://…, or "
    "python:NAME (an entry point of an installed package)."
)


@app.command("list")
def list_estimators(json: Json = False) -> None:
    """List all estimators, added ones first, and what each does: in charge, shadow or retired.

    Example: presage estimators list
    """
    from presage.estimators.plugins import Kind
    from presage.estimators.repository import State

    entries = _repository().versions.all()
    shadowed = {
        entry.name for entry in entries if entry.state is State.IN_CHARGE or entry.manifest.kind is Kind.PYTHON
    }
    rows = list_document(entries, shadowed)
    if json:
        emit_json(rows)
    else:
        print_list(rows)


@app.command()
def show(name: Name, version: Version = None, json: Json = False) -> None:
    """Show an estimator that was added: what it is, who was in charge when, how good it was.

    Example: presage estimators show my-estimator
    """
    repository = _repository()
    entry = repository.versions.get(name, version)
    document = entry_document(
        entry,
        intact=repository.versions.files_are_there(entry),
        changes=repository.versions.changes(name),
        accuracy=repository.predictions.accuracy(estimator=name),
    )
    if json:
        emit_json(document)
    else:
        print_entry(document)


@app.command()
def add(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=SOURCE_HELP)],
    now: Annotated[
        bool, typer.Option("--now", help="Put it in charge at once, without a time as shadow.")
    ] = False,
    runner: Runner = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Of an address that does not describe itself.")
    ] = None,
    version: Version = None,
    quantity: QuantityName = None,
    json: Json = False,
) -> None:
    """Add an estimator, or a new version of one. Its files are copied, and their digest is recorded.

    Example: presage estimators add ./my-estimator

    Example: presage estimators add my-estimator.tar --runner bubblewrap

    Example: presage estimators add http://127.0.0.1:8000/estimate --name far --version 1 --quantity wait
    """
    entry = _repository().add(source, _stated(name, version, quantity), runner=runner, in_charge=now)
    _report(entry, json=json)


@app.command()
def pin(
    name: Name,
    version: Annotated[str | None, typer.Argument(metavar="VERSION", help="The version to be in charge.")] = None,
    off: Annotated[bool, typer.Option("--off", help="Let others take over again.")] = False,
    json: Json = False,
) -> None:
    """Put a version in charge and keep it there: nothing takes over from it.

    Example: presage estimators pin my-estimator 1.2

    Example: presage estimators pin my-estimator --off
    """
    versions = _repository().versions
    if off == (version is not None):
        raise UsageError("It is not clear what to pin", expected="a version, or --off")
    if version is None:
        versions.unpin(name)
        entry = versions.get(name)
    else:
        entry = versions.put_in_charge(name, version, "pinned", pin=True)
    _report(entry, json=json)


@app.command()
def rollback(name: Name, json: Json = False) -> None:
    """Put the version in charge that was before this one; where there was none, the estimators of Presage answer.

    Example: presage estimators rollback my-estimator
    """
    before = _repository().versions.roll_back(name)
    if json:
        emit_json({"name": name, "in_charge": before})
    elif before is None:
        typer.echo(f"No version of {name} is in charge any more")
    else:
        typer.echo(f"{name} {before} is in charge again")


@app.command()
def remove(
    name: Name,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="The version to forget.")],
    json: Json = False,
) -> None:
    """Forget a version and delete its files; its predictions are kept.

    Example: presage estimators remove my-estimator 1.1
    """
    _repository().versions.remove(name, version)
    if json:
        emit_json({"name": name, "removed": version})
    else:
        typer.echo(f"{name} {version} is removed")


@app.command()
def score(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="An estimator. [all that are in the shadow]")
    ] = None,
    version: Version = None,
    needed: Annotated[int | None, typer.Option("--needed", min=1, help="Outcomes to take over by. [20]")] = None,
    again: Annotated[
        int | None, typer.Option("--again", min=0, help="Old questions to ask it again, at most. [200]")
    ] = None,
    take_over: Annotated[bool, typer.Option("--take-over", help="Put it in charge if it is no worse.")] = False,
    json: Json = False,
) -> None:
    """Compare shadows with those in charge, on the same questions and by what then happened.

    Questions from before a version was added are put to it now. It may take over if the pinball loss of its p10,
    p50 and p90 is no larger.

    Example: presage estimators score

    Example: presage estimators score my-estimator --needed 50 --take-over
    """
    repository = _repository()
    if name is None and version is not None:
        raise UsageError("--version was given without a NAME", expected="the estimator whose version it is")
    comparisons = [
        _compare(repository, each, version, needed, again, take_over=take_over)
        for each in _scored(repository, name)
    ]
    if json:
        emit_json([comparison.as_dict() for comparison in comparisons])
        return
    if not comparisons:
        typer.echo("No estimator is in the shadow")
    print_comparisons(comparisons)


@app.command()
def predictions(
    quantity: QuantityName = None,
    estimator: Annotated[str | None, typer.Option("--estimator", help="Only of this one.")] = None,
    job: Annotated[str | None, typer.Option("--job", metavar="KEY", help="Only about this job.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The latest ones, so many.")] = 20,
    json: Json = False,
) -> None:
    """Show predictions of the past with what then happened, and how good they were by month.

    Example: presage estimators predictions --quantity wait --limit 50
    """
    kept = _repository().predictions
    wanted = _quantity(quantity)
    found = kept.find(quantity=wanted, estimator=estimator, job_key=job, limit=limit)
    accuracy = [accuracy_document(each) for each in kept.accuracy(quantity=wanted, estimator=estimator)]
    if json:
        emit_json({"predictions": [prediction_document(each) for each in found], "accuracy": accuracy})
        return
    print_predictions(found)
    if accuracy:
        print_accuracy(accuracy)


@app.command()
def refits(
    limit: Annotated[int, typer.Option("--limit", min=1, help="The latest ones, so many.")] = 20,
    json: Json = False,
) -> None:
    """Show what was learned from jobs that ended: corrections by kind of job, and whether they took over.

    Example: presage estimators refits
    """
    found = [each.as_dict() for each in _repository().refits.all()[:limit]]
    if json:
        emit_json(found)
    else:
        print_refits(found)


@app.command()
def outcome(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The key of the job, as predictions have it.")],
    quantity: Annotated[str, typer.Argument(metavar="QUANTITY", help="memory, walltime, wait or cost.")],
    actual: Annotated[str, typer.Argument(metavar="ACTUAL", help="What happened: 41GiB, 2:30:00, 4.2.")],
    json: Json = False,
) -> None:
    """Record what really happened to a job, where nobody else does.

    Example: presage estimators outcome pitzer/4711 walltime 2:30:00
    """
    from presage.estimators import Quantity
    from presage.units import parse_bytes, parse_seconds

    about = _quantity(quantity) or Quantity.WALLTIME
    if about is Quantity.MEMORY:
        value = float(parse_bytes(actual))
    elif about is Quantity.COST:
        value = _number(actual)
    else:
        value = parse_seconds(actual)
    told = _repository().predictions.record_outcome(job, about, value)
    if json:
        emit_json({"job": job, "quantity": about.value, "actual": value, "predictions": told})
    else:
        typer.echo(f"Recorded; {counted(told, 'prediction')} of it known")


@app.command()
def run(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help=f"One that was added, by its name. {SOURCE_HELP}")
    ],
    request: Annotated[str, typer.Argument(metavar="REQUEST", help="A JSON document of a request; - is stdin.")],
    runner: Runner = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Of an address that does not describe itself.")
    ] = None,
    version: Version = None,
    quantity: QuantityName = None,
    json: Json = False,
) -> None:
    """Try an estimator on a request, without adding it.

    Example: presage estimators run ./my-estimator request.json --json
    """
    from presage.estimators.plugins import ask_guarded, read_request
    from presage.estimators.repository import try_source

    question = read_request(_read(request))
    repository = _repository()
    if any(entry.name == source for entry in repository.versions.all()):
        answer = ask_guarded(repository.load(repository.versions.get(source, version)), question)
    else:
        answer = try_source(source, question, _stated(name, version, quantity), runner=runner)
    if json:
        emit_json(answer.as_dict())
    else:
        print_answer(answer)


def _repository() -> Repository:
    from presage.estimators.repository import Repository

    return Repository()


def _stated(name: str | None, version: str | None, quantity: str | None) -> Stated:
    from presage.estimators.repository import Stated

    return Stated(name, version, _quantity(quantity))


def _quantity(text: str | None) -> Quantity | None:
    from presage.errors import UnknownNameError
    from presage.estimators import Quantity

    if text is None:
        return None
    try:
        return Quantity(text)
    except ValueError:
        raise UnknownNameError("quantity", text, [each.value for each in Quantity]) from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{text!r} is no amount", expected="a number") from None


def _scored(repository: Repository, name: str | None) -> list[str]:
    from presage.estimators.repository import State

    if name is not None:
        return [name]
    shadows = (entry.name for entry in repository.versions.all() if entry.state is State.SHADOW)
    return list(dict.fromkeys(shadows))


def _compare(
    repository: Repository,
    name: str,
    version: str | None,
    needed: int | None,
    again: int | None,
    *,
    take_over: bool,
) -> Comparison:
    from presage.estimators.repository.repository import ASKED_AGAIN, NEEDED_OUTCOMES

    compare = repository.take_over if take_over else repository.compare
    return compare(
        name,
        version,
        needed=NEEDED_OUTCOMES if needed is None else needed,
        again=ASKED_AGAIN if again is None else again,
    )


def _report(entry: Entry, *, json: bool) -> None:
    if json:
        emit_json(entry.as_dict())
        return
    state = {"in-charge": "in charge", "shadow": "in the shadow"}.get(entry.state.value, entry.state.value)
    typer.echo(f"{entry.name} {entry.version} is {state}" + (", pinned" if entry.pinned else ""))
    if entry.state.value == "shadow":
        tell(f"`presage estimators score {entry.name}` says whether it may take over")


def _read(place: str) -> bytes:
    from presage.estimators.plugins.contract import MAX_DOCUMENT_BYTES

    try:
        if place == "-":
            return sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
        with Path(place).open("rb") as file:
            return file.read(MAX_DOCUMENT_BYTES + 1)
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or error
        raise UnreadableSourceError(f"The request {place!r} cannot be read: {problem}") from None
