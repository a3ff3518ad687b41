"""Operators of ONNX that are layers: products, convolutions, pools, norms, recurrent ones, resizing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from presage.estimators.training.sources._onnx_call import Call, numbers
from presage.estimators.training.sources._onnx_reading import GATES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_CONVOLUTIONS = (functional.conv1d, functional.conv2d, functional.conv3d)
_TRANSPOSED = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)
_MAX_POOLS: tuple[Any, ...] = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)
_AVERAGE_POOLS: tuple[Any, ...] = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)


def _gemm(call: Call, left: Tensor, right: Tensor, added: Tensor | None = None) -> Tensor:
    left = left.t() if call.get("transA", 0) else left
    alpha, beta = call.get("alpha", 1.0), call.get("beta", 1.0)
    if call.get("transB", 0) and alpha == beta == 1 and (added is None or added.dim() == 1):
        return functional.linear(left, right, added)
    right = right.t() if call.get("transB", 0) else right
    if added is None:
        return alpha * (left @ right) if alpha != 1 else left @ right
    return torch.addmm(added, left, right, beta=beta, alpha=alpha)


def _pads(call: Call, sizes: Sequence[int], kernel: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return what is added before and behind each axis."""
    rank = len(kernel)
    kind = call.get("auto_pad", "NOTSET")
    if kind == "VALID":
        return [0] * rank, [0] * rank
    if kind == "NOTSET":
        pads = call.get("pads") or [0] * (2 * rank)
        return list(pads[:rank]), list(pads[rank:])
    strides, dilations = call.get("strides") or [1] * rank, call.get("dilations") or [1] * rank
    before, behind = [], []
    for size, width, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        total = max(0, (-(-size // stride) - 1) * stride + (width - 1) * dilation + 1 - size)
        less, more = total // 2, total - total // 2
        before.append(less if kind == "SAME_UPPER" else more)
        behind.append(more if kind == "SAME_UPPER" else less)
    return before, behind


def _padded(values: Tensor, before: list[int], behind: list[int], filled: float = 0.0) -> tuple[Tensor, list[int]]:
    """Return the values and the padding left to the operator, which pads both sides alike."""
    if before == behind:
        return values, before
    flat = [width for pair in zip(reversed(before), reversed(behind), strict=True) for width in pair]
    return functional.pad(values, flat, value=filled), [0] * len(before)


def _convolution(call: Call, values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rank = weight.dim() - 2
    values, padding = _padded(values, *_pads(call, values.shape[2:], weight.shape[2:]))
    return _CONVOLUTIONS[rank - 1](
        values, weight, bias, call.get("strides") or [1] * rank, padding, call.get("dilations") or [1] * rank,
        call.get("group", 1),
    )  # fmt: skip


def _transposed_convolution(call: Call, values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rank = weight.dim() - 2
    strides, dilations = call.get("strides") or [1] * rank, call.get("dilations") or [1] * rank
    extra = call.get("output_padding") or [0] * rank
    pads = call.get("pads") or [0] * (2 * rank)
    before, behind = list(pads[:rank]), list(pads[rank:])
    full = [
        (size - 1) * stride + (width - 1) * dilation + 1 + more
        for size, stride, width, dilation, more in zip(
            values.shape[2:], strides, weight.shape[2:], dilations, extra, strict=True
        )
    ]
    wanted = call.get("output_shape")
    if wanted or call.get("auto_pad", "NOTSET") in {"SAME_UPPER", "SAME_LOWER"}:
        wanted = wanted or [size * stride for size, stride in zip(values.shape[2:], strides, strict=True)]
        total = [max(0, size - each) for size, each in zip(full, wanted[-rank:], strict=True)]
        upper = call.get("auto_pad", "NOTSET") == "SAME_UPPER"
        before = [each // 2 if upper else each - each // 2 for each in total]
        behind = [each - start for each, start in zip(total, before, strict=True)]
    alike = before == behind
    padding = before if alike else [0] * rank
    made = _TRANSPOSED[rank - 1](values, weight, bias, strides, padding, extra, call.get("group", 1), dilations)
    if not alike:
        for axis, (start, end) in enumerate(zip(before, behind, strict=True), start=2):
            made = made.narrow(axis, start, made.shape[axis] - start - end)
    return made


def _max_pool(call: Call, values: Tensor) -> Any:
    kernel = call.get("kernel_shape")
    rank = len(kernel)
    values, padding = _padded(values, *_pads(call, values.shape[2:], kernel), filled=-math.inf)
    strides, dilations = call.get("strides") or [1] * rank, call.get("dilations") or [1] * rank
    return _MAX_POOLS[rank - 1](
        values, kernel, strides, padding, dilations, bool(call.get("ceil_mode", 0)), len(call.node.outputs) > 1
    )


def _average_pool(call: Call, values: Tensor) -> Tensor:
    kernel = call.get("kernel_shape")
    rank = len(kernel)
    counted = bool(call.get("count_include_pad", 0))
    before, behind = _pads(call, values.shape[2:], kernel)
    strides, rounded_up = call.get("strides") or [1] * rank, bool(call.get("ceil_mode", 0))
    pool = _AVERAGE_POOLS[rank - 1]
    if before == behind:
        return pool(values, kernel, strides, before, rounded_up, counted)
    ones = values.new_ones((1, 1, *values.shape[2:]))
    values, _ = _padded(values, before, behind)
    made = pool(values, kernel, strides, 0, rounded_up)
    if counted:
        return made
    return made / pool(_padded(ones, before, behind)[0], kernel, strides, 0, rounded_up)


def _global_average_pool(_: Call, values: Tensor) -> Tensor:
    return values.mean(tuple(range(2, values.dim())), keepdim=True)


def _global_max_pool(_: Call, values: Tensor) -> Tensor:
    return values.amax(tuple(range(2, values.dim())), keepdim=True)


def _batch_norm(call: Call, values: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Any:
    made = functional.batch_norm(
        values,
        mean,
        variance,
        scale,
        bias,
        call.training,
        1 - call.get("momentum", 0.9),
        call.get("epsilon", 1e-5),
    )
    return (made, mean, variance)[: len(call.node.outputs)]


def _layer_norm(call: Call, values: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    axis = call.get("axis", -1) % values.dim()
    return functional.layer_norm(values, values.shape[axis:], scale, bias, call.get("epsilon", 1e-5))


def _rms_norm(call: Call, values: Tensor, scale: Tensor) -> Tensor:
    axis = call.get("axis", -1) % values.dim()
    return functional.rms_norm(values, values.shape[axis:], scale, call.get("epsilon", 1e-5))


def _instance_norm(call: Call, values: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return functional.instance_norm(values, weight=scale, bias=bias, eps=call.get("epsilon", 1e-5))


def _group_norm(call: Call, values: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    groups = call.get("num_groups")
    if call.opset < 21:
        scale, bias = (each.repeat_interleave(values.shape[1] // groups) for each in (scale, bias))
    return functional.group_norm(values, groups, scale, bias, call.get("epsilon", 1e-5))


def _local_response_norm(call: Call, values: Tensor) -> Tensor:
    return functional.local_response_norm(
        values, call.get("size"), call.get("alpha", 1e-4), call.get("beta", 0.75), call.get("bias", 1.0)
    )


def _lp_normalization(call: Call, values: Tensor) -> Tensor:
    return functional.normalize(values, float(call.get("p", 2)), call.get("axis", -1))


def _dropout(call: Call, values: Tensor, ratio: Any = None, _training: Any = None) -> Any:
    share = call.get("ratio", 0.5) if ratio is None else numbers(ratio)[0]
    made = functional.dropout(values, float(share), call.training)
    return made if len(call.node.outputs) < 2 else (made, torch.ones_like(values, dtype=torch.bool))


def _resize(call: Call, values: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None) -> Tensor:
    del roi
    if scales is not None and len(numbers(scales)):
        factors = numbers(scales)
        wanted = [math.floor(size * factor) for size, factor in zip(values.shape, factors, strict=True)]
    elif sizes is not None:
        wanted = numbers(sizes)
    else:
        raise ValueError("it has neither scales nor sizes")
    if call.get("axes") is not None:
        named = dict(zip([axis % values.dim() for axis in call.get("axes")], wanted, strict=True))
        wanted = [named.get(axis, size) for axis, size in enumerate(values.shape)]
    return _interpolated(call, values, wanted[2:])


def _upsample(call: Call, values: Tensor, scales: Any = None) -> Tensor:
    factors = call.get("scales") if scales is None else numbers(scales)
    return _interpolated(call, values, [math.floor(a * b) for a, b in zip(values.shape, factors, strict=True)][2:])


def _interpolated(call: Call, values: Tensor, sizes: list[int]) -> Tensor:
    place = call.get("coordinate_transformation_mode", "half_pixel" if call.opset >= 11 else "asymmetric")
    kind = call.get("mode", "nearest")
    if kind == "nearest":
        return functional.interpolate(values, sizes, mode="nearest" if place == "asymmetric" else "nearest-exact")
    name = {
        ("linear", 1): "linear",
        ("linear", 2): "bilinear",
        ("linear", 3): "trilinear",
        ("cubic", 2): "bicubic",
    }
    mode = name.get((kind, len(sizes)))
    if mode is None:
        raise ValueError(f"resizing {len(sizes)} axes by mode {kind} is not supported")
    return functional.interpolate(values, sizes, mode=mode, align_corners=place == "align_corners")


def _recurrent(kind_of_cell: str, run: Callable[..., Any], states: int) -> Any:
    """Return an operator for cells, whose gates torch has in another order."""
    order = GATES[kind_of_cell]
    gates = len(order)

    def recurrent(call: Call, values: Tensor, weight: Tensor, again: Tensor, bias: Tensor | None = None,
                  lengths: Any = None, *initial: Tensor | None) -> Any:  # fmt: skip
        if lengths is not None and any(each != values.shape[0] for each in numbers(lengths)):
            raise ValueError("sequences of different lengths are not supported")
        if any(each is not None for each in initial[states:]):
            raise ValueError("cells that look at their own state (peepholes) are not supported")
        kind = call.get("direction", "forward")
        if kind == "reverse":
            values = values.flip(0)
        directions, size = again.shape[0], again.shape[2]
        ordered = tuple(range(gates)) if call.get("in_order") else order
        flat: list[Tensor] = []
        for direction in range(directions):
            halves = () if bias is None else bias[direction].chunk(2)
            flat += [_ordered(part, ordered) for part in (weight[direction], again[direction], *halves)]
        given = [initial[place] if place < len(initial) else None for place in range(states)]
        begin = [values.new_zeros(directions, values.shape[1], size) if each is None else each for each in given]
        _check_sizes(flat, gates, values, begin, biased=bias is not None, both=kind == "bidirectional")
        made, *ends = run(
            values, tuple(begin) if states > 1 else begin[0], flat, bias is not None, 1, 0.0, call.training,
            directions > 1, False,
        )  # fmt: skip
        made = made.view(*made.shape[:2], directions, size).transpose(1, 2)
        return (made.flip(0) if kind == "reverse" else made, *ends)

    return recurrent


def _check_sizes(
    flat: list[Tensor], gates: int, values: Tensor, begin: list[Tensor], *, biased: bool, both: bool
) -> None:
    """Raise ValueError for weights that do not fit: torch ends the process there."""
    directions, batch, size = begin[0].shape
    rows = gates * size
    wanted = [(rows, values.shape[-1]), (rows, size), *([(rows,), (rows,)] if biased else [])] * (1 + both)
    fits = [tuple(each.shape) for each in flat] == wanted and values.dim() == 3 and batch == values.shape[1]
    fits = fits and all(each.shape == begin[0].shape for each in begin) and directions == 1 + both
    if not fits or len({each.dtype for each in (*flat, *begin, values)}) > 1:
        raise ValueError("its weights and inputs do not fit each other")


def _ordered(weight: Tensor, order: tuple[int, ...]) -> Tensor:
    if list(order) == sorted(order):
        return weight
    parts = weight.chunk(len(order))
    return torch.cat([parts[place] for place in order])


LAYERS: dict[str, Any] = {
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "Dropout": _dropout,
    "GRU": _recurrent("GRU", torch.gru, 1),
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average_pool,
    "GlobalMaxPool": _global_max_pool,
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
    "LRN": _local_response_norm,
    "LSTM": _recurrent("LSTM", torch.lstm, 2),
    "LayerNormalization": _layer_norm,
    "LpNormalization": _lp_normalization,
    "MatMul": lambda _, left, right: torch.matmul(left, right),
    "MaxPool": _max_pool,
    "RMSNormalization": _rms_norm,
    "RNN": _recurrent("RNN", torch.rnn_tanh, 1),
    "Resize": _resize,
    "Upsample": _upsample,
}
