"""Operators of ONNX that move, cut, join and look up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from presage.estimators.training.sources._abstract import is_abstract
from presage.estimators.training.sources._onnx_call import Call, from_numpy, numbers, torch_dtype

_LONGEST_RANGE = 1 << 26


def _shape(call: Call, values: Any) -> Any:
    sizes = list(values.shape)
    return np.array(sizes[call.get("start", 0) : call.get("end", len(sizes))], dtype=np.int64)


def _size(_: Call, values: Any) -> Any:
    return np.array(math.prod(values.shape), dtype=np.int64)


def _reshape(call: Call, values: Tensor, shape: Any) -> Tensor:
    wanted = numbers(shape)
    if not call.get("allowzero", 0):
        wanted = [values.shape[place] if size == 0 else size for place, size in enumerate(wanted)]
    return values.reshape(call.with_batch(wanted, values.shape[0] if values.dim() else 1))


def _transpose(call: Call, values: Tensor) -> Tensor:
    return values.permute(call.get("perm") or list(reversed(range(values.dim()))))


def _flatten(call: Call, values: Tensor) -> Tensor:
    axis = call.get("axis", 1)
    axis = axis + values.dim() if axis < 0 else axis
    return values.reshape(math.prod(values.shape[:axis]), -1)


def _squeeze(call: Call, values: Tensor, axes: Any = None) -> Tensor:
    named = call.get("axes") if axes is None else numbers(axes)
    return values.squeeze(tuple(named)) if named else values.squeeze()


def _unsqueeze(call: Call, values: Tensor, axes: Any = None) -> Tensor:
    named = call.get("axes") if axes is None else numbers(axes)
    rank = values.dim() + len(named)
    for axis in sorted(each % rank for each in named):
        values = values.unsqueeze(axis)
    return values


def _concat(call: Call, *parts: Tensor) -> Tensor:
    return torch.cat(parts, dim=call.get("axis"))


def _split(call: Call, values: Tensor, sizes: Any = None) -> tuple[Tensor, ...]:
    axis = call.get("axis", 0)
    named = call.get("split") if sizes is None else numbers(sizes)
    if not named:
        return values.split(-(-values.shape[axis] // len(call.node.outputs)), axis)
    return values.split(named, axis)


def _slice(call: Call, values: Tensor, *places: Any) -> Tensor:
    starts, ends, axes, steps = (*places, None, None, None, None)[:4]
    first = call.get("starts") if starts is None else numbers(starts)
    last = call.get("ends") if ends is None else numbers(ends)
    named = call.get("axes") if axes is None else numbers(axes)
    named = list(range(len(first))) if named is None else named
    strides = [1] * len(first) if steps is None else numbers(steps)
    for axis, start, end, step in zip(named, first, last, strides, strict=True):
        kept = range(*slice(start, end, step).indices(values.shape[axis]))
        if step > 0:
            index: list[Any] = [slice(None)] * values.dim()
            index[axis] = slice(kept.start, kept.stop, kept.step)
            values = values[tuple(index)]
        else:
            values = values.index_select(axis, torch.tensor(list(kept), dtype=torch.long, device=values.device))
    return values


def _gather(call: Call, values: Tensor, indices: Tensor) -> Tensor:
    axis = call.get("axis", 0) % values.dim()
    indices = indices.to(torch.long)
    if axis == 0 and values.dim() == 2 and isinstance(values, torch.nn.Parameter):
        return functional.embedding(indices, values)
    if indices.numel() == 1:
        chosen = values.select(axis, int(indices)) if not is_abstract(indices) else values.select(axis, 0)
        return chosen if indices.dim() == 0 else chosen.unsqueeze(axis)
    flat = values.index_select(axis, _from_the_end(indices.reshape(-1), values.shape[axis]))
    return flat.reshape(*values.shape[:axis], *indices.shape, *values.shape[axis + 1 :])


def _from_the_end(indices: Tensor, size: int) -> Tensor:
    return torch.where(indices < 0, indices + size, indices)


def _gather_elements(call: Call, values: Tensor, indices: Tensor) -> Tensor:
    axis = call.get("axis", 0)
    return values.gather(axis, _from_the_end(indices, values.shape[axis]))


def _gather_nd(_: Call, values: Tensor, indices: Tensor) -> Tensor:
    return values[tuple(indices.unbind(-1))]


def _scatter_nd(_: Call, values: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    return values.index_put(tuple(indices.unbind(-1)), updates)


def _scatter_elements(call: Call, values: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    return values.scatter(call.get("axis", 0), indices, updates)


def _expand(call: Call, values: Tensor, shape: Any) -> Tensor:
    wanted = numbers(shape)
    rank = max(len(wanted), values.dim())
    mine = [1] * (rank - values.dim()) + list(values.shape)
    sizes = [
        own if size == 1 else size for own, size in zip(mine, [1] * (rank - len(wanted)) + wanted, strict=True)
    ]
    return values.expand(call.with_batch(sizes, mine[0]) if mine else sizes)


def _tile(_: Call, values: Tensor, repeats: Any) -> Tensor:
    return values.repeat(numbers(repeats))


def _constant_of_shape(call: Call, shape: Any) -> Tensor:
    value = call.get("value")
    filled = np.zeros(1, np.float32) if value is None else np.asarray(value).reshape(-1)
    kind = torch_dtype(str(filled.dtype))
    return torch.full(numbers(shape), filled[0].item(), dtype=kind, device=call.device)


def _range(_: Call, start: Any, end: Any, step: Any) -> Tensor:
    first, last, stride = numbers(start)[0], numbers(end)[0], numbers(step)[0]
    if abs(last - first) > _LONGEST_RANGE * abs(stride):
        raise ValueError("its range is too long")
    return from_numpy(np.arange(first, last, stride, dtype=np.asarray(start).dtype))


def _pad(call: Call, values: Tensor, pads: Any = None, value: Any = None, axes: Any = None) -> Tensor:
    widths = call.get("pads") if pads is None else numbers(pads)
    named = list(range(values.dim())) if axes is None else [each % values.dim() for each in numbers(axes)]
    both = dict(zip(named, zip(widths[: len(named)], widths[len(named) :], strict=True), strict=True))
    mode = {"edge": "replicate", "wrap": "circular"}.get(
        call.get("mode", "constant"), call.get("mode", "constant")
    )
    # torch counts from the last axis, and pads at edges only as many axes as there is something to pad.
    outermost = min((axis for axis, each in both.items() if any(each)), default=values.dim())
    places = range(values.dim() - 1, -1 if mode == "constant" else outermost - 1, -1)
    flat = [width for axis in places for width in both.get(axis, (0, 0))]
    if mode != "constant":
        return functional.pad(values, flat, mode=mode)
    filled = call.get("value", 0.0) if value is None else numbers(value)[0]
    return functional.pad(values, flat, value=filled)


def _depth_to_space(call: Call, values: Tensor) -> Tensor:
    size = call.get("blocksize")
    if call.get("mode", "DCR") == "CRD":
        return functional.pixel_shuffle(values, size)
    batch, channels, height, width = values.shape
    parts = values.reshape(batch, size, size, channels // size**2, height, width)
    return parts.permute(0, 3, 4, 1, 5, 2).reshape(batch, channels // size**2, height * size, width * size)


def _space_to_depth(call: Call, values: Tensor) -> Tensor:
    size = call.get("blocksize")
    batch, channels, height, width = values.shape
    parts = values.reshape(batch, channels, height // size, size, width // size, size)
    return parts.permute(0, 3, 5, 1, 2, 4).reshape(batch, channels * size**2, height // size, width // size)


def _triangle(call: Call, values: Tensor, diagonal: Any = None) -> Tensor:
    offset = 0 if diagonal is None else numbers(diagonal)[0]
    return torch.triu(values, offset) if call.get("upper", 1) else torch.tril(values, offset)


def _cumulative_sum(call: Call, values: Tensor, axis: Any) -> Tensor:
    place = numbers(axis)[0]
    backward = call.get("reverse", 0)
    source = values.flip(place) if backward else values
    total = source.cumsum(place)
    total = total - source if call.get("exclusive", 0) else total
    return total.flip(place) if backward else total


def _top_k(call: Call, values: Tensor, count: Any = None) -> tuple[Tensor, Tensor]:
    wanted = call.get("k") if count is None else numbers(count)[0]
    return torch.topk(
        values, wanted, call.get("axis", -1), bool(call.get("largest", 1)), bool(call.get("sorted", 1))
    )


def _arg_max(call: Call, values: Tensor) -> Tensor:
    return torch.argmax(values, call.get("axis", 0), bool(call.get("keepdims", 1)))


def _arg_min(call: Call, values: Tensor) -> Tensor:
    return torch.argmin(values, call.get("axis", 0), bool(call.get("keepdims", 1)))


def _one_hot(call: Call, indices: Tensor, depth: Any, values: Any) -> Tensor:
    off, on = numbers(values)
    size = int(numbers(depth)[0])
    hot = functional.one_hot(_from_the_end(indices.to(torch.long), size), size)
    kind = from_numpy(np.asarray(values)).dtype
    return (hot.to(kind) * (on - off) + off).movedim(-1, call.get("axis", -1))


def _einsum(call: Call, *parts: Tensor) -> Tensor:
    return torch.einsum(call.get("equation"), *parts)


SHAPES: dict[str, Any] = {
    "ArgMax": _arg_max, "ArgMin": _arg_min, "Concat": _concat, "ConstantOfShape": _constant_of_shape,
    "CumSum": _cumulative_sum, "DepthToSpace": _depth_to_space, "Einsum": _einsum, "Expand": _expand,
    "Flatten": _flatten, "Gather": _gather, "GatherElements": _gather_elements, "GatherND": _gather_nd,
    "OneHot": _one_hot, "Pad": _pad, "Range": _range, "Reshape": _reshape, "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd, "Shape": _shape, "Size": _size, "Slice": _slice, "SpaceToDepth": _space_to_depth,
    "Split": _split, "Squeeze": _squeeze, "Tile": _tile, "TopK": _top_k, "Transpose": _transpose,
    "Trilu": _triangle, "Unsqueeze": _unsqueeze,
}  # fmt: skip
