"""Counts of a traced step: by hand where that can be done, and against real steps on this CPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from presage.errors import InputError, UnknownNameError, UsageError  # noqa: E402
from presage.estimators.training.measuring.memory import measure_peak  # noqa: E402
from presage.estimators.training.profile import StepProfile, parse_profile  # noqa: E402
from presage.estimators.training.tracing.losses import usual_loss  # noqa: E402
from presage.estimators.training.tracing.objects import ObjectSource  # noqa: E402
from presage.estimators.training.tracing.step import trace_step  # noqa: E402
from presage.estimators.workloads import Attention, Precision, Sharding, TrainingOptions  # noqa: E402
from presage.testing.networks import find_network  # noqa: E402

OPTIONS = TrainingOptions(batch=4, optimizer="sgd")


def trace(
    network: Any, *shape: int, options: TrainingOptions = OPTIONS, on_gpu: bool = False, loss: Any = torch.sum
) -> StepProfile:
    source = ObjectSource(network, lambda batch: torch.zeros(batch, *shape), loss)
    return trace_step(source, options, on_gpu=on_gpu)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16, bias=False), nn.ReLU(), nn.Linear(16, 4, bias=False))


def test_a_perceptron_is_right_to_the_byte() -> None:
    profile = trace(perceptron, 8, options=replace(OPTIONS, batch=1000))
    weights = 4 * (8 * 16 + 16 * 4)
    hidden = 4 * 1000 * 16
    # At the gradient of the hidden layer's inputs: inputs, its output and two gradients of its size, the outputs,
    # the loss and its gradient; of the weights' gradients the last layer's is there.
    activations = 4 * 1000 * 8 + 3 * hidden + 4 * 1000 * 4 + 2 * 4
    assert profile.parameter_count == 192
    assert profile.parts.parameters == profile.parameter_bytes == weights
    assert profile.parts.gradients == 4 * 16 * 4
    assert profile.parts.optimizer == 0
    assert profile.parts.activations == activations
    assert profile.peak_bytes == weights + 4 * 16 * 4 + activations


@pytest.mark.parametrize(
    ("name", "copies"), [("sgd", 0), ("sgd-momentum", 1), ("adam", 2), ("AdamW", 2), ("rmsprop", 1)]
)
def test_state_of_optimizers(name: str, copies: int) -> None:
    profile = trace(perceptron, 8, options=replace(OPTIONS, batch=1, optimizer=name), on_gpu=True)
    assert profile.parts.optimizer == copies * profile.parameter_bytes


def test_on_a_cpu_the_count_of_steps_is_there_too() -> None:
    profile = trace(perceptron, 8, options=replace(OPTIONS, optimizer="adam"))
    assert profile.parts.optimizer == 2 * profile.parameter_bytes + 2 * 4


def test_optimizers_of_gpus_take_all_weights_at_once() -> None:
    def deep() -> nn.Module:
        return nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(8)))

    options = TrainingOptions(batch=1, optimizer="adamw")
    one_by_one, together = (trace(deep, 64, options=options, on_gpu=on_gpu) for on_gpu in (False, True))
    inputs = 4 * 64
    assert together.peak_bytes == 5 * together.parameter_bytes + inputs  # the fifth: roots of all second moments
    assert one_by_one.peak_bytes < together.peak_bytes


def test_products_of_matrices() -> None:
    profile = trace(perceptron, 8)
    forward = 2 * 4 * (8 * 16 + 16 * 4)
    # backward: all weights, and the inputs of the last layer
    assert profile.classes["matmul"].flops == 2 * forward + 2 * 4 * 16 * 4
    assert profile.classes["matmul"].calls == 2 + 3


def test_grouped_convolutions_backward_are_not_overcounted() -> None:
    first = nn.Conv2d(8, 16, 3, padding=1, groups=4, bias=False)
    second = nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False)
    profile = trace(nn.Sequential(first, second), 8, 5, 5, options=replace(OPTIONS, batch=2))
    grouped = 2 * (2 * 16 * 25) * (2 * 9)
    depthwise = 2 * (2 * 16 * 25) * 9
    assert profile.classes["conv"].flops == 2 * grouped  # nobody wants the gradient of the inputs
    assert profile.classes["depthwise-conv"].flops == 3 * depthwise


def test_transposed_convolution() -> None:
    layer = nn.ConvTranspose2d(6, 10, 4, stride=2, bias=False)
    profile = trace(layer, 6, 5, 5, options=replace(OPTIONS, batch=2))
    assert profile.classes["conv"].flops == 2 * 2 * (2 * 6 * 25) * (10 * 16)


class Attend(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(16, 48)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        heads = (each.unflatten(-1, (2, 8)).transpose(1, 2) for each in self.mix(tokens).chunk(3, -1))
        return functional.scaled_dot_product_attention(*heads, dropout_p=0.1)


def test_attention_is_counted_and_its_matrix_kept_or_not() -> None:
    options = replace(OPTIONS, batch=2)
    flash, whole = (
        trace(Attend, 128, 16, options=replace(options, attention=kind), on_gpu=True)
        for kind in (Attention.FLASH, Attention.MATERIALISED)
    )
    pairs = 2 * 2 * 128 * 128
    assert flash.classes["attention"].flops == 2 * pairs * (8 + 8) + 2 * pairs * (3 * 8 + 2 * 8)
    assert "attention" not in whole.classes
    assert whole.peak_bytes - flash.peak_bytes > 4 * pairs
    assert not flash.verified
    assert whole.verified
    written = trace(Attend, 128, 16, options=options, on_gpu=False)
    assert written.peak_bytes > flash.peak_bytes  # with dropout, a CPU keeps the matrix


def test_kept_embeddings_are_read_only_where_they_are_picked() -> None:
    source = ObjectSource(nn.Embedding(1000, 8), lambda batch: torch.zeros(batch, 3, dtype=torch.long), torch.sum)
    profile = trace_step(source, OPTIONS, on_gpu=False)
    picked = 4 * 3 * 8 * 4
    indices = 4 * 3 * 8
    backward = picked + indices + 1000 * 8 * 4
    assert profile.classes["embedding"].bytes == 2 * picked + indices + backward


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(500, 8)
        self.head = nn.Linear(8, 500, bias=False)
        self.head.weight = self.table.weight
        self.scale = [torch.ones(8)]  # no buffer: torch does not know of it

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(tokens) * self.scale[0])


@pytest.mark.parametrize("where", ["here", "on meta", "bf16"])
def test_tied_weights_stay_tied(where: str) -> None:
    def build() -> nn.Module:
        with torch.device("meta" if where == "on meta" else "cpu"):
            return Tied()

    options = replace(OPTIONS, precision=Precision.BF16 if where == "bf16" else Precision.FP32)
    source = ObjectSource(build() if where == "here" else build, torch.zeros(1, 3, dtype=torch.long), None)
    profile = trace_step(source, options, on_gpu=False)
    assert profile.parameter_count == 500 * 8
    assert profile.parameter_bytes == 500 * 8 * (2 if where == "bf16" else 4)


def test_networks_that_read_numbers_while_built_are_built_for_real() -> None:
    def build() -> nn.Module:
        return nn.Sequential(*(nn.Linear(4, 4) for rate in torch.linspace(0, 1, 3) if rate.item() < 0.6))

    assert trace(build, 4).parameter_count == 2 * 20


def test_accumulation_repeats_passes_and_keeps_gradients() -> None:
    once, often = (trace(perceptron, 8, options=replace(OPTIONS, accumulation=count)) for count in (1, 10))
    assert often.classes["matmul"].flops == 10 * once.classes["matmul"].flops
    assert often.parts.gradients > once.parts.gradients


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(32, 32)

    def forward(self, row: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.inner(row)).exp()


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(6))

    def forward(self, row: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            row = layer(row)
        return row


def test_sharding() -> None:
    options = TrainingOptions(batch=1, optimizer="adam", workers=4)
    alone, ddp, fsdp = (
        trace(Deep, 32, options=replace(options, sharding=kind), on_gpu=True)
        for kind in (Sharding.NONE, Sharding.DDP, Sharding.FSDP)
    )
    assert alone.largest_layer_bytes == alone.parameter_bytes // 6
    assert ddp.peak_bytes == alone.peak_bytes + alone.parameter_bytes
    assert fsdp.parts.optimizer == alone.parts.optimizer // 4
    assert fsdp.peak_bytes < alone.peak_bytes
    assert alone.verified
    assert not ddp.verified
    assert not fsdp.verified


def test_mixed_precision_halves_what_products_keep() -> None:
    def build() -> nn.Module:
        return nn.Sequential(*(nn.Linear(64, 64) for _ in range(8)))

    options = replace(OPTIONS, batch=4096)
    full, mixed = (
        trace(build, 64, options=replace(options, precision=kind), on_gpu=True)
        for kind in (Precision.TF32, Precision.AMP_BF16)
    )
    row = 4 * 4096 * 64
    kept = row + 8 * row // 2 + 8 * 2 * (64 * 64 + 64)  # inputs, what products had of them and of weights, in bf16
    summed = row // 2 + row + 4  # outputs, again in fp32 because they are summed up, and the sum
    assert mixed.parts.activations == kept + summed
    assert mixed.parameter_bytes == full.parameter_bytes
    assert full.verified
    assert not mixed.verified


def test_equal_steps_have_equal_digests_and_others_do_not() -> None:
    one, again, other = (trace(perceptron, 8, options=replace(OPTIONS, batch=batch)) for batch in (4, 4, 5))
    assert one == again
    assert one.digest != other.digest
    assert parse_profile(one.as_dict()) == one


def test_errors_say_what_is_wrong() -> None:
    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def forward(self, row: torch.Tensor) -> torch.Tensor:
            return self.inner(row)[:, : int(row.sum().item())]

    with pytest.raises(InputError, match="depends on the values"):
        trace(Looks, 8)
    with pytest.raises(InputError, match="running the network forward"):
        trace(perceptron, 9)
    with pytest.raises(InputError, match="no weights"):
        trace(nn.ReLU, 8)
    with pytest.raises(InputError, match=r"a torch\.nn\.Module"):
        trace(lambda: 3, 8)
    with pytest.raises(UnknownNameError, match="adamw"):
        trace(perceptron, 8, options=replace(OPTIONS, optimizer="adamv"))
    with pytest.raises(UsageError, match="batch"):
        trace(perceptron, 8, options=replace(OPTIONS, batch=0))


def test_the_usual_loss() -> None:
    logits = torch.zeros(5, 4, requires_grad=True)
    assert usual_loss(logits).item() == pytest.approx(1.3862944)
    assert usual_loss(logits.reshape(1, 5, 4)).item() == pytest.approx(1.3862944)
    assert usual_loss({"a": logits + 2.0, "ids": torch.zeros(3, dtype=torch.long)}).item() == 4.0
    assert usual_loss({"loss": logits.sum() + 7}).item() == 7.0
    with pytest.raises(InputError, match="no tensor"):
        usual_loss({"ids": torch.zeros(3, dtype=torch.long)})


def _error(name: str, options: TrainingOptions) -> float:
    network = find_network(name)
    options = replace(options, batch=max(1, network.batch // 4))
    inputs = partial(network.inputs, options.batch)
    source = ObjectSource(network.build, lambda batch: inputs(), None)
    counted = trace_step(source, options, on_gpu=False).peak_bytes
    return counted / _least_peak(network.build, inputs, options) - 1


def _least_peak(
    build: Callable[[], nn.Module], inputs: Callable[[], tuple[Any, ...]], options: TrainingOptions
) -> int:
    """Return the peak of real steps with the kernels that take least for themselves: processors differ in them."""
    peaks = []
    for enabled in (True, False):
        with warnings.catch_warnings():
            # Torch warns that its own way back to the former setting concerns Intel's GPUs.
            warnings.simplefilter("ignore", UserWarning)
            with torch.backends.mkldnn.flags(enabled=enabled):
                peaks.append(measure_peak(build, inputs, options))
    return min(peaks)


@pytest.mark.parametrize(
    "name",
    [
        "resnet18-64", "vgg-32", "unet-64", "autoencoder-64", "dcgan-64", "vit-64", "bert-64", "gpt-96", "lstm-64",
        "mlp-1024", "dlrm-16", "tcn-512",
    ],
)  # fmt: skip
def test_the_peak_is_that_of_a_real_step(name: str) -> None:
    assert abs(_error(name, TrainingOptions(optimizer="adamw"))) <= 0.02


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bert-64", TrainingOptions(optimizer="sgd")),
        ("autoencoder-64", TrainingOptions(optimizer="adam", accumulation=2)),
        ("bert-64", TrainingOptions(optimizer="adamw", activation_checkpointing=True)),
    ],
    ids=["sgd", "accumulation", "checkpointing"],
)
def test_options_change_the_peak_as_they_really_do(name: str, options: TrainingOptions) -> None:
    assert abs(_error(name, options)) <= 0.02
