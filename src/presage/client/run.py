"""A training that tells how far it is, saves itself, and goes on where the job before it stopped.

    run = presage.track(epochs=50, model=model, optimizer=optimizer)
    for epoch in run:
        …                              # train one epoch
        run.report(loss=loss)          # if you like

If there is a checkpoint, the states are loaded and only the epochs that are missing are given. A checkpoint is
written every `every_s` seconds, at the end of an epoch, and when the job is told that its time is running out
(SIGUSR1, as `sbatch --signal=USR1@120` sends): the program then ends with EXIT_TO_BE_CONTINUED, and the next job
goes on. With `run.batches(loader)` that happens between batches too, and batches learned before are skipped.

How far it is goes to a file in its folder and, where whoever submitted the job wants that, over the network.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Sized
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from presage.client.callbacks import first_sequence, sender_of, sub_job
from presage.client.checkpoints import load_checkpoint, save_checkpoint
from presage.client.events import EVENTS_FILE, EventFile, event_document
from presage.client.utilization import Meter
from presage.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

T = TypeVar("T")

EXIT_TO_BE_CONTINUED = 85
"""The program was told to save, did, and ended before it was done."""
EVERY_S = 600.0
FOLDER_VARIABLE = "PRESAGE_RUN_FOLDER"
"""Names the folder of checkpoints and events; whoever submits the job sets it."""
DEFAULT_FOLDER = ".presage/run"
_EVENT_EVERY_S = 5.0
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


class HasState(Protocol):
    """Whatever can be saved: modules, optimizers, schedules, or anything of your own with these two."""

    def state_dict(self) -> Any:
        """Return the state."""

    def load_state_dict(self, state: Any) -> Any:
        """Take a state on."""


def track(epochs: int, *, folder: str | Path | None = None, every_s: float = EVERY_S, **states: HasState) -> Run:
    """Return a training of so many epochs that resumes, reports and saves; loop over it.

    `states` are saved and restored by their names. `folder` is where checkpoints and events go: by default what
    the variable PRESAGE_RUN_FOLDER says, or .presage/run. Raises InputError if a checkpoint is another training's.
    """
    place = Path(folder or os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER)
    return Run(epochs, place, every_s, states)


class Run:
    """One training; made by `track`. Only the process of rank 0 writes, all of them resume."""

    def __init__(self, epochs: int, folder: Path, every_s: float, states: dict[str, HasState]) -> None:
        if epochs < 1:
            raise UsageError(f"A training cannot have {epochs} epochs", expected="a whole number from 1 up")
        self.epochs = epochs
        self.folder = folder
        self.every_s = every_s
        self.epoch = 0
        """Epochs that are done."""
        self.batch = 0
        """Batches of the present epoch that are done."""
        self.resumed_from: Path | None = None
        self.writes = _rank() == 0
        self._states = states
        self._events = EventFile(folder / EVENTS_FILE)
        self._sender = sender_of() if self.writes else None
        self._sequence = first_sequence()
        self._meter = Meter()
        self._asked_to_stop = threading.Event()
        self._began_s = self._saved_s = time.monotonic()
        self._told_s = 0.0
        self._resume()
        self._began_at = self.done
        self._listen()
        self._tell("started", done=self.done, total=epochs, unit="epochs", resumed_from=self.resumed_from)

    @property
    def done(self) -> float:
        """Epochs that are done; a part of one counts where the number of its batches is known."""
        return self.epoch + self._share_of_epoch

    def __iter__(self) -> Iterator[int]:
        """Give the epochs that are missing, from 0; each is done when the next one is asked for."""
        while self.epoch < self.epochs:
            yield self.epoch
            self.epoch, self.batch, self._share_of_epoch = self.epoch + 1, 0, 0.0
            self._tell_progress(now=True)
            self._save_if_due(last=self.epoch >= self.epochs)
        self._tell("finished", done=self.done, total=self.epochs)

    def batches(self, loader: Iterable[T]) -> Iterator[T]:
        """Give the batches to learn in an epoch, those learned before left out; saves between them when told to.

        Call it once in an epoch, for what is learned and not for a validation. The loader has to give the same
        batches in the same order for the same epoch.
        """
        length = len(loader) if isinstance(loader, Sized) else None
        before = self.batch
        for index, batch in enumerate(loader):
            if index < before:
                continue
            yield batch
            self.batch = index + 1
            self._share_of_epoch = min(1.0, self.batch / length) if length else 0.0
            self._tell_progress()
            self._save_if_due()

    def report(self, **metrics: Any) -> None:
        """Tell how good it is: loss, accuracy, what you like."""
        self._tell("performance", done=self.done, metrics=metrics)

    def save(self) -> Path | None:
        """Write a checkpoint now; returns its file, None where another process writes. Raises OutputError."""
        self._saved_s = time.monotonic()
        if not self.writes:
            return None
        position = {"epoch": self.epoch, "batch": self.batch, "share": self._share_of_epoch, "epochs": self.epochs}
        states = {name: each.state_dict() for name, each in self._states.items()}
        path = save_checkpoint(self.folder, position, states)
        self._tell("checkpoint", path=str(path), done=self.done, took_s=time.monotonic() - self._saved_s)
        return path

    def _resume(self) -> None:
        self._share_of_epoch = 0.0
        found = load_checkpoint(self.folder)
        if found is None:
            return
        if set(found.states) != set(self._states):
            raise InputError(
                f"The checkpoint {str(found.path)!r} has {_listed(found.states)}, and this training has "
                f"{_listed(self._states)}",
                remedy="Name another folder, or remove the checkpoint to begin anew",
            )
        for name, each in self._states.items():
            each.load_state_dict(found.states[name])
        self.epoch, self.batch = int(found.position["epoch"]), int(found.position["batch"])
        self._share_of_epoch = float(found.position["share"])
        self.resumed_from = found.path

    def _listen(self) -> None:
        if threading.current_thread() is threading.main_thread():  # the only one that may ask for signals
            signal.signal(signal.SIGUSR1, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._asked_to_stop.set()

    def _save_if_due(self, *, last: bool = False) -> None:
        stops = _any_process(self._asked_to_stop.is_set())
        if last or stops or time.monotonic() - self._saved_s >= self.every_s:
            self.save()
        if stops and not last:
            atexit.register(_leave_group)
            raise SystemExit(EXIT_TO_BE_CONTINUED)

    def _tell_progress(self, *, now: bool = False) -> None:
        if not now and time.monotonic() - self._told_s < _EVENT_EVERY_S:
            return
        self._told_s = time.monotonic()
        elapsed_s = self._told_s - self._began_s
        rate = (self.done - self._began_at) / elapsed_s if elapsed_s > 0 else 0.0
        left_s = (self.epochs - self.done) / rate if rate > 0 else None
        self._tell(
            "progress", done=self.done, total=self.epochs, unit="epochs", elapsed_s=elapsed_s, left_s=left_s
        )
        if self.writes:
            self._tell("utilization", **self._meter.read())

    def _tell(self, kind: str, **values: Any) -> None:
        """Tell something, in the file and to whoever listens; it has a number, so that it counts once."""
        if not self.writes:
            return
        self._sequence += 1
        numbered = {"sub_job": sub_job(), "sequence": self._sequence, **values}
        event = event_document(kind, datetime.now(UTC), numbered)
        self._events.write(event)
        if self._sender is not None:
            self._sender.send(event)


def _rank() -> int:
    return next((int(os.environ[name]) for name in _RANKS if os.environ.get(name, "").isdigit()), 0)


def _any_process(asked: bool) -> bool:
    """Return whether any process of a distributed training was asked, so that all stop at the same batch."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return asked
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    flag = torch.tensor([int(asked)], device=device)
    torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
    return bool(flag.item())


def _leave_group() -> None:
    """Leave the group of a distributed training, unless the program has: its threads would abort the exit."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "no states"
