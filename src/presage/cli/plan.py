"""`presage plan`: where a job could run, when it would be done there, what it would cost, and what to submit."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.choices import choice_of
from presage.cli._output import Json, emit_json, steps, tell
from presage.cli._training_workload import TrainingCall, numbers_in, with_training
from presage.errors import PresageError, UsageError

if TYPE_CHECKING:
    from presage.clusters.systems import System
    from presage.estimators.workloads import TrainingWorkload
    from presage.planner.constraints import Constraints
    from presage.planner.crossing import Counts
    from presage.planner.estimates import Estimates
    from presage.planner.options import Assumptions, Variant
    from presage.planner.plan import Plan
    from presage.planner.planning import Plans

_JOB, _WHERE, _RULES, _ASSUMED = "The job", "Where", "What it must keep to", "What is assumed"


class NoPlanError(PresageError):
    """There is no plan to write."""

    code = "no_plan"
    exit_code = 3


@with_training
def plan(
    training: TrainingCall,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory", help="Its memory at the peak, like 41GiB: of a GPU, or of a node.", rich_help_panel=_JOB
        ),
    ] = None,
    walltime: Annotated[
        str | None, typer.Option("--walltime", help="How long it runs anywhere, like 30h.", rich_help_panel=_JOB)
    ] = None,
    on_nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--hours",
            metavar="PLACE=HOURS",
            rich_help_panel=_JOB,
            help="How long it runs on a node type or in a partition, like lab/gpu=2; repeatable.",
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option("--run", help="What the jobs execute. [python FILE of MODEL]", rich_help_panel=_JOB),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Of the job.", rich_help_panel=_JOB)] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            "--system", "-s", help="A system of the catalogue, or a TOML file; repeatable.", rich_help_panel=_WHERE
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="PLACE", help="Only places like lab/gpu*; repeatable.", rich_help_panel=_WHERE
        ),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option("--nodes", help="Nodes, several with commas. [as few as may be]", rich_help_panel=_WHERE),
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option(
            "--gpus",
            rich_help_panel=_WHERE,
            help="GPUs of a node, several with commas; with a 0, nodes without will do. [none, or 1, 2, 4…]",
        ),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option("--cores", min=1, help="Cores of a node. [all, or the GPUs' part]", rich_help_panel=_WHERE),
    ] = None,
    waits: Annotated[
        list[str] | None,
        typer.Option(
            "--wait",
            metavar="PLACE=TIME",
            rich_help_panel=_WHERE,
            help="A wait that you know, like lab/gpu=26h or lab/gpu=20h..26h..40h; repeatable.",
        ),
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option(
            "--history", metavar="[SYSTEM=]LOG", help="A job log that tells waits.", rich_help_panel=_WHERE
        ),
    ] = None,
    deadline: Annotated[
        str | None, typer.Option("--deadline", help="A date, or a duration from now.", rich_help_panel=_RULES)
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", help="What it may cost, like '5 USD'.", rich_help_panel=_RULES)
    ] = None,
    confidence: Annotated[
        float, typer.Option("--confidence", help="The chance that all must hold with.", rich_help_panel=_RULES)
    ] = 0.9,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy", help="best-configuration, by-availability or short-hops.", rich_help_panel=_RULES
        ),
    ] = None,
    no_cascade: Annotated[
        bool, typer.Option("--no-cascade", help="Never cut the run into several jobs.", rich_help_panel=_RULES)
    ] = False,
    save: Annotated[
        str, typer.Option("--save", help="Time to write a checkpoint.", rich_help_panel=_ASSUMED)
    ] = "60s",
    restart: Annotated[
        str, typer.Option("--restart", help="Time to go on from one.", rich_help_panel=_ASSUMED)
    ] = "120s",
    warning: Annotated[
        str,
        typer.Option(
            "--warning", help="How long before its limit a job is told to save.", rich_help_panel=_ASSUMED
        ),
    ] = "120s",
    data_size: Annotated[
        str, typer.Option("--data-size", help="What must get there first, like 200GB.", rich_help_panel=_ASSUMED)
    ] = "0",
    spot_interruptions: Annotated[
        float,
        typer.Option(
            "--spot-interruptions", help="How often an hour spot nodes are taken away.", rich_help_panel=_ASSUMED
        ),
    ] = 0.05,
    night: Annotated[
        str | None,
        typer.Option(
            "--night", help="Hours in which development queues idle, like 20-8.", rich_help_panel=_ASSUMED
        ),
    ] = None,
    write: Annotated[
        list[str] | None,
        typer.Option("--write", "-w", metavar="FILE", help="The plan: .json, .sbatch or .yaml; repeatable."),
    ] = None,
    image: Annotated[str, typer.Option("--image", help="The container of a Kubernetes Job.")] = "",
    claim: Annotated[str, typer.Option("--claim", help="The volume claim for its checkpoints.")] = "",
    json: Json = False,
) -> None:
    """Cross variants of a job with systems, partitions, node types and counts, and plan it.

    The job is a training, estimated from its network, or any job whose memory and time you state. Every option
    fits or says why not. Three strategies are always compared: best-configuration (the shortest run),
    by-availability (the soonest end: start on what is free, move when better nodes come) and short-hops (short
    jobs through development queues).

    A run longer than a partition's limit becomes several jobs, each from the checkpoint of the one before.

    Example: presage plan train.py:build_model --input 3x224x224 --batch 32,64 --epochs 50 --samples 20000
    --system osc-pitzer

    Example: presage plan --memory 41GiB --walltime 30h --gpus 1 --system osc-ascend --wait osc-ascend=4h
    --deadline 3d --budget '40 USD' --run 'python train.py' --strategy by-availability --write train.sbatch
    """
    from presage.cli._plan_inputs import command_in, systems_in
    from presage.cli._plan_text import print_plans
    from presage.cli._plan_writing import check_places, how_to_submit, write_plan
    from presage.planner.plan import STRATEGIES
    from presage.planner.planning import make_plans

    picked = choice_of(STRATEGIES, strategy, "--strategy") if strategy else None
    check_places(write or [])
    now = datetime.now(UTC)
    variants, trained = _variants(training, walltime, on_nodes, name)
    counts = _counts(nodes, gpus, cores)
    constraints = _constraints(deadline, budget, only, confidence, now)
    assumptions = _assumptions(
        confidence=confidence, cascades=not no_cascade, save=save, restart=restart, warning=warning,
        data_size=data_size, spot_interruptions=spot_interruptions, night=night, now=now,
    )  # fmt: skip
    command = command_in(run, trained)
    systems = systems_in(system)
    estimates = _estimates(memory, walltime, on_nodes, waits, history, systems)
    with steps("option") as report:
        plans = make_plans(
            variants, systems, estimates, name=_name(name, trained),
            counts=counts, constraints=constraints, assumptions=assumptions, progress=report,
        )  # fmt: skip
    chosen = _choose(plans, picked, command)
    written = [file for place in write or [] for file in write_plan(_there(chosen, plans), place, image, claim)]
    if json:
        chosen_document = chosen.as_dict() if chosen else None
        emit_json({**plans.as_dict(), "chosen": chosen_document, "written": written})
        return
    print_plans(plans, chosen)
    if written:
        tell(f"Wrote {', '.join(written)}")
    if commands := how_to_submit(written):
        tell(f"Submit with: {commands}")


def _variants(
    training: TrainingCall, walltime: str | None, on_nodes: list[str] | None, name: str | None
) -> tuple[list[Variant], TrainingWorkload | None]:
    from presage.estimators.workloads import ScriptWorkload
    from presage.planner.options import Variant

    timed = walltime is not None or bool(on_nodes)
    if not training.is_named:
        if not timed:
            raise UsageError(
                "Nobody says what to plan",
                expected="a network, like train.py:build_model, or the time of a job: --walltime or --hours",
            )
        return [Variant(ScriptWorkload(name or "job", name=name or "job"))], None
    workloads = training.workloads()
    if not timed and workloads[0].steps is None:
        raise UsageError(
            "Nobody says how long the training goes on",
            expected="--epochs and --samples, or a stated time: --walltime or --hours",
        )
    several = len({workload.options.precision for workload in workloads}) > 1
    variants = []
    for workload in workloads:
        options = workload.options
        label = f"batch {options.batch}" + (f", {options.precision.value}" if several else "")
        variants.append(Variant(workload, label))
    return variants, workloads[0]


def _counts(nodes: str | None, gpus: str | None, cores: int | None) -> Counts:
    from presage.planner.crossing import Counts

    return Counts(
        tuple(numbers_in(nodes, "--nodes")) if nodes is not None else (),
        tuple(numbers_in(gpus, "--gpus", least=0)) if gpus is not None else (),
        cores,
    )


def _constraints(
    deadline: str | None, budget: str | None, only: list[str] | None, confidence: float, now: datetime
) -> Constraints:
    from presage.cli._plan_inputs import budget_in, deadline_in
    from presage.planner.constraints import Constraints

    if not 0.5 <= confidence <= 0.999:
        raise UsageError(f"--confidence {confidence:g} cannot be", expected="a chance from 0.5 to 0.999")
    return Constraints(deadline_in(deadline, now), budget_in(budget), tuple(only or ()), confidence)


def _assumptions(
    *, save: str, restart: str, warning: str, data_size: str, spot_interruptions: float, night: str | None,
    now: datetime, **plain: Any,
) -> Assumptions:  # fmt: skip
    from presage.cli._plan_inputs import named, night_in
    from presage.planner.cascades import Overheads
    from presage.planner.options import Assumptions
    from presage.units import parse_bytes, parse_seconds

    if not (math.isfinite(spot_interruptions) and 0 <= spot_interruptions <= 60):
        raise UsageError(
            f"--spot-interruptions {spot_interruptions:g} cannot be", expected="a number from 0 to 60"
        )
    hours = night_in(night)
    return Assumptions(
        overheads=Overheads(
            save_s=named("--save", save, parse_seconds),
            restart_s=named("--restart", restart, parse_seconds),
            warning_s=named("--warning", warning, parse_seconds),
        ),
        data_bytes=round(named("--data-size", data_size, parse_bytes)),
        spot_interruptions_per_h=spot_interruptions,
        night=hours, now=now if hours else None, **plain,
    )  # fmt: skip


def _estimates(
    memory: str | None,
    walltime: str | None,
    on_nodes: list[str] | None,
    waits: list[str] | None,
    history: list[str] | None,
    systems: list[System],
) -> Estimates:
    from presage.cli._plan_inputs import hours, knowledge_in, spread_in, times_in
    from presage.estimators.repository import Repository
    from presage.planner.estimates import AskedEstimates, Stated, StatedEstimates
    from presage.units import parse_bytes, parse_seconds

    walltimes = times_in(on_nodes, "--hours", hours)
    if walltime is not None:
        walltimes["*"] = spread_in(walltime, parse_seconds, "--walltime")
    stated = Stated(
        spread_in(memory, parse_bytes, "--memory") if memory is not None else None,
        walltimes,
        times_in(waits, "--wait", parse_seconds),
    )
    stated.check_places(systems)
    asked = AskedEstimates(by_system=knowledge_in(history, systems), repository=Repository())
    return StatedEstimates(stated, asked)


def _name(name: str | None, training: TrainingWorkload | None) -> str:
    if name is not None:
        return name
    return Path(training.model.partition(":")[0]).stem if training is not None else "job"


def _choose(plans: Plans, picked: Any, command: tuple[str, ...]) -> Plan | None:
    """Return the plan of the strategy that was picked; of all, the one that ends first."""
    from dataclasses import replace

    found = [each.plan for each in plans.proposals if each.plan and picked in (None, each.strategy)]
    chosen = min(found, key=lambda each: each.completion.p50, default=None)
    return replace(chosen, command=command) if chosen is not None else None


def _there(chosen: Plan | None, plans: Plans) -> Plan:
    if chosen is not None:
        return chosen
    reasons = dict.fromkeys(reason.words for each in plans.proposals for reason in each.reasons)
    raise NoPlanError(
        f"There is no plan to write: {'; '.join(reasons) or 'nothing fits'}",
        remedy="Look at the options without --write, and name other systems, counts or rules",
    )
