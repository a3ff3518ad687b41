"""Plans as orders: what `presage plan` found becomes what the plane looks after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.errors import UsageError
from presage.orchestrator.jobs import Order, Place
from presage.planner.scripts import job_name, quote, training_settings

if TYPE_CHECKING:
    from pathlib import Path

    from presage.planner.plan import Leg, Plan

RUNS_FOLDER = ".presage"


def order_of_plan(plan: Plan, *, working_directory: Path, run_folder: Path | None = None) -> Order:
    """Return the job of a plan. Its places are those of the legs, in their order.

    `run_folder` is where it saves itself, by default one named after the plan in the working directory. Raises
    UsageError if the plan does not say what to run.
    """
    if not plan.command:
        raise UsageError("The plan does not say what to run", remedy="Make it anew with --run COMMAND")
    first = plan.legs[0]
    folder = run_folder or working_directory / RUNS_FOLDER / job_name(plan)
    launch = "srun " if first.share.nodes > 1 else ""
    words = " ".join(quote(word) for word in plan.command)
    return Order(
        name=plan.name,
        # In the shell's place, so that what tells it to save reaches the program itself.
        script=f"#!/bin/bash\nexec {launch}{words}\n",
        places=tuple(dict.fromkeys(_place(leg, plan) for leg in plan.legs)),
        environment=training_settings(first),
        working_directory=str(working_directory),
        run_folder=str(folder),
        work_s=plan.run.p50,
        signal_before_s=plan.warning_s,
        predictions=plan.predictions,
    )


def _place(leg: Leg, plan: Plan) -> Place:
    there = [other for other in plan.legs if other.place == leg.place]
    longest_s = max(other.walltime_s for other in there)
    is_choice = len(there) < len(plan.legs)
    return Place(
        cluster=leg.scheduler.value,
        partition=leg.partition,
        nodes=leg.share.nodes,
        cores=leg.share.cores,
        gpus=leg.share.gpus or None,
        memory_bytes=leg.share.memory_bytes,
        walltime_s=longest_s,
        limit_s=longest_s,
        constraint=leg.constraint or None,
        # One of several legs there has to speak for all of them, or they would be several places.
        work_s=there[0].work_s / there[0].work_share if is_choice and there[0].work_share > 0 else None,
    )
