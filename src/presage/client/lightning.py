"""For Lightning: `Trainer(callbacks=[PresageCallback()])` resumes, reports progress and saves for the next job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from presage.client._epochs import TrackedEpochs
from presage.client.run import EVERY_S
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
        self._epochs = TrackedEpochs(folder, every_s)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Resume: load the states and tell the Trainer which epoch comes next."""
        states = {f"optimizer{index}": each for index, each in enumerate(trainer.optimizers)}
        schedules = (config.scheduler for config in trainer.lr_scheduler_configs)
        states |= {f"schedule{index}": each for index, each in enumerate(schedules)}
        run = self._epochs.begin(trainer.max_epochs, model=pl_module, **states)
        trainer.fit_loop.epoch_progress.current.processed = run.epoch
        trainer.fit_loop.epoch_progress.current.completed = run.epoch
        trainer.should_stop = run.epoch >= run.epochs

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Count the epoch, tell of it, and save if it is time."""
        self._epochs.end_epoch(trainer.callback_metrics)
