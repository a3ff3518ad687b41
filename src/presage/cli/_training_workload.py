"""What commands that are asked about a training have in common: its arguments and options, each written once."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.choices import choice_of
from presage.cli._groups import with_group
from presage.cli._output import names_in
from presage.errors import UsageError

if TYPE_CHECKING:
    from presage.estimators.workloads import TrainingWorkload


_TRAINING = "The training"
_INPUT = re.compile(r"(?:(?P<kind>int:\d+|float):)?(?P<shape>\d+(?:x\d+)*)")
_MOST_NUMBERS = 64
_MOST = 10**12


def _option(name: str, words: str, **how: Any) -> Any:
    return typer.Option(name, help=words, rich_help_panel=_TRAINING, **how)


Model = Annotated[
    str | None,
    typer.Argument(metavar="MODEL", help="A function that builds the network, like train.py:build_model."),
]
HfConfig = Annotated[
    str | None, _option("--hf-config", "Instead: a configuration of transformers.", metavar="FILE")
]
Onnx = Annotated[str | None, _option("--onnx", "Instead: an exported network.", metavar="FILE")]
Keras = Annotated[str | None, _option("--keras", "Instead: a Keras model's JSON.", metavar="FILE")]
Inputs = Annotated[
    list[str] | None,
    _option("--input", "Shape of an input without the batch, like 3x224x224 or int:30522:128; repeatable."),
]
Batch = Annotated[str, _option("--batch", "Samples of one device in one pass; several with commas.")]
Epochs = Annotated[float | None, _option("--epochs", "How often all samples are seen.")]
Samples = Annotated[int | None, _option("--samples", "How many samples there are.")]
Optimizer = Annotated[str, _option("--optimizer", "Like adamw or sgd.")]
PrecisionName = Annotated[
    str, _option("--precision", "fp32, tf32, amp-bf16, amp-fp16 or bf16; several with commas.")
]
Accumulation = Annotated[int, _option("--accumulation", "Passes before the weights change.", min=1)]
CheckpointActivations = Annotated[
    bool, _option("--checkpoint-activations", "Compute activations again instead of keeping them.")
]
AttentionName = Annotated[str, _option("--attention", "as-written, materialised or flash.")]
ShardingName = Annotated[str, _option("--sharding", "What devices share: none, ddp or fsdp.")]
Workers = Annotated[int, _option("--workers", "Devices over which batches are spread.", min=1)]


@dataclass(frozen=True)
class TrainingCall:
    """A training as it was named on the command line: one option for each field."""

    model: Model = None
    hf_config: HfConfig = None
    onnx: Onnx = None
    keras: Keras = None
    inputs: Inputs = None
    batch: Batch = "32"
    epochs: Epochs = None
    samples: Samples = None
    optimizer: Optimizer = "adamw"
    precision: PrecisionName = "fp32"
    accumulation: Accumulation = 1
    checkpoint_activations: CheckpointActivations = False
    attention: AttentionName = "as-written"
    sharding: ShardingName = "none"
    workers: Workers = 1

    @property
    def is_named(self) -> bool:
        """Whether there is a network at all."""
        return any((self.model, self.hf_config, self.onnx, self.keras))

    def workloads(self) -> list[TrainingWorkload]:
        """Return one workload per batch size and precision. Raises UsageError saying what is wrong."""
        from presage.estimators.workloads import (
            Attention,
            Precision,
            Sharding,
            TrainingOptions,
            TrainingWorkload,
        )

        source = self._source()
        kinds, shapes = _inputs_of(self.inputs or [])
        _check_amount("--epochs", self.epochs)
        _check_amount("--samples", self.samples)
        common = TrainingWorkload(source, shapes, kinds, samples=self.samples, epochs=self.epochs)
        options = TrainingOptions(
            optimizer=self.optimizer, accumulation=self.accumulation, workers=self.workers,
            activation_checkpointing=self.checkpoint_activations,
            attention=choice_of(Attention, self.attention, "--attention"),
            sharding=choice_of(Sharding, self.sharding, "--sharding"),
        )  # fmt: skip
        precisions = [
            choice_of(Precision, each, "--precision") for each in names_in(self.precision, "--precision")
        ]
        return [
            replace(common, options=replace(options, batch=batch, precision=precision))
            for precision in dict.fromkeys(precisions)
            for batch in numbers_in(self.batch, "--batch")
        ]

    def _source(self) -> str:
        named = {
            "MODEL": self.model,
            "--hf-config": self.hf_config and f"hf:{self.hf_config}",
            "--onnx": self.onnx and f"onnx:{self.onnx}",
            "--keras": self.keras and f"keras:{self.keras}",
        }
        given = {option: source for option, source in named.items() if source}
        if len(given) != 1:
            problem = f"{' and '.join(given)} were given together" if given else "No network is named"
            raise UsageError(problem, expected="one of MODEL, --hf-config, --onnx and --keras")
        return next(iter(given.values()))


with_training = with_group(TrainingCall, "training")
"""Gives a command the argument and options of `TrainingCall`."""


def numbers_in(text: str, option: str, least: int = 1) -> list[int]:
    """Return the whole numbers in a comma-separated option, each once. Raises UsageError."""
    names = names_in(text, option)
    if len(names) > _MOST_NUMBERS or any(
        not re.fullmatch(r"[0-9]{1,12}", name) or int(name) < least for name in names
    ):
        raise UsageError(
            f"{option} {text!r} is no list of numbers",
            expected=f"at most {_MOST_NUMBERS} whole numbers from {least} up, with commas, like 32,64",
        )
    return list(dict.fromkeys(int(name) for name in names))


def _inputs_of(texts: list[str]) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    kinds, shapes = [], []
    for text in texts:
        match = _INPUT.fullmatch(text.strip().lower())
        shape = tuple(int(size[:13]) for size in match["shape"].split("x")) if match else ()
        if match is None or not all(0 < size < _MOST for size in shape):
            raise UsageError(
                f"--input {text!r} is no shape",
                expected="sizes without the batch, like 3x224x224, or int:30522:128 for whole numbers below 30522",
            )
        kinds.append(match["kind"] or "float")
        shapes.append(shape)
    all_float = all(kind == "float" for kind in kinds)
    return () if all_float else tuple(kinds), tuple(shapes)


def _check_amount(option: str, amount: float | None) -> None:
    if amount is not None and not 0 < amount < _MOST:
        raise UsageError(f"{option} {amount:g} cannot be", expected="a number above 0")
