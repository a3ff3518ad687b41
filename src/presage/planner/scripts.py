"""The legs of a plan as batch scripts for Slurm; nothing of a plan reaches a shell unquoted."""

from __future__ import annotations

import math
import re
import shlex
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from presage.client.run import EXIT_TO_BE_CONTINUED
from presage.errors import UsageError
from presage.estimators.workloads import TrainingWorkload
from presage.planner._script_parts import BODY, CHAIN, NO_CHAIN, TAKE_OVER
from presage.units import format_seconds

if TYPE_CHECKING:
    from presage.planner.plan import Leg, Plan

_NAME = re.compile(r"[\w.+@%:&|*-]+", re.ASCII)
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+@-]+")
_MIB = 1 << 20
_LONGEST_NAME = 60


DONE = ".jobs/done"
"""In the folder of a run, once it has ended."""


def run_folder(plan: Plan) -> Path:
    """Return where the run saves itself, seen from the folder that it is submitted in."""
    return Path(".presage", job_name(plan))


def write_sbatch(plan: Plan, leg: Leg, command: tuple[str, ...] = (), *, chain_as: str = "") -> str:
    """Return the text of a script that runs one leg: `sbatch FILE` does it.

    It tells the program to save before the limit, goes on from a checkpoint if there is one, may be requeued at
    any time, and ends at once if nothing is left to do. `command` is the program with its arguments, the plan's
    own if it is empty. With `chain_as`, the absolute path that the script will have, it also submits its
    successors in the same place, one at a time, each to wait while the one before it runs.

    Raises UsageError if there is no command, or if a name cannot be written to a script.
    """
    words = command or plan.command
    if not words:
        raise UsageError("The plan does not say what to run", remedy="Plan it again with --run COMMAND")
    stretch = next(index for index, legs in enumerate(stretches(plan)) if leg in legs)
    body = BODY.format(
        job=quote(plan.name), number=leg.number, legs=len(plan.legs), stretch=stretch, folder=job_name(plan),
        settings=_settings(leg), take_over=TAKE_OVER if leg.takes_over else "", warning=_warning(plan),
        to_be_continued=EXIT_TO_BE_CONTINUED,
        chain=_chain(stretches(plan)[stretch], chain_as) if chain_as else NO_CHAIN,
        command=("srun " if leg.share.nodes > 1 else "") + " ".join(quote(word) for word in words),
    )  # fmt: skip
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in _directives(plan, leg)), body])


def stretches(plan: Plan) -> list[tuple[Leg, ...]]:
    """Return the legs, those together that go on from each other in one place."""
    numbers = {plan.legs[0].number: 0} if plan.legs else {}
    for before, leg in pairwise(plan.legs):
        numbers[leg.number] = numbers[before.number] + (leg.takes_over is not None)
    grouped = groupby(plan.legs, key=lambda leg: numbers[leg.number])
    return [tuple(legs) for _, legs in grouped]


def job_name(plan: Plan) -> str:
    """Return a name for the job that every scheduler takes."""
    return _UNSAFE.sub("-", plan.name).strip("-.")[:_LONGEST_NAME] or "presage"


def quote(text: str) -> str:
    """Return a word that a shell takes as it is. Raises UsageError if no shell can."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise UsageError(
            f"{text!r} cannot be a word of a command", expected="text without NUL and lone surrogates"
        )
    return shlex.quote(text)


def training_settings(leg: Leg) -> dict[str, str]:
    """Return the environment in which a training finds its options."""
    if not isinstance(leg.workload, TrainingWorkload):
        return {}
    options = leg.workload.options
    return {
        "PRESAGE_BATCH": str(options.batch),
        "PRESAGE_ACCUMULATION": str(options.accumulation),
        "PRESAGE_PRECISION": options.precision.value,
        "PRESAGE_WORKERS": str(options.workers),
    }


def _chain(legs: tuple[Leg, ...], file: str) -> str:
    last = legs[-1]
    return CHAIN.format(last=last.number, last_time=format_seconds(last.walltime_s), file=quote(file))


def _settings(leg: Leg) -> str:
    return "".join(f"export {name}={quote(value)}\n" for name, value in training_settings(leg).items())


def _directives(plan: Plan, leg: Leg) -> list[str]:
    share = leg.share
    lines = [
        f"--job-name={job_name(plan)}",
        f"--partition={_checked(leg.partition, 'partition')}",
        f"--nodes={share.nodes}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={share.cores}",
        f"--time={format_seconds(leg.walltime_s)}",
        *([f"--signal=B:USR1@{_warning(plan)}"] if plan.warning_s else []),
        "--requeue",
        "--open-mode=append",
    ]
    if share.memory_bytes is not None:
        lines.append(f"--mem={math.ceil(share.memory_bytes / _MIB)}M")
    if share.gpus:
        lines.append(f"--gpus-per-node={share.gpus}")
    if leg.constraint:
        lines.append(f"--constraint={_checked(leg.constraint, 'constraint')}")
    return lines


def _warning(plan: Plan) -> int:
    return max(1, math.ceil(plan.warning_s))


def _checked(name: str, kind: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"The {kind} {name!r} cannot be written to a script",
            expected="letters, digits and . + @ % : & | * - alone",
            remedy="Correct the catalogue of systems",
        )
    return name
