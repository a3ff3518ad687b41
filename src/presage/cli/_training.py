"""What `presage synth train` is made of: the folder of a model, the promise of privacy, what people are told."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from presage.cli._output import duration, tell
from presage.errors import MissingDependencyError, OutputError, UsageError
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from presage.synthesizers import Privacy, Synthesizer
    from presage.traces import Trace

CHECKPOINT = "checkpoint.safetensors"
_DELTA_POWER = 1.1


@contextmanager
def model_folder(out: str, *, resume: bool, force: bool, private: bool) -> Iterator[Path]:
    """Give the folder for a model; one that was made here and stays empty goes away again.

    Of trainings that are not gone on with nothing stays there: beside a private model it would tell the log.

    Raises UsageError if there is something that nobody said to replace, OutputError if nothing can be written.
    """
    from presage.synthesizers._files import HEAD, drop_checkpoints, make_folder

    if resume and force:
        raise UsageError("Both --resume and --force were given", expected="one of the two")
    was_there = Path(out).exists()
    folder = make_folder(out)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"Nothing can be written to {out!r}", remedy="Check the rights there, or name another")
    checkpoint, trained = folder / CHECKPOINT, (folder / HEAD).exists()
    if trained and not force and not (resume and checkpoint.exists()):
        raise UsageError(
            f"There is a trained model in {out!r}" + (" and nothing to go on with" if resume else ""),
            remedy="Name another folder, or replace it with --force",
        )
    if private and checkpoint.exists() and not force:
        raise UsageError(
            f"The interrupted training in {out!r} is not a private one",
            remedy="Begin anew with --force, or name another folder",
        )
    if checkpoint.exists() and not resume and not force:
        raise UsageError(
            f"There is an interrupted training in {out!r}",
            remedy="Go on with --resume, begin anew with --force, or name another folder",
        )
    if resume and not checkpoint.exists():
        tell(f"There is no interrupted training in {out!r}: it begins anew")
    if not (resume and checkpoint.exists()):
        drop_checkpoints(checkpoint)
    try:
        yield folder
    finally:
        if not was_there:
            with suppress(OSError):  # which it is if it is not empty
                folder.rmdir()


def tell_how_to_go_on(folder: Path) -> None:
    """Say what an interrupted training left behind."""
    if (folder / CHECKPOINT).exists():
        tell(f"{folder / CHECKPOINT} has what was learned so far: the same call with --resume goes on from it")
    else:
        tell("Nothing was kept that could be gone on with: the next call begins anew")


def check_privacy(model: str, epsilon: float | None, delta: float | None) -> None:
    """Raise what can be known of a promise that cannot be kept before a log is read."""
    from presage.synthesizers import PRIVATE_KINDS

    if epsilon is None and delta is not None:
        raise UsageError("--dp-delta alone promises nothing", remedy="Say --dp-epsilon, too")
    if epsilon is None:
        return
    if model not in PRIVATE_KINDS:
        raise UsageError(
            f"A {model} model cannot learn with differential privacy",
            expected=f"one of {', '.join(PRIVATE_KINDS)} with --dp-epsilon",
            remedy="Name another model, or leave out --dp-epsilon",
        )
    if find_spec("opacus") is None:
        raise MissingDependencyError("opacus", extra="private", purpose="Training under privacy")
    _promise(epsilon, 1e-6 if delta is None else delta)


def privacy_of(trace: Trace, epsilon: float | None, delta: float | None) -> Privacy | None:
    """Return the promise; its delta is below 1 / jobs where none is given."""
    if epsilon is None:
        return None
    from presage.synthesizers.columns import usable_jobs

    return _promise(epsilon, delta if delta is not None else len(usable_jobs(trace)) ** -_DELTA_POWER)


def _promise(epsilon: float, delta: float) -> Privacy:
    from presage.synthesizers import Privacy

    return Privacy(epsilon, delta)


def tell_what_is_missing(trace: Trace) -> None:
    """Say what a log lacks that will be missed later."""
    if not trace.manifest.has["users"]:
        tell("The log names no users: all jobs count as those of one, so nobody's habits are learned")
    machine = trace.manifest.machine
    has = trace.manifest.has
    nodes = trace.jobs["nodes_req"].null_count() < len(trace)
    sizes = {"--gpus": has["gpus"], "--processors": has["cpus"] or has["allocated_cpus"], "--nodes": nodes}
    if any(sizes.values()) and not (machine.cpus or machine.gpus or machine.nodes):
        first = next(option for option, known in sizes.items() if known)
        tell(f"The log does not say how large its machine is: a load will need {first}")
    if not any(sizes.values()):
        tell("The log does not say how large its jobs are: there will be no loads and no waits")


def training_document(out: str, trained: Synthesizer) -> dict[str, Any]:
    """Return what a training did, for machines."""
    source = trained.source
    return {
        "out": out,
        "model": trained.name,
        "jobs": source.jobs,
        "trained_on": source.name,
        "load": source.load,
        "settings": asdict(trained.settings),
        "record": trained.record,
    }


def print_training(out: str, trained: Synthesizer) -> None:
    """Print what a training did in one line."""
    record = trained.record
    told = [f"{trained.name} of {counted(trained.source.jobs, 'job')}", f"{duration(record['cpu_s'])} of CPU time"]
    if record.get("scores"):
        told.append(f"best after epoch {record['best_epoch']} of {record['epochs']}")
    if record["privacy"]:
        promise = record["privacy"]
        told.append(
            f"private: epsilon {promise['epsilon']:.3g}, delta {promise['delta']:.2g}, of {promise['unit']}"
        )
    typer.echo(f"{out}: {'; '.join(told)}")
