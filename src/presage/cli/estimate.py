"""`presage estimate`: what a training will need, before it is submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from presage.cli._output import Json, emit_json, print_table, steps, tell
from presage.cli._training_workload import TrainingCall, with_training
from presage.errors import UsageError
from presage.units import format_bytes, spell_seconds

if TYPE_CHECKING:
    from presage.clusters.systems import System
    from presage.estimators.training.estimating import TrainingEstimate
    from presage.estimators.workloads import Target

_WHERE = "Where"
CALIBRATE = "calibrate"


@with_training
def estimate(
    training: TrainingCall,
    gpu: Annotated[
        list[str] | None,
        typer.Option("--gpu", help="On one GPU of this model, like a100-80; repeatable.", rich_help_panel=_WHERE),
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            "--system",
            "-s",
            help="On each node type of a system of the catalogue; repeatable.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    measure: Annotated[
        int, typer.Option("--measure", min=0, max=100, help="Take so many real steps on this machine first.")
    ] = 0,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="COMMAND",
            help="Instead of a network: a program that uses presage.track, to be tried on this machine.",
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, max=3600, help="With --run: for how long it is tried.")
    ] = 10.0,
    json: Json = False,
) -> None:
    """Estimate memory and time of a training, as distributions: p10, p50 and p90.

    A step of the network is traced without computing anything, in a process of its own; each batch size on its
    own. What could not be checked without a GPU says so. Without --gpu or --system it is about this machine.
    `presage estimate calibrate` measures this machine once, for some minutes, which makes times here surer;
    --measure takes some real steps of this very network.

    A program of any kind that loops over presage.track is tried with --run: it works for some seconds, is told to
    save and stop, and its pace tells the rest. That needs no torch.

    `presage plan` goes on from here: queues, limits, waits, costs.

    Example: presage estimate train.py:build_model --input 3x224x224 --batch 32,64 --epochs 50 --samples 20000
    --optimizer adamw --gpu v100-32 --json

    Example: presage estimate --run 'python train.py' --seconds 30
    """
    if run is not None:
        _try(training, run, seconds, json=json)
        return
    if training.model == CALIBRATE:
        _calibrate(json=json)
        return
    from presage.estimators.repository import Repository
    from presage.estimators.training.estimating import estimate_training
    from presage.estimators.training.measuring.steps import measure_steps

    workloads = training.workloads()
    targets = _targets(gpu, system)
    with steps("estimate") as report:
        found = estimate_training(
            workloads, targets, repository=Repository(), progress=report,
            measuring=(lambda workload: measure_steps(workload, steps=measure)) if measure else None,
        )  # fmt: skip
    if json:
        emit_json({"estimates": [each.as_dict() for each in found]})
        return
    _print(found)


def _try(training: TrainingCall, command: str, seconds: float, *, json: bool) -> None:
    from presage.cli._plan_inputs import command_in
    from presage.estimators.training.measuring.trial import try_program

    if training.is_named:
        raise UsageError("Both a network and --run were given", expected="one of the two")
    found = try_program(command_in(command, None), seconds=seconds)
    if json:
        emit_json({"command": command, **found.as_dict()})
        return
    row = (found.memory.spread.words(format_bytes), found.walltime.spread.words(spell_seconds))
    print_table(f"{command}: {found.total:g} epochs, on this machine", ("memory", "time"), [row])
    for note in (*found.walltime.notes, *found.memory.notes):
        tell(f"Note: {note}")


def _calibrate(*, json: bool) -> None:
    from presage.estimators.training.measuring.calibrate import calibrate_device

    with steps("part") as report:
        device = calibrate_device(lambda done, total: report(done, total, "") if report else None)
    if json:
        emit_json(device.as_dict())
        return
    tell(f"Kept: {device.name}. Estimates about this machine use it from now on")


def _targets(gpus: list[str] | None, systems: list[str] | None) -> list[Target | None]:
    from presage.clusters.gpus import find_gpu
    from presage.estimators.workloads import one_gpu

    found: list[Target | None] = [one_gpu(find_gpu(name)) for name in gpus or []]
    if systems:
        from presage.cli._plan_inputs import systems_in

        found += [target for system in systems_in(systems) for target in _of_system(system)]
    return found or [None]


def _of_system(system: System) -> list[Target]:
    """Return one GPU, or all cores, of each node type that some partition has."""
    from presage.planner.crossing import Counts, placements

    wanted: dict[str, Target] = {}
    for each in placements([system], Counts(nodes=(1,))):
        if each.share.gpus <= 1:
            wanted.setdefault(each.node_type.name, each.target())
    if not wanted:
        raise UsageError(f"The system {system.name!r} has no partition with nodes")
    return list(wanted.values())


def _print(found: list[TrainingEstimate]) -> None:
    several = len({each.workload.options.precision for each in found}) > 1
    rows = []
    for each in found:
        options = each.workload.options
        rows.append(
            (
                f"{options.batch}" + (f", {options.precision.value}" if several else ""),
                each.place,
                each.memory.spread.words(format_bytes),
                each.verdict,
                each.walltime.spread.words(spell_seconds) if each.walltime else "",
                each.memory.basis.value,
            )
        )
    title = f"{found[0].workload.model}: {found[0].profile.parameter_count:,} parameters"
    print_table(title, ("batch", "where", "memory", "fits", "time", "memory is"), rows)
    notes = [
        note for each in found for one in (each.memory, each.walltime) if one is not None for note in one.notes
    ]
    for note in dict.fromkeys([*notes, *(reason for each in found for reason in each.reasons.values())]):
        tell(f"Note: {note}")
