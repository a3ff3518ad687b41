"""`presage.estimate`: what a network that is here, or in a file, needs to be trained."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from presage.choices import choice_of
from presage.errors import UsageError
from presage.estimators.repository import Repository
from presage.estimators.training.estimating import TrainingEstimate, estimate_training
from presage.estimators.workloads import Attention, Precision, Sharding, TrainingOptions, TrainingWorkload
from presage.helper.tables import Shown, Table
from presage.units import format_bytes, spell_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from presage.estimators.training.profile import StepProfile
    from presage.estimators.workloads import Target
    from presage.helper.planning import Planning

    Profiling = Callable[[TrainingWorkload, str], StepProfile]


@dataclass(frozen=True, repr=False)
class Estimation(Shown):
    """Estimates of one training, by batch size and device."""

    estimates: tuple[TrainingEstimate, ...]
    profiling: Profiling | None = None
    """How its steps are traced, where the network is an object of this program."""

    def plan(self, systems: Sequence[Any], **how: Any) -> Planning:
        """Plan the training across systems; see `presage.plan`."""
        from presage.helper.planning import plan

        return plan(self, systems, **how)

    def workloads(self) -> list[TrainingWorkload]:
        """Return the variants that were estimated, each once."""
        return list(dict.fromkeys(each.workload for each in self.estimates))

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {"estimates": [each.as_dict() for each in self.estimates]}

    def tables(self) -> tuple[Table, ...]:
        """Return one row for each batch size and device."""
        first = self.estimates[0]
        rows = tuple(
            (
                str(each.workload.options.batch), each.place, each.memory.spread.words(format_bytes),
                each.verdict, each.walltime.spread.words(spell_seconds) if each.walltime else "",
                each.memory.basis.value,
            )
            for each in self.estimates
        )  # fmt: skip
        title = f"{first.workload.name or first.workload.model}: {first.profile.parameter_count:,} parameters"
        return (Table(title, ("batch", "where", "memory", "fits", "time", "memory is"), rows),)

    def plot(self) -> Any:
        """Return a figure of memory by batch size. Raises MissingDependencyError without matplotlib."""
        from presage.helper.plots import memory_figure

        return memory_figure(self.estimates)


def estimate(
    model: Any,
    inputs: Any = None,
    *,
    batch_sizes: int | Sequence[int] = (32,),
    epochs: float | None = None,
    samples: int | None = None,
    optimizer: str = "adamw",
    precision: str = "fp32",
    accumulation: int = 1,
    activation_checkpointing: bool = False,
    attention: str = "as-written",
    loss: Callable[[Any], Any] | None = None,
    gpus: str | Sequence[str] = (),
    measure: int = 0,
) -> Estimation:
    """Estimate memory and time of a training, for every batch size, on this machine or on some GPUs.

    `model` is a torch module, a function that makes one, or where one comes from (`train.py:build_model`, `hf:…`,
    `onnx:…`, `keras:…`). `inputs` are example tensors whose first dimension is the batch, or a function of the
    batch size; for a network in a file, shapes without the batch, like `(3, 224, 224)`. `loss` takes the outputs.
    `measure` takes so many real steps, of a network in a file. Raises UsageError, InputError,
    MissingDependencyError.
    """
    batches = [batch_sizes] if isinstance(batch_sizes, int) else list(batch_sizes)
    if not batches or not all(isinstance(batch, int) and batch >= 1 for batch in batches):
        raise UsageError(f"Batch sizes cannot be {batches}", expected="whole numbers from 1 up")
    for what, amount in (("epochs", epochs), ("samples", samples)):
        if amount is not None and not 0 < amount < math.inf:
            raise UsageError(f"{what} cannot be {amount}", expected="a number above 0")
    options = TrainingOptions(
        optimizer=optimizer, precision=choice_of(Precision, precision, "precision"), accumulation=accumulation,
        activation_checkpointing=activation_checkpointing,
        attention=choice_of(Attention, attention, "attention"), sharding=Sharding.NONE,
    )  # fmt: skip
    common = _workload(model, inputs, TrainingWorkload("", (), options=options, samples=samples, epochs=epochs))
    workloads = [replace(common, options=replace(options, batch=batch)) for batch in dict.fromkeys(batches)]
    profiling = None if isinstance(model, str) else _object_profiling(model, inputs, loss)
    measuring = _measuring(model, measure) if measure else None
    targets: list[Target | None] = [_on_gpu(name) for name in ([gpus] if isinstance(gpus, str) else gpus)]
    found = estimate_training(
        workloads, targets or [None], profiling=profiling, measuring=measuring, repository=Repository()
    )
    return Estimation(tuple(found), profiling)


def _workload(model: Any, inputs: Any, blank: TrainingWorkload) -> TrainingWorkload:
    if not isinstance(model, str):
        name = type(model).__name__ if not callable(model) or hasattr(model, "parameters") else model.__name__
        return replace(blank, model=name, name=name)
    shapes = inputs or ()
    if shapes and all(isinstance(size, int) for size in shapes):
        shapes = (shapes,)
    if not all(
        isinstance(shape, tuple | list) and all(isinstance(size, int) for size in shape) for shape in shapes
    ):
        raise UsageError(
            "The inputs of a network in a file are shapes without the batch", expected="tuples like (3, 224, 224)"
        )
    return replace(blank, model=model, inputs=tuple(tuple(shape) for shape in shapes))


def _object_profiling(model: Any, inputs: Any, loss: Callable[[Any], Any] | None) -> Profiling:
    """Return how steps of an object are traced, each kind of step once."""
    from presage.estimators.training.isolation import trace_object

    if inputs is None:
        raise UsageError("Nobody says what the network takes", expected="example tensors as the second argument")
    known: dict[tuple[TrainingOptions, str], StepProfile] = {}

    def profile(workload: TrainingWorkload, device: str) -> StepProfile:
        key = (workload.options, device)
        if key not in known:
            known[key] = trace_object(model, inputs, workload.options, loss=loss, device=device)
        return known[key]

    return profile


def _measuring(model: Any, steps: int) -> Any:
    from presage.estimators.training.measuring.steps import measure_steps

    if not isinstance(model, str):
        raise UsageError(
            "Real steps of an object of this program are not taken for it",
            remedy="Name a file and a function, like train.py:build_model",
        )
    return lambda workload: measure_steps(workload, steps=steps)


def _on_gpu(name: str) -> Target:
    from presage.clusters import find_gpu
    from presage.estimators.workloads import one_gpu

    return one_gpu(find_gpu(name))
