"""For Lightning: `Trainer(callbacks=[PresageCallback()])` resumes, reports progress and saves for the next job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from presage.client.run import EVERY_S, Run, track
from presage.errors import MissingDependencyError

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback
    except ImportError:
        raise MissingDependencyError(
            "lightning", extra="lightning", purpose="The callback for Lightning"
        ) from None

if TYPE_CHECKING:
    from pathlib import Path


class PresageCallback(Callback):
    """Keeps module, optimizers and schedules of a Trainer in the checkpoints of a tracked run."""

    def __init__(self, folder: str | Path | None = None, every_s: float = EVERY_S) -> None:
        super().__init__()
        self._folder = folder
        self._every_s = every_s
        self._epochs: Any = None
        self.run: Run | None = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Resume: load the states and tell the Trainer which epoch comes next."""
        states = {f"optimizer{index}": each for index, each in enumerate(trainer.optimizers)}
        schedules = (config.scheduler for config in trainer.lr_scheduler_configs)
        states |= {f"schedule{index}": each for index, each in enumerate(schedules)}
        self.run = track(trainer.max_epochs, folder=self._folder, every_s=self._every_s, model=pl_module, **states)
        trainer.fit_loop.epoch_progress.current.processed = self.run.epoch
        trainer.fit_loop.epoch_progress.current.completed = self.run.epoch
        trainer.should_stop = self.run.epoch >= self.run.epochs
        self._epochs = iter(self.run)
        next(self._epochs, None)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Count the epoch, tell of it, and save if it is time."""
        if self.run is not None:
            self.run.report(**trainer.callback_metrics)
            next(self._epochs, None)
