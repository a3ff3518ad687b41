"""The operators of ONNX in terms of torch: one table, by name.

An operator is called with what it stands in and its inputs: tensors, None for those left out, and numpy arrays for
those that decide sizes (see STATIC_INPUTS).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from presage.estimators.training.sources._onnx_call import Call, numbers, torch_dtype
from presage.estimators.training.sources._onnx_fusing import SILU
from presage.estimators.training.sources._onnx_layers import LAYERS
from presage.estimators.training.sources._onnx_shapes import SHAPES

Operator = Callable[..., Any]

_ONE: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": torch.abs, "Acos": torch.acos, "Asin": torch.asin, "Atan": torch.atan, "Ceil": torch.ceil,
    "Cos": torch.cos, "Cosh": torch.cosh, "Erf": torch.erf, "Exp": torch.exp, "Floor": torch.floor,
    "HardSwish": functional.hardswish, "Identity": lambda x: x, "IsInf": torch.isinf, "IsNaN": torch.isnan,
    "Log": torch.log, "Mish": functional.mish, "Neg": torch.neg, "Not": torch.logical_not,
    "Reciprocal": torch.reciprocal, "Relu": torch.relu, "Round": torch.round, "Sigmoid": torch.sigmoid,
    "Sign": torch.sign, "Sin": torch.sin, "Sinh": torch.sinh, "Softplus": functional.softplus,
    "Softsign": functional.softsign, "Sqrt": torch.sqrt, "Tan": torch.tan, "Tanh": torch.tanh,
}  # fmt: skip

_TWO: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": torch.add, "And": torch.logical_and, "Equal": torch.eq,
    "Greater": torch.gt, "GreaterOrEqual": torch.ge, "Less": torch.lt, "LessOrEqual": torch.le, "Mul": torch.mul,
    "Or": torch.logical_or, "Pow": torch.pow, "Sub": torch.sub, "Xor": torch.logical_xor,
}  # fmt: skip


def _divide(_: Call, left: Tensor, right: Tensor) -> Tensor:
    whole = not left.dtype.is_floating_point and not right.dtype.is_floating_point
    return torch.div(left, right, rounding_mode="trunc" if whole else None)


def _modulo(call: Call, left: Tensor, right: Tensor) -> Tensor:
    return torch.fmod(left, right) if call.get("fmod", 0) else torch.remainder(left, right)


def _fold(combine: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    def folded(_: Call, first: Tensor, *others: Tensor) -> Tensor:
        for each in others:
            first = combine(first, each)
        return first

    return folded


def _mean(call: Call, first: Tensor, *others: Tensor) -> Tensor:
    return _fold(torch.add)(call, first, *others) / (1 + len(others))


def _clip(call: Call, values: Tensor, low: Any = None, high: Any = None) -> Tensor:
    low = call.get("min") if low is None else numbers(low)[0]
    high = call.get("max") if high is None else numbers(high)[0]
    return values if low is None and high is None else torch.clamp(values, low, high)


def _gelu(call: Call, values: Tensor) -> Tensor:
    return functional.gelu(values, approximate=call.get("approximate", "none"))


def _leaky_relu(call: Call, values: Tensor) -> Tensor:
    return functional.leaky_relu(values, call.get("alpha", 0.01))


def _elu(call: Call, values: Tensor) -> Tensor:
    return functional.elu(values, call.get("alpha", 1.0))


def _celu(call: Call, values: Tensor) -> Tensor:
    return functional.celu(values, call.get("alpha", 1.0))


def _hard_sigmoid(call: Call, values: Tensor) -> Tensor:
    alpha, beta = call.get("alpha", 0.2), call.get("beta", 0.5)
    if math.isclose(alpha, 1 / 6, rel_tol=1e-5) and beta == 0.5:
        return functional.hardsigmoid(values)
    return torch.clamp(alpha * values + beta, 0, 1)


def _parametric_relu(_: Call, values: Tensor, slope: Tensor) -> Tensor:
    if slope.numel() == 1 or (
        values.dim() > 1 and slope.numel() == values.shape[1] == slope.shape[-values.dim() + 1]
    ):
        return functional.prelu(values, slope.reshape(-1))
    return torch.where(values > 0, values, slope * values)


def _softmax(function: Callable[..., Tensor]) -> Operator:
    def softmax(call: Call, values: Tensor) -> Tensor:
        if call.opset >= 13:
            return function(values, dim=call.get("axis", -1))
        axis = call.get("axis", 1) % values.dim()
        flat = function(values.flatten(axis), dim=-1) if axis < values.dim() else values
        return flat.reshape(values.shape)

    return softmax


def _cast(call: Call, values: Tensor) -> Tensor:
    return values.to(torch_dtype(call.dtype("to")))


def _cast_like(_: Call, values: Tensor, other: Tensor) -> Tensor:
    return values.to(other.dtype)


def _reduce(function: Callable[[Tensor, tuple[int, ...], bool], Tensor]) -> Operator:
    def reduce(call: Call, values: Tensor, axes: Any = None) -> Tensor:
        named = call.get("axes") if axes is None else numbers(axes)
        if not named and call.get("noop_with_empty_axes", 0):
            return values
        return function(
            values, tuple(named) if named else tuple(range(values.dim())), bool(call.get("keepdims", 1))
        )

    return reduce


def _product(values: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    for axis in sorted((each % values.dim() for each in axes), reverse=True):
        values = values.prod(axis, keepdim=keep)
    return values


def _of_one(function: Callable[[Tensor], Tensor]) -> Operator:
    return lambda _, values: function(values)


def _of_two(function: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    return lambda _, left, right: function(left, right)


OPERATORS: dict[str, Operator] = {
    **{name: _of_one(function) for name, function in _ONE.items()},
    **{name: _of_two(function) for name, function in _TWO.items()},
    "Cast": _cast,
    "CastLike": _cast_like,
    "Celu": _celu,
    "Clip": _clip,
    "Div": _divide,
    "Elu": _elu,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "LeakyRelu": _leaky_relu,
    "LogSoftmax": _softmax(torch.log_softmax),
    "Max": _fold(torch.maximum),
    "Mean": _mean,
    "Min": _fold(torch.minimum),
    "Mod": _modulo,
    "PRelu": _parametric_relu,
    "ReduceL1": _reduce(lambda x, axes, keep: x.abs().sum(axes, keep)),
    "ReduceL2": _reduce(lambda x, axes, keep: torch.linalg.vector_norm(x, 2, axes, keep)),
    "ReduceLogSumExp": _reduce(torch.logsumexp),
    "ReduceMax": _reduce(torch.amax),
    "ReduceMean": _reduce(torch.mean),
    "ReduceMin": _reduce(torch.amin),
    "ReduceProd": _reduce(_product),
    "ReduceSum": _reduce(torch.sum),
    "ReduceSumSquare": _reduce(lambda x, axes, keep: x.square().sum(axes, keep)),
    "Selu": _of_one(functional.selu),
    SILU: _of_one(functional.silu),
    "Softmax": _softmax(torch.softmax),
    "Sum": _fold(torch.add),
    "Where": lambda _, condition, left, right: torch.where(condition, left, right),
    **SHAPES,
    **LAYERS,
}
