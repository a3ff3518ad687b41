"""Layers of Keras as torch modules, with the sizes that Keras gives them.

Tensors keep Keras's order, channels last. Convolutions see them through a view with channels second, which torch
computes in place as it is, so that nothing is copied that Keras would not copy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Shapes = list[tuple[int, ...]]
Config = dict[str, Any]

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_MAX_POOLS: tuple[Any, ...] = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)
_AVERAGE_POOLS: tuple[Any, ...] = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "celu": functional.celu, "elu": functional.elu, "exponential": torch.exp,
    "gelu": functional.gelu, "hard_sigmoid": functional.hardsigmoid, "hard_silu": functional.hardswish,
    "hard_swish": functional.hardswish, "leaky_relu": lambda x: functional.leaky_relu(x, 0.2),
    "linear": lambda x: x, "log_softmax": lambda x: torch.log_softmax(x, -1), "mish": functional.mish,
    "relu": torch.relu, "relu6": functional.relu6, "selu": functional.selu, "sigmoid": torch.sigmoid,
    "silu": functional.silu, "softmax": lambda x: torch.softmax(x, -1), "softplus": functional.softplus,
    "softsign": functional.softsign, "swish": functional.silu, "tanh": torch.tanh,
}  # fmt: skip


def activation_of(config: Config, name: str = "activation") -> Callable[[Tensor], Tensor]:
    """Return the function that a config names; the identity if none. Raises ValueError for an unknown one."""
    given = config.get(name) or "linear"
    while isinstance(given, dict):
        given = given.get("config") if given.get("class_name") == "function" else given.get("class_name")
    found = ACTIVATIONS.get(str(given).lower())
    if found is None:
        raise ValueError(f"the activation {given!r} is unknown")
    return found


def spread(value: Any, rank: int) -> tuple[int, ...]:
    """Return one number for each axis."""
    return tuple(int(each) for each in value) if isinstance(value, list | tuple) else (int(value),) * rank


class Function(nn.Module):
    """A layer without weights."""

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self._function = run

    def forward(self, *inputs: Tensor, **_named: Any) -> Any:
        return self._function(*inputs)


class Then(nn.Module):
    """A module and the activation behind it."""

    def __init__(self, module: nn.Module, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.module = module
        self._activation = activation

    def forward(self, values: Tensor, **_named: Any) -> Tensor:
        return self._activation(self.module(values))


class ChannelsSecond(nn.Module):
    """Runs modules that want channels second on tensors that have them last."""

    def __init__(self, *modules: nn.Module, config: Config) -> None:
        super().__init__()
        self.inner = nn.ModuleList(modules)
        self._is_last = config.get("data_format") != "channels_first"

    def forward(self, values: Tensor) -> Tensor:
        values = values.movedim(-1, 1) if self._is_last else values
        for module in self.inner:
            values = module(values)
        return values.movedim(1, -1) if self._is_last else values


class SamePadding(nn.Module):
    """Pads as TensorFlow does for "same": what is uneven goes behind; for "causal", all goes before."""

    def __init__(self, kind: str, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> None:
        super().__init__()
        self._kind = kind
        self._axes = tuple(zip(kernel, strides, dilations, strict=True))

    def forward(self, values: Tensor, filled: float = 0.0) -> Tensor:
        widths: list[int] = []
        for size, (width, stride, dilation) in zip(values.shape[2:], self._axes, strict=True):
            wide = (width - 1) * dilation + 1
            total = max(0, (-(-size // stride) - 1) * stride + wide - size)
            before = total // 2
            if self._kind == "causal":
                before = total = wide - 1
            widths = [before, total - before, *widths]
        return functional.pad(values, widths, value=filled) if any(widths) else values


def channels_of(config: Config, shape: tuple[int, ...]) -> int:
    """Return how many channels an input of that shape has."""
    return shape[1] if config.get("data_format") == "channels_first" else shape[-1]


def _padding(config: Config, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]) -> Any:
    """Return (modules that pad, what the convolution pads itself)."""
    kind = config.get("padding", "valid")
    if kind == "valid":
        return [], 0
    even = all(stride == 1 for stride in strides) and all(
        (width - 1) * dilation % 2 == 0 for width, dilation in zip(kernel, dilations, strict=True)
    )
    if kind == "same" and even:
        return [], tuple((width - 1) * dilation // 2 for width, dilation in zip(kernel, dilations, strict=True))
    return [SamePadding(kind, kernel, strides, dilations)], 0


def convolution(rank: int) -> Callable[[Config, Shapes], nn.Module]:
    """Return the maker of Conv1D, Conv2D or Conv3D."""

    def make(config: Config, shapes: Shapes) -> nn.Module:
        channels, filters = channels_of(config, shapes[0]), config["filters"]
        kernel, strides, dilations = _sizes(config, rank)
        pads, own = _padding(config, kernel, strides, dilations)
        layer = _CONVOLUTIONS[rank - 1](
            channels,
            filters,
            kernel,
            strides,
            own,
            dilations,
            config.get("groups", 1),
            config.get("use_bias", True),
        )
        return Then(ChannelsSecond(*pads, layer, config=config), activation_of(config))

    return make


def depthwise(rank: int, *, separable: bool) -> Callable[[Config, Shapes], nn.Module]:
    """Return the maker of DepthwiseConv, or of SeparableConv, which goes on with a product over channels."""

    def make(config: Config, shapes: Shapes) -> nn.Module:
        channels, bias = channels_of(config, shapes[0]), config.get("use_bias", True)
        kernel, strides, dilations = _sizes(config, rank)
        pads, own = _padding(config, kernel, strides, dilations)
        between = channels * config.get("depth_multiplier", 1)
        kind = _CONVOLUTIONS[rank - 1]
        layers = [kind(channels, between, kernel, strides, own, dilations, channels, bias and not separable)]
        if separable:
            layers.append(kind(between, config["filters"], 1, bias=bias))
        return Then(ChannelsSecond(*pads, *layers, config=config), activation_of(config))

    return make


def transposed(rank: int) -> Callable[[Config, Shapes], nn.Module]:
    """Return the maker of Conv1DTranspose, Conv2DTranspose or Conv3DTranspose."""

    def make(config: Config, shapes: Shapes) -> nn.Module:
        kernel, strides, dilations = _sizes(config, rank)
        layer = _TRANSPOSED[rank - 1](
            channels_of(config, shapes[0]), config["filters"], kernel, strides, bias=config.get("use_bias", True),
            dilation=dilations,
        )  # fmt: skip
        is_valid = config.get("padding", "valid") == "valid"
        layers = Fitted(layer, kernel, strides, is_valid=is_valid)
        return Then(ChannelsSecond(layers, config=config), activation_of(config))

    return make


class Fitted(nn.Module):
    """A transposed convolution, cut or filled to the size that Keras gives it."""

    def __init__(
        self, layer: nn.Module, kernel: tuple[int, ...], strides: tuple[int, ...], *, is_valid: bool
    ) -> None:
        super().__init__()
        self.layer = layer
        self._axes = tuple(zip(kernel, strides, strict=True))
        self._is_valid = is_valid

    def forward(self, values: Tensor) -> Tensor:
        sizes = values.shape[2:]
        values = self.layer(values)
        for axis, (size, (width, stride)) in enumerate(zip(sizes, self._axes, strict=True), start=2):
            wanted = size * stride + (max(width - stride, 0) if self._is_valid else 0)
            over = values.shape[axis] - wanted
            if over > 0:
                values = values.narrow(axis, over // 2, wanted)
            elif over < 0:
                values = functional.pad(values, [0, 0] * (values.dim() - 1 - axis) + [0, -over])
        return values


def _sizes(config: Config, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return (
        spread(config["kernel_size"], rank),
        spread(config.get("strides", 1), rank),
        spread(config.get("dilation_rate", 1), rank),
    )


def pooling(rank: int, *, is_max: bool) -> Callable[[Config, Shapes], nn.Module]:
    """Return the maker of MaxPooling or AveragePooling."""

    def make(config: Config, _shapes: Shapes) -> nn.Module:
        kernel = spread(config.get("pool_size", 2), rank)
        strides = spread(config.get("strides") or kernel, rank)
        pad = (
            SamePadding("same", kernel, strides, (1,) * rank) if config.get("padding", "valid") == "same" else None
        )

        def run(values: Tensor) -> Tensor:
            if is_max:
                values = pad(values, -math.inf) if pad else values
                return _MAX_POOLS[rank - 1](values, kernel, strides)
            pool = _AVERAGE_POOLS[rank - 1]
            if pad is None:
                return pool(values, kernel, strides)
            counted = pool(pad(torch.ones_like(values[:1, :1])), kernel, strides)
            return pool(pad(values), kernel, strides) / counted

        return ChannelsSecond(Function(run), config=config)

    return make


def global_pooling(*, is_max: bool) -> Callable[[Config, Shapes], nn.Module]:
    """Return the maker of a pool over all places."""

    def make(config: Config, shapes: Shapes) -> nn.Module:
        rank, keep = len(shapes[0]), bool(config.get("keepdims"))
        axes = tuple(range(2, rank) if config.get("data_format") == "channels_first" else range(1, rank - 1))
        return Function(lambda values: values.amax(axes, keep) if is_max else values.mean(axes, keep))

    return make


def dense(config: Config, shapes: Shapes) -> nn.Module:
    """Return Dense, a product over the last axis."""
    layer = nn.Linear(shapes[0][-1], config["units"], config.get("use_bias", True))
    return Then(layer, activation_of(config))


class BatchNorm(nn.Module):
    """Batch normalization over any axis, each of scale and centre left out if the config says so."""

    def __init__(self, config: Config, shapes: Shapes) -> None:
        super().__init__()
        axis = config.get("axis", -1)
        self._axis = (axis[0] if isinstance(axis, list) else axis) % len(shapes[0])
        size = shapes[0][self._axis]
        self.scale = nn.Parameter(torch.empty(size)) if config.get("scale", True) else None
        self.centre = nn.Parameter(torch.empty(size)) if config.get("center", True) else None
        self.register_buffer("mean", torch.empty(size))
        self.register_buffer("variance", torch.empty(size))
        self._momentum, self._epsilon = 1 - config.get("momentum", 0.99), config.get("epsilon", 1e-3)

    def reset_parameters(self) -> None:
        for tensor, value in ((self.scale, 1.0), (self.centre, 0.0), (self.mean, 0.0), (self.variance, 1.0)):
            if tensor is not None:
                nn.init.constant_(tensor, value)

    def forward(self, values: Tensor, **_named: Any) -> Tensor:
        made = functional.batch_norm(
            values.movedim(self._axis, 1), self.mean, self.variance, self.scale, self.centre, self.training,
            self._momentum, self._epsilon,
        )  # fmt: skip
        return made.movedim(1, self._axis)


class LayerNorm(nn.Module):
    """Normalization over the last axes."""

    def __init__(self, config: Config, shapes: Shapes) -> None:
        super().__init__()
        axis, rank = config.get("axis", -1), len(shapes[0])
        axes = sorted(each % rank for each in (axis if isinstance(axis, list) else [axis]))
        if axes != list(range(rank - len(axes), rank)):
            raise ValueError("LayerNormalization over axes that are not the last ones is not supported")
        self._shape = shapes[0][axes[0] :]
        self.scale = nn.Parameter(torch.empty(self._shape)) if config.get("scale", True) else None
        self.centre = nn.Parameter(torch.empty(self._shape)) if config.get("center", True) else None
        self._epsilon = config.get("epsilon", 1e-3)

    def reset_parameters(self) -> None:
        for tensor, value in ((self.scale, 1.0), (self.centre, 0.0)):
            if tensor is not None:
                nn.init.constant_(tensor, value)

    def forward(self, values: Tensor, **_named: Any) -> Tensor:
        return functional.layer_norm(values, self._shape, self.scale, self.centre, self._epsilon)


def group_norm(config: Config, shapes: Shapes) -> nn.Module:
    """Return GroupNormalization over the last axis or, as its axis says, the second."""
    is_last = config.get("axis", -1) % len(shapes[0]) == len(shapes[0]) - 1
    channels = shapes[0][-1] if is_last else shapes[0][1]
    groups = config.get("groups", 32)
    layer = nn.GroupNorm(channels if groups == -1 else groups, channels, config.get("epsilon", 1e-3))
    return ChannelsSecond(layer, config={"data_format": "channels_last" if is_last else "channels_first"})


class Normalization(nn.Module):
    """Subtracts a mean and divides by a deviation that were learned before the training."""

    def __init__(self, config: Config, shapes: Shapes) -> None:
        super().__init__()
        axis, rank = config.get("axis", -1), len(shapes[0])
        axes = [] if axis is None else [each % rank for each in (axis if isinstance(axis, list) else [axis])]
        kept = [size if place in axes else 1 for place, size in enumerate(shapes[0])]
        self.register_buffer("mean", torch.empty(kept))
        self.register_buffer("variance", torch.empty(kept))

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.mean)
        nn.init.ones_(self.variance)

    def forward(self, values: Tensor, **_named: Any) -> Tensor:
        return (values - self.mean) / torch.sqrt(self.variance).clamp_min(1e-7)


class ParametricRelu(nn.Module):
    """A slope for each place, but one for all places along shared axes."""

    def __init__(self, config: Config, shapes: Shapes) -> None:
        super().__init__()
        shared = {axis % len(shapes[0]) for axis in config.get("shared_axes") or ()}
        shape = [1 if place in shared else size for place, size in enumerate(shapes[0][1:], start=1)]
        self.slope = nn.Parameter(torch.empty(shape))

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.slope)

    def forward(self, values: Tensor, **_named: Any) -> Tensor:
        return torch.relu(values) - self.slope * torch.relu(-values)
