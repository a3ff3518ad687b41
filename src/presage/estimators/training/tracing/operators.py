"""What an operator is, calculates and moves, by its name and the shapes of its tensors."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Arguments: TypeAlias = tuple[Any, ...]

_MATMUL = {
    "mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "addr", "linear", "linear_backward",
    "mkldnn_rnn_layer", "mkldnn_rnn_layer_backward",
}  # fmt: skip
_CONVOLUTION = {"convolution", "convolution_backward"}
_NORM = {
    "native_layer_norm", "native_layer_norm_backward", "native_batch_norm", "native_batch_norm_backward",
    "native_group_norm", "native_group_norm_backward", "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training", "_batch_norm_with_update", "batch_norm_backward", "_fused_rms_norm",
    "_fused_rms_norm_backward",
}  # fmt: skip
_EMBEDDING = {
    "embedding", "embedding_dense_backward", "_embedding_bag", "_embedding_bag_forward_only",
    "_embedding_bag_dense_backward", "_embedding_bag_backward", "embedding_renorm_", "index_select", "index",
    "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "gather", "scatter", "scatter_", "scatter_add",
    "scatter_add_", "index_add", "index_add_",
}  # fmt: skip
_REDUCTION = {
    "sum", "mean", "max", "min", "amax", "amin", "argmax", "argmin", "prod", "var", "var_mean", "std", "std_mean",
    "norm", "linalg_vector_norm", "logsumexp", "cumsum", "all", "any", "_softmax", "_safe_softmax",
    "_softmax_backward_data", "_log_softmax", "_log_softmax_backward_data", "nll_loss_forward",
    "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward", "mse_loss", "max_pool2d_with_indices",
    "max_pool2d_with_indices_backward", "max_pool3d_with_indices", "max_pool3d_with_indices_backward",
    "avg_pool2d", "avg_pool2d_backward", "avg_pool3d", "avg_pool3d_backward", "_adaptive_avg_pool2d",
    "_adaptive_avg_pool2d_backward", "adaptive_max_pool2d", "topk", "sort",
}  # fmt: skip
_COPY = {
    "clone", "copy_", "_to_copy", "cat", "stack", "fill", "fill_", "zero_", "zeros", "zeros_like", "new_zeros",
    "ones", "ones_like", "new_ones", "full", "full_like", "new_full", "arange", "constant_pad_nd",
    "slice_backward", "select_backward", "repeat", "roll", "flip", "upsample_nearest2d",
    "upsample_nearest2d_backward", "_unsafe_view", "tril", "triu", "as_strided_scatter", "slice_scatter",
    "_reshape_copy", "diagonal_backward", "unfold_backward", "_foreach_copy_",
}  # fmt: skip
_ELEMENTWISE = {
    "native_dropout", "native_dropout_backward", "bernoulli", "bernoulli_", "uniform_", "normal_", "rand_like",
    "_thnn_fused_lstm_cell", "_thnn_fused_lstm_cell_backward_impl", "_thnn_fused_gru_cell",
    "_thnn_fused_gru_cell_backward", "glu", "glu_backward", "upsample_bilinear2d", "upsample_bilinear2d_backward",
}  # fmt: skip
_FREE = {
    "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "_local_scalar_dense", "lift_fresh",
    "detach", "detach_", "_fused_sdp_choice", "resize_", "_unsafe_view", "alias", "is_same_size", "set_",
}  # fmt: skip
_GATHERS = {"embedding", "_embedding_bag", "_embedding_bag_forward_only", "index_select", "index", "gather"}
_NORM_FLOPS_PER_ELEMENT = 5


def is_free(operator: torch._ops.OpOverload, name: str) -> bool:
    """Say whether an operator only makes room, or looks at memory in another way."""
    return operator.is_view or name in _FREE or operator.namespace != "aten"


def class_of(operator: torch._ops.OpOverload, name: str, arguments: Arguments) -> str:
    """Return the kind of an operator, one of those that a StepProfile has."""
    if name in _CONVOLUTION:
        return "depthwise-conv" if _is_depthwise(name, arguments) else "conv"
    if "_attention" in name:
        return "attention"
    for kind, names in _KINDS.items():
        if name in names:
            return kind
    if torch.Tag.pointwise in operator.tags or name.startswith("_foreach_") or name.endswith("_backward"):
        return "elementwise"
    return "other"


_KINDS = {
    "matmul": _MATMUL, "norm": _NORM, "embedding": _EMBEDDING, "reduction": _REDUCTION, "copy": _COPY,
    "elementwise": _ELEMENTWISE,
}  # fmt: skip


def flops_of(kind: str, name: str, arguments: Arguments, result: Any) -> float:
    """Return the floating-point operations of a call; a product and a sum are two."""
    formula = _FORMULAS.get(name)
    if formula is not None:
        return 2.0 * formula(arguments, result)
    if kind == "attention":
        return 2.0 * _attention(name, arguments)
    if kind == "norm":
        return float(_NORM_FLOPS_PER_ELEMENT * _largest(arguments))
    if kind == "reduction":
        return float(_largest(arguments))
    if kind == "elementwise":
        return float(sum(each.numel() for each in tensors_in(result)) or _largest(arguments))
    return 0.0


def bytes_of(name: str, arguments: Arguments, result: Any) -> float:
    """Return the bytes that a call reads and writes. What is picked from a table is read, not the whole table."""
    written = sum(_bytes(each) for each in tensors_in(result))
    if name in _GATHERS:
        picked = sum(_bytes(each) for each in tensors_in(arguments[1:]))
        return float(2 * written + picked)
    return float(written + sum(_bytes(each) for each in tensors_in(arguments)))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of nested lists and tuples."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_in(each)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _largest(arguments: Arguments) -> int:
    first = arguments[0] if arguments else None
    if isinstance(first, list | tuple):
        return sum(each.numel() for each in tensors_in(first))
    return max((each.numel() for each in tensors_in(arguments)), default=0)


def _is_depthwise(name: str, arguments: Arguments) -> bool:
    backward = name == "convolution_backward"
    groups = arguments[9 if backward else 8]
    return groups > 1 and groups == arguments[1 if backward else 0].shape[1]


def _matrix_product(first: torch.Tensor, second: torch.Tensor) -> int:
    return int(first.numel() * second.shape[-1]) if second.dim() > 1 else int(first.numel())


def _convolution_sums(inputs: torch.Tensor, weight: torch.Tensor, outputs: torch.Tensor, transposed: bool) -> int:
    """Products of a forward pass. Each has one partner in the gradient of the inputs and one in the weights'."""
    spread = inputs if transposed else outputs
    return int(spread.numel() * prod(weight.shape[1:]))


def _convolution(arguments: Arguments, result: Any) -> int:
    return _convolution_sums(arguments[0], arguments[1], result, arguments[6])


def _convolution_backward(arguments: Arguments, _: Any) -> int:
    outputs, inputs, weight, transposed, mask = (arguments[place] for place in (0, 1, 2, 7, 10))
    return _convolution_sums(inputs, weight, outputs, transposed) * (int(mask[0]) + int(mask[1]))


def _recurrent(arguments: Arguments, _: Any) -> int:
    inputs, of_inputs, of_state = arguments[:3]
    steps_and_batch = prod(inputs.shape[:2])
    return int(steps_and_batch * (of_inputs.numel() + of_state.numel()))


def _recurrent_backward(arguments: Arguments, result: Any) -> int:
    return 2 * _recurrent(arguments, result)


def _attention(name: str, arguments: Arguments) -> float:
    """Products of Q·Kᵀ and of its result with V; backward twice that and Q·Kᵀ once more, as it was not kept."""
    first = 1 if "backward" in name else 0
    query, key, value = arguments[first : first + 3]
    pairs = prod(query.shape[:-1]) * key.shape[-2]
    width, value_width = query.shape[-1], value.shape[-1]
    if "backward" in name:
        return float(pairs * (3 * width + 2 * value_width))
    return float(pairs * (width + value_width))


_FORMULAS: dict[str, Callable[[Arguments, Any], int]] = {
    "mm": lambda arguments, _: _matrix_product(arguments[0], arguments[1]),
    "bmm": lambda arguments, _: _matrix_product(arguments[0], arguments[1]),
    "mv": lambda arguments, _: _matrix_product(arguments[0], arguments[1]),
    "dot": lambda arguments, _: _matrix_product(arguments[0], arguments[1]),
    "addmm": lambda arguments, _: _matrix_product(arguments[1], arguments[2]),
    "addmv": lambda arguments, _: _matrix_product(arguments[1], arguments[2]),
    "baddbmm": lambda arguments, _: _matrix_product(arguments[1], arguments[2]),
    "addbmm": lambda arguments, _: _matrix_product(arguments[1], arguments[2]),
    "linear": lambda arguments, _: int(arguments[0].numel() * arguments[1].shape[0]),
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "mkldnn_rnn_layer": _recurrent,
    "mkldnn_rnn_layer_backward": _recurrent_backward,
}
