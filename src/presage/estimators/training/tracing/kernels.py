"""Which kernels a step would run on a device that is not there: dropout, attention, mixed precision."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from presage.estimators.workloads import Attention, Precision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PLACE_OF_DROPOUT = 4
_MIXED = {Precision.AMP_BF16: torch.bfloat16, Precision.AMP_FP16: torch.float16}

# What autocast leaves in fp32 on CUDA. On the CPU it has fewer, and only there can a step be traced.
_FULL_PRECISION_ON_CUDA = (
    "layer_norm", "group_norm", "softmax.int", "log_softmax.int", "exp", "log", "pow.Tensor_Scalar", "rsqrt",
    "reciprocal", "softplus", "sum", "sum.dim_IntList", "cumsum", "prod", "norm.Scalar", "mse_loss",
    "smooth_l1_loss", "l1_loss", "nll_loss", "binary_cross_entropy_with_logits", "kl_div", "cosine_similarity",
)  # fmt: skip


class _CudaRules:
    """Autocast's rules of CUDA, put beside those of the CPU and obeyed only while they are on."""

    def __init__(self) -> None:
        self.on = False
        self._library: torch.library.Library | None = None

    def register(self) -> None:
        if self._library is not None:
            return
        self._library = torch.library.Library("aten", "IMPL", "AutocastCPU")
        for name in _FULL_PRECISION_ON_CUDA:
            if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "AutocastCPU"):
                packet, _, overload = name.partition(".")
                operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
                self._library.impl(name, partial(self._run, operator))

    def _run(self, operator: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if self.on:
            arguments = tuple(_in_fp32(each) for each in arguments)
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)):
            return operator(*arguments, **named)


_CUDA_RULES = _CudaRules()


@contextlib.contextmanager
def kernels_for(attention: Attention, *, on_gpu: bool) -> Iterator[None]:
    """Within it, dropout and attention are computed as on a GPU, if `on_gpu`, and with this kind of attention."""
    fused_attention = on_gpu or attention is Attention.FLASH
    with contextlib.ExitStack() as stack:
        if attention is Attention.MATERIALISED:
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        elif fused_attention:
            stack.enter_context(_replaced("scaled_dot_product_attention", _attention_without_dropout))
        if on_gpu:
            stack.enter_context(_replaced("dropout", _dropout_of_gpus))
        yield


@contextlib.contextmanager
def precision_of(precision: Precision, *, on_gpu: bool) -> Iterator[None]:
    """Within it, autocast is on where the precision is a mixed one, with the rules of the device."""
    if precision not in _MIXED:
        yield
        return
    _CUDA_RULES.register()
    _CUDA_RULES.on = on_gpu
    try:
        with torch.autocast("cpu", dtype=_MIXED[precision]):
            yield
    finally:
        _CUDA_RULES.on = False


@contextlib.contextmanager
def _replaced(name: str, function: Callable[..., Any]) -> Iterator[None]:
    original = getattr(functional, name)
    setattr(functional, name, partial(function, original))
    try:
        yield
    finally:
        setattr(functional, name, original)


def _dropout_of_gpus(
    original: Callable[..., torch.Tensor],
    input: torch.Tensor,  # noqa: A002 the name by which torch's own is called
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> torch.Tensor:
    if inplace or not training or p <= 0:
        return original(input, p, training, inplace)
    return torch.native_dropout(input, p, True)[0]  # keeps truth values instead of factors


def _attention_without_dropout(original: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Run attention as kernels of GPUs do, which make the same dropout again instead of keeping the matrix."""
    named.pop("dropout_p", None)
    if len(arguments) > _PLACE_OF_DROPOUT:
        arguments = (*arguments[:_PLACE_OF_DROPOUT], 0.0, *arguments[_PLACE_OF_DROPOUT + 1 :])
    return original(*arguments, **named)


def _in_fp32(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in (torch.bfloat16, torch.float16):
        return value.float()
    return value
