"""For Keras: `model.fit(…, callbacks=[callback], initial_epoch=callback.resume(model, epochs))`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from presage.client._epochs import TrackedEpochs
from presage.client.run import EVERY_S
from presage.errors import MissingDependencyError

try:
    from keras.callbacks import Callback
except ImportError:
    raise MissingDependencyError("keras", extra="keras", purpose="The callback for Keras") from None

if TYPE_CHECKING:
    from pathlib import Path


class PresageCallback(Callback):
    """Keeps a model and its optimizer in the checkpoints of a tracked run."""

    def __init__(self, folder: str | Path | None = None, every_s: float = EVERY_S) -> None:
        super().__init__()
        self._epochs = TrackedEpochs(folder, every_s)

    def resume(self, model: Any, epochs: int) -> int:
        """Load the latest checkpoint into a compiled and built model; returns the epoch to begin with."""
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        weights, variables = _Weights(model), _Variables(model.optimizer)
        return self._epochs.begin(epochs, model=weights, optimizer=variables).epoch

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Count the epoch, tell of it, and save if it is time."""
        self._epochs.end_epoch(logs or {})


class _Weights:
    """The weights of a model as a state."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def state_dict(self) -> list[Any]:
        return list(self._model.get_weights())

    def load_state_dict(self, state: list[Any]) -> None:
        self._model.set_weights(state)


class _Variables:
    """The variables of an optimizer as a state; before it is built it has none."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def state_dict(self) -> list[Any]:
        from keras import ops

        return [ops.convert_to_numpy(variable.value) for variable in self._optimizer.variables]

    def load_state_dict(self, state: list[Any]) -> None:
        for variable, value in zip(self._optimizer.variables, state, strict=True):
            variable.assign(value)
