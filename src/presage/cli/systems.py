"""`presage systems`: what there is to run on, and what was known of it when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from presage.cli._output import Json, emit_json, tell
from presage.cli._systems import (
    history_document,
    moment_of,
    print_history,
    print_systems,
    print_version,
    report_changes,
    version_document,
)
from presage.cli._systems_texts import STANDARD, edited, kept, read_systems, write_systems
from presage.errors import ConnectorError, PresageError, UsageError, closest

if TYPE_CHECKING:
    from presage.clusters import System
    from presage.clusters.catalogue import Catalogue, Version

app = typer.Typer(
    help=(
        "The catalogue of systems: clusters, clouds and machines with their partitions, node types, limits and "
        "prices. Every change begins a new version; the old ones stay. Some systems come with Presage."
    ),
    epilog=(
        "Example: presage systems discover slurm --name lab && "
        "presage systems edit lab --set charge.core_hour=0.01 && presage systems show lab"
    ),
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

SLURM, KUBERNETES, LOCAL = "slurm", "kubernetes", "local"
Name = Annotated[str, typer.Argument(metavar="NAME", help="A system; `list` has them.")]
Note = Annotated[str, typer.Option("--note", help="Why, for the history.")]
At = Annotated[
    str | None, typer.Option("--at", metavar="DATE", help="As it was then, like 2026-01-05T08:00, UTC.")
]
From = Annotated[
    str | None, typer.Option("--from", metavar="FILE", help="What `kubectl get nodes -o json` printed elsewhere.")
]


@app.command("list")
def list_systems(at: At = None, json: Json = False) -> None:
    """List the systems that are known.

    Example: presage systems list

    Example: presage systems list --at 2026-01-05 --json
    """
    versions = _catalogue().versions(moment_of(at))
    if json:
        emit_json([{"name": name, **version_document(version)} for name, version in versions.items()])
    else:
        print_systems(versions)


@app.command()
def show(name: Name, at: At = None, json: Json = False) -> None:
    """Show the partitions, node types, limits and prices of a system.

    Example: presage systems show osc-pitzer

    Example: presage systems show lab --at 2026-01-05
    """
    version = _catalogue().version(name, moment_of(at))
    if json:
        emit_json(version_document(version))
    else:
        print_version(version)


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the new system is called.")],
    scheduler: Annotated[
        str, typer.Option("--scheduler", help="slurm, kubernetes, tapis, local or cloud.")
    ] = "slurm",
    cores: Annotated[int | None, typer.Option("--cores", min=1, help="Cores of a node.")] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", help="Memory that jobs can have of a node: 240GiB.")
    ] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", min=1, help="How many nodes. [not known]")] = None,
    gpus: Annotated[int, typer.Option("--gpus", min=0, help="GPUs of a node.")] = 0,
    gpu: Annotated[str, typer.Option("--gpu", help="Their model, like a100-80.")] = "",
    partition: Annotated[str, typer.Option("--partition", help="What the partition is called.")] = "batch",
    max_walltime: Annotated[
        str | None, typer.Option("--max-walltime", help="The longest job, like 48h. [no limit]")
    ] = None,
    like: Annotated[
        str | None, typer.Option("--like", metavar="NAME", help="Copy this system, also one that was removed.")
    ] = None,
    note: Note = "",
    json: Json = False,
) -> None:
    """Add a simple system, with one kind of nodes and one partition, or a copy of another.

    For anything more, write a file and `import` it; `export` shows what one looks like.

    Example: presage systems add lab --cores 64 --memory 240GiB --nodes 12 --max-walltime 48h

    Example: presage systems add box --scheduler local --cores 32 --memory 120GiB --gpus 2 --gpu l4

    Example: presage systems add my-pitzer --like osc-pitzer
    """
    from presage.clusters.catalogue import Source

    catalogue = _catalogue()
    if name in catalogue.versions():
        raise UsageError(
            f"There is a system {name!r} already", remedy=f"Change it with: presage systems edit {name}"
        )
    if like is not None:
        system = replace(catalogue.history(like)[-1].system, name=name)
    else:
        if cores is None or memory is None:
            raise UsageError("A system needs nodes", expected="--cores and --memory, or --like another system")
        limits = {} if max_walltime is None else {"max_walltime_s": max_walltime}
        node_type = {"cores": cores, "memory_bytes": memory, "count": nodes, "gpus": gpus, "gpu": gpu}
        system = _simple(name, scheduler, partition, {"node_types": ["node"], "limits": limits}, node_type)
    report_changes({name: catalogue.put(system, Source.EDITED, note)}, wants_json=json)


@app.command()
def edit(
    name: Name,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Change one value; may be repeated. `none` empties it."),
    ] = None,
    note: Note = "",
    json: Json = False,
) -> None:
    """Change a system: single values with --set, or all of it in your editor (VISUAL or EDITOR).

    A path names tables and fields as `export` shows them. A text that is wrong is kept in a file, and nothing
    changes.

    Example: presage systems edit lab --set partitions.gpu.limits.max_walltime_s=48h --note "new rule"

    Example: presage systems edit lab --set charge.core_hour=0.01 --set charge.whole_nodes=multi-node

    Example: EDITOR=nano presage systems edit lab
    """
    from presage.clusters.catalogue import Source
    from presage.clusters.editing import set_fields

    catalogue = _catalogue()
    current = catalogue.version(name)
    if settings:
        changed = set_fields(current.system, settings)
        changes = catalogue.put(changed, Source.EDITED, note, based_on=current.number)
    else:
        changed, place = edited(current.system)
        try:
            changes = catalogue.put(changed, Source.EDITED, note, based_on=current.number)
        except PresageError as error:
            raise kept(error, place) from None
        place.unlink(missing_ok=True)
    report_changes({name: changes}, wants_json=json)


@app.command("import")
def import_systems(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="TOML, or JSON of the same shape; `-` is standard input."),
    ],
    note: Note = "",
    json: Json = False,
) -> None:
    """Take systems from files, as `export` writes them. All files are checked before any is taken.

    Example: presage systems import lab.toml

    Example: presage systems export osc-pitzer | sed s/osc-pitzer/copy/ | presage systems import -
    """
    from presage.clusters.catalogue import Source

    catalogue = _catalogue()
    systems = read_systems(files)
    report_changes({each.name: catalogue.put(each, Source.IMPORTED, note) for each in systems}, wants_json=json)


@app.command()
def export(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A system, unless --all.")] = None,
    out: Annotated[
        str | None, typer.Argument(metavar="OUT", help="A file, or a folder. [standard output]")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All systems, one file each, in the folder OUT.")
    ] = False,
    at: At = None,
    json: Json = False,
) -> None:
    """Write a system as TOML, for people to read and for `import` to take.

    Example: presage systems export osc-pitzer pitzer.toml

    Example: presage systems export --all backup
    """
    from presage.clusters.documents import document_of, write_system

    catalogue = _catalogue()
    if everything:
        if name is None or out is not None:
            raise UsageError("--all goes into one folder", expected="`presage systems export --all FOLDER`")
        # The only argument is the folder then, and click has taken it for the first.
        written = write_systems(catalogue.all(moment_of(at)), Path(name), into_folder=True)
    elif name is None:
        raise UsageError("No system was named", expected="a name, or --all and a folder")
    else:
        system = catalogue.get(name, moment_of(at))
        if out is None or out == STANDARD:
            if json:
                emit_json(document_of(system))
            else:
                typer.echo(write_system(system), nl=False)
            return
        written = write_systems({name: system}, Path(out), into_folder=Path(out).is_dir())
    if json:
        emit_json({"written": written})
        return
    for each, place in written.items():
        typer.echo(f"{each}: {place}")


@app.command()
def remove(name: Name, note: Note = "", json: Json = False) -> None:
    """Take a system out of the catalogue. Its history stays, and `add NAME --like NAME` brings it back.

    Example: presage systems remove osc-ascend --note "no account there"
    """
    _catalogue().remove(name, note)
    report_changes({name: ("removed",)}, wants_json=json)


@app.command()
def history(name: Name, json: Json = False) -> None:
    """Show the versions of a system: from when to when, who described it, and what was new.

    Example: presage systems history osc-pitzer
    """
    versions = _catalogue().history(name)
    if json:
        emit_json(history_document(versions))
    else:
        print_history(versions)


@app.command()
def discover(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="slurm, kubernetes, or local for this machine.")],
    name: Annotated[str | None, typer.Option("--name", help="What to call it. [what it calls itself]")] = None,
    file: From = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what is found as TOML and keep nothing.")
    ] = False,
    note: Note = "",
    json: Json = False,
) -> None:
    """Ask a cluster what it has, and keep that: Slurm by its own commands, Kubernetes by kubectl, or this machine.

    Nobody but you knows prices and rules: add them with `edit`, and `refresh` will leave them alone.

    Example: presage systems discover slurm --name lab

    Example: presage systems discover kubernetes --name cloud --from nodes.json

    Example: presage systems discover local --name here
    """
    from presage.clusters.documents import document_of, write_system

    found = _discovered(kind, name, file)
    if dry_run:
        if json:
            emit_json(document_of(found))
        else:
            typer.echo(write_system(found), nl=False)
        return
    catalogue = _catalogue()
    current = catalogue.versions().get(found.name)
    if current is not None and current.discovered is None:
        raise UsageError(
            f"There is a system {found.name!r} already that was not discovered",
            remedy="Choose another name with --name, or remove the other one first",
        )
    report_changes({found.name: _keep(catalogue, current, found, note)}, wants_json=json)


@app.command()
def refresh(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A discovered system. [all of them]")] = None,
    file: From = None,
    note: Note = "",
    json: Json = False,
) -> None:
    """Ask discovered systems again what they have, and record what is different.

    What you have edited since stays: prices, policies, staging, and any single value that you corrected.

    Example: presage systems refresh

    Example: presage systems refresh cloud --from nodes.json
    """
    catalogue = _catalogue()
    versions = _refreshable(catalogue, name)
    if file is not None and len(versions) != 1:
        raise UsageError("--from is about one system", expected="its name")
    changes: dict[str, tuple[str, ...]] = {}
    failures: dict[str, PresageError] = {}
    for each, version in versions.items():
        try:
            found = _discovered(version.system.scheduler.value, each, file)
            changes[each] = _keep(catalogue, version, found, note)
        except PresageError as error:
            failures[each] = error
    if name is not None and failures:
        raise failures[name]
    problems = {each: str(error) for each, error in failures.items()}
    report_changes(changes, wants_json=json, **({"failures": problems} if problems else {}))
    for each, problem in problems.items():
        tell(f"{each} is as it was: {problem}")
    if failures:
        raise typer.Exit(ConnectorError.exit_code)
    if not versions:
        tell("No system was discovered yet: presage systems discover slurm")


def _catalogue() -> Catalogue:
    from presage.clusters.catalogue import Catalogue

    return Catalogue()


def _simple(
    name: str, scheduler: str, partition: str, queue: dict[str, object], node_type: dict[str, object]
) -> System:
    from presage.clusters.documents import system_of

    given = {key: value for key, value in node_type.items() if value is not None}
    document = {
        "name": name,
        "scheduler": scheduler,
        "node_types": {"node": given},
        "partitions": {partition: queue},
    }
    return system_of(document, f"The new system {name!r}")


def _discovered(kind: str, name: str | None, file: str | None) -> System:
    if file is not None and kind != KUBERNETES:
        raise UsageError(
            "--from is about Kubernetes", remedy="Run it on the cluster's own machine, without --from"
        )
    if kind == SLURM:
        from presage.connectors.slurm import discovery as slurm

        return slurm.discover(name)
    if kind == KUBERNETES:
        from presage.connectors.kubernetes import discovery as kubernetes

        return kubernetes.discover(file, name)
    if kind == LOCAL:
        from presage.connectors.local import LocalConnector

        return LocalConnector().discover(name)
    near = closest(kind, (SLURM, KUBERNETES, LOCAL))
    raise UsageError(
        f"{kind!r} cannot be asked what it has", expected=f"{SLURM}, {KUBERNETES} or {LOCAL}",
        remedy=f"Did you mean {near!r}?" if near else "",
    )  # fmt: skip


def _keep(catalogue: Catalogue, current: Version | None, found: System, note: str) -> tuple[str, ...]:
    """Put what was found into the catalogue, without what a person has changed since the last time."""
    from presage.clusters.catalogue import Source
    from presage.clusters.merging import merge

    if current is None or current.discovered is None:
        return catalogue.put(found, Source.DISCOVERED, note, discovered=found)
    merged = merge(current.discovered, current.system, found)
    return catalogue.put(merged, Source.DISCOVERED, note, based_on=current.number, discovered=found)


def _refreshable(catalogue: Catalogue, name: str | None) -> dict[str, Version]:
    if name is None:
        return {each: version for each, version in catalogue.versions().items() if version.discovered is not None}
    version = catalogue.version(name)
    if version.discovered is None:
        raise UsageError(
            f"The system {name!r} was not discovered, so nobody can be asked",
            remedy=f"Change it with: presage systems edit {name}",
        )
    return {name: version}
