"""Handing a plan or a script to the plane, and following what it does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from presage.cli._output import emit_json, tell
from presage.errors import PresageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.estimators.advice import Advice
    from presage.estimators.scripts import Script
    from presage.helper.jobs import Job
    from presage.orchestrator.jobs import Elastic, Order


class NotCompletedError(PresageError):
    """A job that was followed came to another end than it should."""

    code = "not_completed"


def plan_order(path: Path) -> Order:
    """Return the order of a plan in a file. Raises UnreadableSourceError, InputError, UsageError."""
    from presage.orchestrator.orders import order_of_plan
    from presage.planner.plan import read_plan

    return order_of_plan(read_plan(path), working_directory=Path.cwd())


def parse_elastic(text: str) -> Elastic:
    """Return the bounds in a text like `1:8` or `1:4:gpus`. Raises UsageError."""
    from presage.orchestrator.jobs import Elastic, Unit

    parts = text.split(":")
    units = [unit.value for unit in Unit]
    try:
        least, most = int(parts[0]), int(parts[1])
        unit = Unit(parts[2]) if len(parts) > 2 else Unit.NODES
    except (ValueError, IndexError):
        least, most, unit = 0, 0, Unit.NODES
    if len(parts) > 3 or not 1 <= least <= most:
        raise UsageError(
            f"{text[:40]!r} does not say how many workers there may be",
            expected=f"LEAST:MOST, like 1:8, and :UNIT, one of {', '.join(units)}",
        )
    return Elastic(least, most, unit)


def script_order(script: Script, advice: Advice | None, on: str, also: Sequence[str] = ()) -> Order:
    """Return the order of a batch script, with what was advised; it may run in the partitions `also`, too."""
    from presage.orchestrator.jobs import Order, Place
    from presage.orchestrator.orders import RUNS_FOLDER

    asked, share = script.asked, script.asked.share
    walltime_s = (advice.after("time") if advice else None) or asked.walltime_s
    memory = (advice.after("mem") if advice else None) or share.memory_bytes
    name = Path(script.path).stem
    place = Place(
        cluster=on,
        partition=asked.partition if on == "slurm" else None,
        nodes=share.nodes,
        cores=share.cores,
        gpus=share.gpus or None,
        memory_bytes=round(memory) if memory else None,
        walltime_s=walltime_s if walltime_s != float("inf") else None,
    )
    return Order(
        name=name,
        script=script.text,
        places=(place, *(replace(place, partition=each) for each in also if each != place.partition)),
        arguments=script.arguments,
        working_directory=str(Path.cwd()),
        run_folder=str(Path.cwd() / RUNS_FOLDER / name),
    )


def hand_over(order: Order, *, follow: bool, json: bool) -> None:
    """Hand a job to the plane; with `follow`, tell what happens until it ends. Raises NotCompletedError then."""
    from presage.helper.jobs import hand_over as give

    job = give(order, look_after=follow)
    if not follow:
        if json:
            emit_json({"job_id": job.job_id})
            return
        typer.echo(f"Handed over as {job.job_id}")
        if not job.place.is_remote:
            tell("`presage up` looks after it; `presage watch` and `presage explain` tell what is done with it")
        return
    follow_job(job, json=json)


def follow_job(job: Job, *, json: bool) -> None:
    """Tell what happens to a managed job until it ends. Raises NotCompletedError if it does not complete."""
    from presage.helper.jobs import watch

    status: dict[str, Any] = watch(job, tell=(lambda _: None) if json else typer.echo)
    if json:
        emit_json({"job": status, "decisions": job.explain()})
    if status["phase"] != "completed":
        raise NotCompletedError(f"The job is {status['phase']}: {status['reason']}")
