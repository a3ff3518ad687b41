"""The callbacks with the frameworks they are for, where these are installed."""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from presage.client import EXIT_TO_BE_CONTINUED, load_checkpoint, read_events

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # the frameworks' own warnings


@pytest.fixture(autouse=True)
def _signals_as_before() -> Any:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


def test_lightning_goes_on_where_the_job_before_stopped(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    lightning = pytest.importorskip("lightning")
    from presage.client.lightning import PresageCallback

    class Line(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self, stop_at: int | None) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.stop_at = stop_at
            self.epochs_seen: list[int] = []

        def training_step(self, batch: Any, _index: int) -> Any:
            loss = ((self.layer(batch[0]) - batch[1]) ** 2).mean()
            self.log("loss", loss)
            return loss

        def on_train_epoch_start(self) -> None:
            self.epochs_seen.append(self.current_epoch)
            if self.current_epoch == self.stop_at:
                os.kill(os.getpid(), signal.SIGUSR1)

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=0.1)

    def fit(stop_at: int | None) -> Line:
        x = torch.linspace(0, 1, 8)[:, None]
        data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, 2 * x), batch_size=4)
        trainer = lightning.Trainer(
            max_epochs=4, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, callbacks=[PresageCallback(tmp_path)],
        )  # fmt: skip
        module = Line(stop_at)
        trainer.fit(module, data)
        return module

    with pytest.raises(SystemExit) as stop:
        fit(1)
    assert stop.value.code == EXIT_TO_BE_CONTINUED
    saved = load_checkpoint(tmp_path)
    assert saved is not None
    assert saved.position["epoch"] == 2
    resumed = fit(None)
    assert resumed.epochs_seen == [2, 3]
    metrics = [event for event, _ in read_events(tmp_path / "events.jsonl") if event.kind == "performance"]
    assert len(metrics) == 4
    assert all(event.values["metrics"]["loss"] > 0 for event in metrics)


def test_keras_goes_on_where_the_job_before_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keras = pytest.importorskip("keras")
    from presage.client.keras import PresageCallback

    x = np.linspace(0, 1, 8, dtype=np.float32)[:, None]

    def fit(stop_at: int | None) -> tuple[Any, list[int]]:
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("adam", "mse")
        seen: list[int] = []

        def note(epoch: int, logs: Any = None) -> None:
            seen.append(epoch)
            if epoch == stop_at:
                os.kill(os.getpid(), signal.SIGUSR1)

        callback = PresageCallback(tmp_path / "run")
        first = callback.resume(model, 4)
        watcher = keras.callbacks.LambdaCallback(on_epoch_begin=note)
        model.fit(x, 2 * x, epochs=4, initial_epoch=first, callbacks=[watcher, callback], verbose=0)
        return model, seen

    with pytest.raises(SystemExit) as stop:
        fit(1)
    assert stop.value.code == EXIT_TO_BE_CONTINUED
    saved = load_checkpoint(tmp_path / "run")
    assert saved is not None
    assert saved.states["optimizer"][0] == 2 * 1  # steps: one batch in each of two epochs
    model, seen = fit(None)
    assert seen == [2, 3]
    assert int(model.optimizer.iterations.numpy() if hasattr(model.optimizer.iterations, "numpy") else 4) == 4
