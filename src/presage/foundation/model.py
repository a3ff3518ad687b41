"""A trained model: its networks, how they read a question, and the file they are kept in."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from presage.errors import InputError
from presage.foundation.forward import Forward
from presage.foundation.scaling import Scaling
from presage.foundation.view import numbers
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from presage.foundation.view.examples import Examples
    from presage.foundation.view.seen import Seen

    Floats = NDArray[np.float32]
    Curves = NDArray[np.float64]

FORMAT = 1
BATCH = 64
SHIPPED = "presage-2.safetensors"


@dataclass(frozen=True)
class Tower:
    """The part of a model that answers questions of one task."""

    task: Task
    shape: dict[str, int]
    """The sizes of the network, as in `training.network.Shape`."""
    weights: Mapping[str, Floats]
    scaling: Scaling
    forward: Forward = field(init=False, repr=False)

    def __post_init__(self) -> None:
        shape = self.shape
        forward = Forward(
            self.weights, layers=shape["layers"], heads=shape["heads"], free=shape["free"], ends=shape["ends"]
        )
        object.__setattr__(self, "forward", forward)

    def answer(self, seen: Seen) -> tuple[Curves, Curves | None]:
        """Return the distributions on GRID of some questions, and the chances of each end (B, E).

        The distribution is the mean of two: one that sees the numbers of the question, one that sees the earlier
        jobs alone. On clusters unlike those of the training the second is the better one, elsewhere the first.
        The ends are those of the second, which ranks jobs better even where it is not needed for durations.
        """
        x = self.scaling.apply(seen.x)
        blind = np.zeros_like(x)
        blind[:, numbers.ALWAYS_SEEN] = x[:, numbers.ALWAYS_SEEN]
        x = np.concatenate([x, blind])
        mixture, ends = self.forward.one(seen, x) if len(seen.x) == 1 else self.forward(seen.twice(x))
        curves = _mean_of_halves(mixture.curve(np.tile(seen.age_s, 2)))
        return curves, None if ends is None else ends[len(seen.x) :].astype(np.float64)

    def answers(self, examples: Examples, rows: NDArray[np.int64]) -> tuple[Curves, Curves | None]:
        """Return the same for many questions, some at a time."""
        # Threads that each take a part of a small product get in each other's way.
        with threadpool_limits(1, "blas"):
            parts = [
                self.answer(examples.seen(rows[begin : begin + BATCH], self.task))
                for begin in range(0, max(len(rows), 1), BATCH)
            ]
        curves = np.concatenate([part[0] for part in parts])
        ends = [part[1] for part in parts if part[1] is not None]
        return curves, np.concatenate(ends) if ends else None


def _mean_of_halves(both: Curves) -> Curves:
    half = len(both) // 2
    return (both[:half] + both[half:]) / 2


@dataclass(frozen=True)
class Model:
    """What forecasts are made with."""

    towers: dict[Task, Tower]
    about: dict[str, Any] = field(default_factory=dict)
    """Where it comes from: version, recipe, clusters it was trained on, what was measured."""

    @property
    def version(self) -> str:
        """The name under which its forecasts are recorded."""
        return str(self.about.get("version", "unnamed"))

    def save(self, path: str | Path) -> None:
        """Write the model as one safetensors file; an earlier one is replaced only when all is written."""
        from safetensors.numpy import save

        from presage.traces.files import replacing

        tensors: dict[str, Floats] = {}
        for task, tower in self.towers.items():
            tensors |= {f"{task}/{name}": value for name, value in tower.weights.items()}
            tensors |= {f"{task}/scaling.mean": tower.scaling.mean, f"{task}/scaling.spread": tower.scaling.spread}
        shapes = {task.value: tower.shape for task, tower in self.towers.items()}
        head = {"format": FORMAT, "numbers": numbers.VERSION, "shapes": shapes, "about": self.about}
        tensors = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
        with replacing(Path(path)) as partial:
            partial.write_bytes(save(tensors, {"presage": json.dumps(head)}))

    @classmethod
    def load(cls, path: str | Path | None = None) -> Model:
        """Read a model; without a path, the one that comes with Presage. Raises InputError if it is none."""
        if path is None:
            with resources.as_file(resources.files("presage.foundation") / "weights" / SHIPPED) as shipped:
                return cls.load(shipped)
        path = Path(path)
        head, tensors = _read(path)
        if head.get("format") != FORMAT or head.get("numbers") != numbers.VERSION:
            raise InputError(
                f"{path.name} is a model of another version of Presage",
                expected=f"format {FORMAT} with numbers of version {numbers.VERSION}",
                remedy="Train it again with `presage model finetune`, or use the model that comes with Presage",
            )
        towers = {}
        for name, shape in head["shapes"].items():
            own = {
                key.removeprefix(f"{name}/"): each for key, each in tensors.items() if key.startswith(f"{name}/")
            }
            scaling = Scaling(own.pop("scaling.mean"), own.pop("scaling.spread"))
            towers[Task(name)] = Tower(Task(name), shape, own, scaling)
        return cls(towers, head["about"])


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Floats]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as opened:
            head = json.loads((opened.metadata() or {})["presage"])
            return head, {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (no mapping)
    except FileNotFoundError:
        raise InputError(f"There is no model at {path}", remedy="Check the path given with --model") from None
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise InputError(
            f"{path.name} is not a model of Presage: {error}", expected="a file that `presage model` wrote"
        ) from None
