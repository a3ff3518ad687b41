"""Watching a step: every operator that torch runs, and every storage it makes."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from presage.estimators.training.profile import OperatorClass
from presage.estimators.training.tracing.ledger import Ledger
from presage.estimators.training.tracing.operators import bytes_of, class_of, flops_of, is_free, tensors_in
from presage.estimators.training.tracing.workspaces import (
    Copies,
    backward_copies,
    forward_copies,
    recurrent_copies,
    recurrent_state,
)

if TYPE_CHECKING:
    from presage.estimators.training.tracing.memo import Memo

_WITH_WORKSPACE = {"convolution", "convolution_backward", "mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"}
_ASK_DEVICE = torch.ops.prim.device.default
_READ_A_VALUE = torch.ops.aten._local_scalar_dense.default


class StepCounter(TorchDispatchMode):
    """Enters storages in a ledger and, where `weight` is not 0, sums operators up, each so many times.

    While `in_optimizer`, a program that looks at a number on the device gets 1; a truth value is always no. Fake
    tensors have neither.
    """

    def __init__(self, memo: Memo, *, on_gpu: bool) -> None:
        super().__init__()
        self._memo = memo
        self.ledger = Ledger()
        self.weight = 0
        self.in_optimizer = False
        self._on_gpu = on_gpu
        self.looked_at_truth = False
        self._sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        self._graph = hashlib.sha256()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and guarding against it costs as much as the rest of a call

    @property
    def classes(self) -> dict[str, OperatorClass]:
        """What was counted, by kind."""
        return {
            kind: OperatorClass(int(calls), flops, moved)
            for kind, (calls, flops, moved) in sorted(self._sums.items())
        }

    @property
    def graph_digest(self) -> str:
        """A hash of all operators and the shapes they had, in their order."""
        return self._graph.hexdigest()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is _ASK_DEVICE and type(args[0]) is FakeTensor:
            return args[0].fake_device  # asked more often than anything is computed
        name = func._opname
        if func is _READ_A_VALUE and args[0].dtype is torch.bool:
            self.looked_at_truth = True
            return False
        if self.in_optimizer and func is _READ_A_VALUE:
            return 1.0 if args[0].is_floating_point() else 1
        if self.in_optimizer and name[-1] == "_" and isinstance(args[0], torch.Tensor):
            result = args[0]  # changed in place: no other shape, nothing allocated
        else:
            result = self._memo.run(func, args, kwargs or {})
        made = [result] if isinstance(result, torch.Tensor) else list(tensors_in(result))
        if name in _WITH_WORKSPACE:
            result = self._with_workspace(name, args, result)
            made = list(tensors_in(result))
        for tensor in made:
            self.ledger.see(tensor.untyped_storage())
        if self.weight and (made or name.startswith("_foreach_")):
            self._count(func, name, (*args, *kwargs.values()) if kwargs else args, made)
        return result

    def _with_workspace(self, name: str, arguments: tuple[Any, ...], result: Any) -> Any:
        """Enter what the kernel needs inside, in the order in which it does."""
        if name == "mkldnn_rnn_layer":
            kept = recurrent_state(arguments, on_gpu=self._on_gpu)
            result = (*result[:3], arguments[0].new_empty(kept, dtype=torch.uint8))
        if self._on_gpu:
            return result
        if name == "convolution":
            self._make(result, forward_copies(arguments, result))
        elif name == "convolution_backward":
            for tensor, copies in zip(result, backward_copies(arguments), strict=False):
                if tensor is not None:
                    self._make(tensor, copies)
        else:
            self.ledger.pass_through(recurrent_copies(arguments))
        return result

    def _make(self, tensor: torch.Tensor, copies: Copies) -> None:
        self.ledger.pass_through(copies.before)
        self.ledger.see(tensor.untyped_storage())
        self.ledger.pass_through(copies.after)

    def _count(
        self, operator: torch._ops.OpOverload, name: str, arguments: tuple[Any, ...], made: list[torch.Tensor]
    ) -> None:
        shapes = ",".join(str(tuple(each.shape)) + str(each.dtype) for each in made)
        self._graph.update(f"{name}({shapes})x{self.weight}\n".encode())
        if is_free(operator, name):
            return
        kind = class_of(operator, name, arguments)
        result: Any = made[0] if len(made) == 1 else made
        sums = self._sums[kind]
        sums[0] += self.weight
        sums[1] += self.weight * flops_of(kind, name, arguments, result)
        sums[2] += self.weight * bytes_of(name, arguments, result)
