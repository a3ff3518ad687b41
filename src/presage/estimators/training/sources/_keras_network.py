"""A torch module that follows the plan of a Keras model, and the table of layers that it is made from."""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import _disable_current_modes

from presage.errors import InputError
from presage.estimators.training.sources import _keras_layers as layers
from presage.estimators.training.sources._abstract import is_abstract
from presage.estimators.training.sources._keras_layers import Config, Function, Shapes, activation_of, spread
from presage.estimators.training.sources._keras_reading import Layer, Plan, Ref, inner_layer
from presage.estimators.training.sources._keras_sequences import (
    Bidirectional,
    MultiHeadAttention,
    Recurrent,
    TimeDistributed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_TRIAL_BATCH = 2
_FAILURES = (RuntimeError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError)
"""What torch and the table raise for settings and sizes that do not fit."""


class KerasNetwork(nn.Module):
    """A model, or one within another. Built on the device "meta", by running each layer once to see its sizes."""

    def __init__(self, plan: Plan, shapes: Shapes) -> None:
        super().__init__()
        self._plan = plan
        self._places = {name: f"layer_{place}" for place, name in enumerate(plan.layers)}
        self.layers = nn.ModuleDict()
        self._freed = _last_uses(plan)
        try:
            inputs = [torch.empty(shape, device="meta") for shape in shapes]
        except _FAILURES as error:
            raise InputError(f"No input of a Keras model has the sizes {shapes}: {error}") from None
        self._run(inputs, build=True)

    def forward(self, *inputs: Tensor, **_named: Any) -> Any:
        return self._run(list(inputs), build=False)

    def _run(self, inputs: list[Tensor], *, build: bool) -> Any:
        plan = self._plan
        values: dict[tuple[str, int], Any] = {
            (ref.layer, ref.call): each for ref, each in zip(plan.inputs, inputs, strict=True)
        }
        for place, call in enumerate(plan.calls):
            given = [_pick(values, ref) for ref in call.inputs]
            named = {
                name: _pick(values, each) if isinstance(each, Ref) else each for name, each in call.named.items()
            }
            try:
                if build and self._places[call.layer] not in self.layers:
                    self._add(call.layer, given, named)
                values[call.layer, call.call] = self.layers[self._places[call.layer]](*given, **named)
            except _FAILURES as error:
                raise _failed(plan.layers[call.layer], call.layer, error) from error
            for name in self._freed.get(place, ()):
                values.pop(name, None)
        made = tuple(_pick(values, ref) for ref in plan.outputs)
        return made[0] if len(made) == 1 else made

    def _add(self, name: str, given: list[Any], named: dict[str, Any]) -> None:
        tensors = [*given, *(named[each] for each in ("value", "key") if isinstance(named.get(each), Tensor))]
        shapes = [tuple(each.shape) for each in tensors]
        self.layers[self._places[name]] = make_layer(self._plan.layers[name], shapes)


def make_layer(layer: Layer, shapes: Shapes) -> nn.Module:
    """Return the module of a layer whose inputs have these shapes, batch included."""
    if layer.plan is not None:
        return KerasNetwork(layer.plan, shapes)
    return LAYERS[layer.kind](layer.config, shapes)


def make_network(plan: Plan, shapes: Shapes) -> nn.Module:
    """Return the network for inputs of these shapes, without the batch; on "meta" where nothing is computed."""
    device, abstract = torch.get_default_device(), is_abstract(torch.empty(0))
    with _disable_current_modes(), torch.device("meta"):
        network = KerasNetwork(plan, [(_TRIAL_BATCH, *shape) for shape in shapes])
    if abstract:
        return network
    network = network.to_empty(device=device)
    with torch.no_grad():
        for module in network.modules():
            reset_parameters = getattr(module, "reset_parameters", None)
            if callable(reset_parameters):
                reset_parameters()
    return network


def _failed(layer: Layer, name: str, error: Exception) -> InputError:
    told = f"it has no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
    return InputError(
        f"The layer {name!r} ({layer.kind}) of the Keras model cannot be used: {told}",
        remedy="See that the inputs have the shapes that the model was made for",
    )


def _pick(values: dict[tuple[str, int], Any], ref: Ref) -> Any:
    if (ref.layer, ref.call) not in values:
        raise InputError(f"A Keras model uses what its layer {ref.layer!r} never makes")
    found = values[ref.layer, ref.call]
    return found[ref.output] if isinstance(found, tuple) else found


def _last_uses(plan: Plan) -> dict[int, list[tuple[str, int]]]:
    last: dict[tuple[str, int], int] = {}
    for place, call in enumerate(plan.calls):
        last[call.layer, call.call] = place
        for ref in call.refs():
            last[ref.layer, ref.call] = place
    kept = {(ref.layer, ref.call) for ref in plan.outputs}
    freed: dict[int, list[tuple[str, int]]] = {}
    for name, place in last.items():
        if name not in kept:
            freed.setdefault(place, []).append(name)
    return freed


def _bidirectional(config: Config, shapes: Shapes) -> nn.Module:
    ahead = inner_layer(config)
    if config.get("backward_layer"):
        behind = inner_layer(config, "backward_layer")
    else:
        behind = Layer(ahead.kind, {**ahead.config, "go_backwards": not ahead.config.get("go_backwards")})
    sequences = bool(ahead.config.get("return_sequences"))
    return Bidirectional(make_layer(ahead, shapes), make_layer(behind, shapes), config, sequences=sequences)


def _time_distributed(config: Config, shapes: Shapes) -> nn.Module:
    batch, steps, *rest = shapes[0]
    return TimeDistributed(make_layer(inner_layer(config), [(batch * steps, *rest)]))


def _plain(make: Callable[[Config], Callable[..., Any]]) -> Callable[[Config, Shapes], nn.Module]:
    """Return the maker of a layer without weights from what makes its function."""
    return lambda config, _shapes: Function(make(config))


def _merge(combine: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Config, Shapes], nn.Module]:
    return _plain(lambda _config: lambda *given: reduce(combine, given))


def _average(_config: Config) -> Callable[..., Tensor]:
    return lambda *given: reduce(torch.add, given) / len(given)


def _concatenate(config: Config) -> Callable[..., Tensor]:
    return lambda *given: torch.cat(given, config.get("axis", -1))


def _embedding(config: Config, _shapes: Shapes) -> nn.Module:
    table = nn.Embedding(config["input_dim"], config["output_dim"])
    return _Lookup(table)


class _Lookup(nn.Module):
    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.table = table

    def forward(self, values: Tensor, **_named: Any) -> Tensor:
        return self.table(values.long())


class _Dropout(nn.Module):
    """Drops values, or whole channels."""

    def __init__(self, config: Config, shapes: Shapes, *, whole: bool = False) -> None:
        super().__init__()
        self._rate, self._whole = config.get("rate", 0.0), whole
        self._axes = (1,) if config.get("data_format") == "channels_first" else (len(shapes[0]) - 1,)

    def forward(self, values: Tensor, **_named: Any) -> Tensor:
        if not self.training or not self._rate:
            return values
        if not self._whole:
            return functional.dropout(values, self._rate)
        kept = [size if axis in (0, *self._axes) else 1 for axis, size in enumerate(values.shape)]
        return values * functional.dropout(values.new_ones(kept), self._rate)


class _Noise(nn.Module):
    def __init__(self, config: Config, _shapes: Shapes) -> None:
        super().__init__()
        self._deviation = config.get("stddev", config.get("rate", 0.0))

    def forward(self, values: Tensor, **_named: Any) -> Tensor:
        return values + torch.randn_like(values) * self._deviation if self.training else values


def _relu(config: Config) -> Callable[[Tensor], Tensor]:
    slope, top = config.get("negative_slope") or 0.0, config.get("max_value")

    def run(values: Tensor) -> Tensor:
        made = functional.leaky_relu(values, slope) if slope else torch.relu(values)
        return made if top is None else made.clamp_max(top)

    return run


def _leaky_relu(config: Config) -> Callable[[Tensor], Tensor]:
    slope = float(config.get("negative_slope") or config.get("alpha") or 0.3)
    return lambda values: functional.leaky_relu(values, slope)


def _softmax(config: Config) -> Callable[[Tensor], Tensor]:
    axis = config.get("axis", -1)
    return lambda values: torch.softmax(values, axis[0] if isinstance(axis, list) else axis)


def _flatten(_config: Config) -> Callable[[Tensor], Tensor]:
    return lambda values: values.flatten(1) if values.dim() > 1 else values.unsqueeze(1)


def _reshape(config: Config) -> Callable[[Tensor], Tensor]:
    return lambda values: values.reshape(values.shape[0], *config["target_shape"])


def _permute(config: Config) -> Callable[[Tensor], Tensor]:
    return lambda values: values.permute(0, *config["dims"])


def _repeat(config: Config) -> Callable[[Tensor], Tensor]:
    return lambda values: values.unsqueeze(1).repeat(1, config["n"], 1)


def _rescale(config: Config) -> Callable[[Tensor], Tensor]:
    return lambda values: values * config.get("scale", 1.0) + config.get("offset", 0.0)


def _pairs(value: Any, rank: int) -> list[tuple[int, int]]:
    given = value if isinstance(value, list | tuple) else [value] * rank
    if rank == 1 and len(given) == 2 and not isinstance(given[0], list | tuple):
        given = [given]
    pairs = [(each, each) if isinstance(each, int) else (int(each[0]), int(each[1])) for each in given]
    if len(pairs) != rank:
        raise ValueError(f"{value} is no width for each of {rank} axes")
    return pairs


def _border(rank: int, name: str, sign: int) -> Callable[[Config, Shapes], nn.Module]:
    """Return the maker of zero padding, or with sign -1 of cropping."""

    def make(config: Config, _shapes: Shapes) -> nn.Module:
        pairs = _pairs(config.get(name, 1), rank)
        flat = [sign * width for pair in reversed(pairs) for width in pair]
        return layers.ChannelsSecond(Function(lambda values: functional.pad(values, flat)), config=config)

    return make


def _upsampling(rank: int) -> Callable[[Config, Shapes], nn.Module]:
    def make(config: Config, _shapes: Shapes) -> nn.Module:
        factors = spread(config.get("size", 2), rank)
        mode = config.get("interpolation", "nearest")

        def run(values: Tensor) -> Tensor:
            sizes = [size * factor for size, factor in zip(values.shape[2:], factors, strict=True)]
            return functional.interpolate(values, sizes, mode=mode)

        return layers.ChannelsSecond(Function(run), config=config)

    return make


def _resizing(config: Config, _shapes: Shapes) -> nn.Module:
    sizes = [config["height"], config["width"]]
    mode = config.get("interpolation", "bilinear")
    return layers.ChannelsSecond(
        Function(lambda values: functional.interpolate(values, sizes, mode=mode)), config=config
    )


_same = _plain(lambda _config: lambda values: values)
_AUGMENTATIONS = (
    "RandomFlip", "RandomRotation", "RandomZoom", "RandomTranslation", "RandomContrast", "RandomBrightness",
    "ActivityRegularization", "Masking",
)  # fmt: skip

LAYERS: dict[str, Callable[[Config, Shapes], nn.Module]] = {
    "Activation": _plain(activation_of),
    "Add": _merge(torch.add),
    "AlphaDropout": _Dropout,
    "Average": _plain(_average),
    "BatchNormalization": layers.BatchNorm,
    "Bidirectional": _bidirectional,
    "Concatenate": _plain(_concatenate),
    "Dense": layers.dense,
    "DepthwiseConv1D": layers.depthwise(1, separable=False),
    "DepthwiseConv2D": layers.depthwise(2, separable=False),
    "Dropout": _Dropout,
    "ELU": _plain(lambda config: lambda values: functional.elu(values, config.get("alpha", 1.0))),
    "Embedding": _embedding,
    "Flatten": _plain(_flatten),
    "GRU": partial(Recurrent, "GRU"),
    "GaussianDropout": _Noise,
    "GaussianNoise": _Noise,
    "GroupNormalization": layers.group_norm,
    "LSTM": partial(Recurrent, "LSTM"),
    "LayerNormalization": layers.LayerNorm,
    "LeakyReLU": _plain(_leaky_relu),
    "Maximum": _merge(torch.maximum),
    "Minimum": _merge(torch.minimum),
    "MultiHeadAttention": MultiHeadAttention,
    "Multiply": _merge(torch.mul),
    "Normalization": layers.Normalization,
    "PReLU": layers.ParametricRelu,
    "Permute": _plain(_permute),
    "ReLU": _plain(_relu),
    "RepeatVector": _plain(_repeat),
    "Rescaling": _plain(_rescale),
    "Reshape": _plain(_reshape),
    "Resizing": _resizing,
    "SeparableConv1D": layers.depthwise(1, separable=True),
    "SeparableConv2D": layers.depthwise(2, separable=True),
    "SimpleRNN": partial(Recurrent, "SimpleRNN"),
    "Softmax": _plain(_softmax),
    "Subtract": _merge(torch.sub),
    "TimeDistributed": _time_distributed,
    **dict.fromkeys(_AUGMENTATIONS, _same),
}
for _rank in (1, 2, 3):
    LAYERS |= {
        f"Conv{_rank}D": layers.convolution(_rank),
        f"Conv{_rank}DTranspose": layers.transposed(_rank),
        f"MaxPooling{_rank}D": layers.pooling(_rank, is_max=True),
        f"AveragePooling{_rank}D": layers.pooling(_rank, is_max=False),
        f"GlobalMaxPooling{_rank}D": layers.global_pooling(is_max=True),
        f"GlobalAveragePooling{_rank}D": layers.global_pooling(is_max=False),
        f"ZeroPadding{_rank}D": _border(_rank, "padding", 1),
        f"Cropping{_rank}D": _border(_rank, "cropping", -1),
        f"UpSampling{_rank}D": _upsampling(_rank),
        f"SpatialDropout{_rank}D": partial(_Dropout, whole=True),
    }
